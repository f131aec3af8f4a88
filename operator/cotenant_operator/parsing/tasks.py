"""What the reading process is asked, and what it answers: values and their JSON. Imports nothing heavy."""

import enum
import hashlib
from typing import Annotated, Final

from pydantic import Field

from cotenant_api import documents, errors
from cotenant_api.measurement import Measurement
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_api.prediction import Prediction

MAX_PROBLEM: Final = 800
"""Characters of a problem: it becomes part of a condition's message."""

REMEDY: Final = (
    "extract a smaller part of the model, or reserve whole GPUs without a prediction (spec.sharing: Exclusive)"
)


class Kind(enum.StrEnum):
    """What is wanted of the bytes."""

    PREDICTION = "Prediction"
    """The prediction of a graph for every GPU model that is known."""
    DOCUMENT = "Document"
    """The graph document itself, checked and packed."""
    DIGEST = "Digest"
    """The digest of a graph document."""
    LINES = "Lines"
    """The measurements in lines of JSON; lines that cannot be read are counted."""


class _Message(documents.Model):
    """A value that is sent over a socket."""

    def text(self) -> bytes:
        """As JSON."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True).encode()


class ONNX(documents.Model):
    """The bytes are a gzipped ONNX file without weights, and this is what the spec says of it."""

    name: str
    batch_size: int
    mode: str
    precision: str
    shapes: dict[str, tuple[int, ...]] = Field(default_factory=dict)


class Task(_Message):
    """One request.

    Attributes:
        source: what the bytes are called in messages.
        onnx: of an ONNX file; None: the bytes are a graph document, or lines.
        requests_per_second: the load that an inference job declares.
        cpu_cores: what the job has for loading its input; None: no limit.
    """

    kind: Kind
    source: str
    onnx: ONNX | None = None
    requests_per_second: float | None = None
    cpu_cores: float | None = None


class Answer(_Message):
    """What came of it. With a problem or a fault there is nothing else.

    Attributes:
        prediction: of a graph.
        graph: its digest.
        packed: the gzipped graph document, in base64.
        lines: measurements, the oldest first.
        skipped: how many lines could not be read.
        problem: why the bytes cannot be used, whoever reads them again.
        fault: what went wrong that is no fault of the bytes; it may go well another time.
    """

    prediction: Prediction | None = None
    graph: GraphDigest | None = None
    packed: str | None = None
    lines: tuple[Measurement, ...] = ()
    skipped: Annotated[int, Field(ge=0)] = 0
    problem: Annotated[str, Field(max_length=MAX_PROBLEM)] | None = None
    fault: Annotated[str, Field(max_length=MAX_PROBLEM)] | None = None


class Ready(_Message):
    """What the reading process says of itself when it has loaded everything.

    Attributes:
        version: of all that an answer depends on beside the bytes: release, onnx, model and GPU models.
        model: reference of the model that predicts.
        devices: the GPU models that are known.
        error: why it cannot serve; empty: it can.
    """

    version: str = ""
    model: str = ""
    devices: tuple[GPUModel, ...] = ()
    error: str = ""


def refused(problem: str) -> Answer:
    """Return the bytes cannot be used."""
    return Answer(problem=_cut(problem))


def failed(fault: str) -> Answer:
    """Return the bytes could not be read this time."""
    return Answer(fault=_cut(fault))


def too_large(task: Task, size: int, limit: str) -> Answer:
    """Refuse bytes: reading them takes more than it may."""
    remedy = f"takes more than {limit} to read: {REMEDY}"
    return refused(str(errors.InvalidInputError(task.source, f"{size} bytes", remedy)))


def digest(version: str, task: Task, data: bytes) -> str:
    """Digest of a question: of the bytes, of what is asked of them, and of who answers."""
    found = hashlib.sha256()
    for part in (version.encode(), task.text(), data):
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return "sha256:" + found.hexdigest()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_PROBLEM else f"{text[: MAX_PROBLEM - 3]}..."
