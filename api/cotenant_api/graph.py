"""The graph document: what a job computes in one step, operator by operator.

`flops` and bytes are per occurrence, one multiply-add is 2 FLOPs, and operators that are equal in every
key but `repeat` are folded. Stored as JSON, or gzipped where the name ends in `.gz`.
"""

import enum
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from pydantic import FailFast, Field

from cotenant_api import documents, errors
from cotenant_api.names import GraphDigest

MAX_COMPRESSED_BYTES = 128 * 1024
"""What a gzipped document may have. `docs/concepts/untrusted-input.md` holds these bounds against real models."""
MAX_BYTES = 4 * 1024 * 1024
"""What a document may have, unpacked: a bound against archives that explode."""
MAX_PARTS = 250_000
"""Values in a document, some 15 for each of its operators: a bound against small text that is large in memory."""
MAX_OPERATORS = 10_000
MAX_INLINE_BYTES = 64 * 1024
"""What a DLJob may carry inline."""

MAX_COUNT = 10**18
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class OperatorClass(enum.StrEnum):
    """What kind of kernel runs; decides which efficiency applies."""

    CONV = "conv"
    MATMUL = "matmul"
    ATTENTION = "attention"
    NORM = "norm"
    RNN = "rnn"
    EMBEDDING = "embedding"
    POOL = "pool"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    COPY = "copy"
    COLLECTIVE = "collective"
    SPARSE = "sparse"
    OTHER = "other"


class Phase(enum.StrEnum):
    """The part of a step that an operator belongs to."""

    FORWARD = "Forward"
    BACKWARD = "Backward"
    OPTIMIZER = "Optimizer"


class Mode(enum.StrEnum):
    """Whether a step trains or infers."""

    TRAINING = "Training"
    INFERENCE = "Inference"


class Precision(enum.StrEnum):
    """The type that matrix work runs in."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"


class Host(documents.Model):
    """What feeds the GPU."""

    loader_workers: Count = 0
    samples_per_second: Rate | None = None
    """What the input pipeline delivers at most; unknown: not a limit."""
    data_on_gpu: bool = Field(default=False, alias="dataOnGPU")


class Inference(documents.Model):
    """The declared load of an inference job."""

    requests_per_second: Rate
    samples_per_request: Positive = 1


class Distributed(documents.Model):
    """How a job is spread."""

    replicas: Positive = 1
    gpus_per_replica: Positive = 1
    strategy: str = "None"
    gradient_bytes: Count = 0


class Operator(documents.Model):
    """One operator, or `repeat` equal ones. Bytes and FLOPs are of one occurrence."""

    operator_class: OperatorClass = Field(alias="class")
    name: str = Field(min_length=1, max_length=256)
    phase: Phase
    repeat: Positive = 1
    kernels: Count = 1
    """Kernel launches of one occurrence; views launch none."""
    flops: Count = 0
    bytes_read: Count = 0
    bytes_written: Count = 0
    output_elements: Count = 0
    dtype: str = "fp32"
    dims: dict[str, Count] = Field(default_factory=dict)


class Coverage(documents.Model):
    """What the extractor did not know, by name and count."""

    operators: Count = 0
    unknown: dict[str, Count] = Field(default_factory=dict)
    flops_percent: Annotated[float, Field(ge=0, le=100)] = 100.0


class Graph(documents.Document):
    """A graph document, version 1."""

    FILE: ClassVar[str] = "graph.json"

    digest: GraphDigest = GraphDigest("")
    name: str = Field(min_length=1, max_length=253)
    framework: str = "unknown"
    mode: Mode
    batch_size: Positive
    precision: Precision = Precision.FP32
    optimizer: str | None = None
    compiled: bool = False
    parameters: Count
    parameter_bytes: Count
    saved_activation_bytes: Count = 0
    peak_activation_bytes: Count | None = None
    """The most that is alive at once of what the step makes: activations, copies, gradients. None: not known."""
    channels_last: bool = False
    """Whether convolutions work on tensors whose channels lie side by side."""
    input_bytes_per_step: Count = 0
    critical_path_operators: Count = 0
    host: Host = Host()
    inference: Inference | None = None
    distributed: Distributed = Distributed()
    operators: Annotated[tuple[Operator, ...], FailFast()] = Field(min_length=1, max_length=MAX_OPERATORS)
    coverage: Coverage = Coverage()

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object; what writers of before did not know is there only where it says something."""
        return documents.without(super().to_object(), peakActivationBytes=None, channelsLast=False)

    def computed_digest(self) -> GraphDigest:
        """`sha256:` of the canonical JSON without name and digest."""
        content = self.to_object()
        del content["name"], content["digest"]
        return GraphDigest("sha256:" + hashlib.sha256(documents.canonical(content).encode()).hexdigest())

    def sealed(self) -> Self:
        """Return the same graph with its digest filled in."""
        return self.model_copy(update={"digest": self.computed_digest()})

    @classmethod
    def read(cls, data: bytes, *, source: str) -> Self:
        """Read a document, gzipped or not, and check its digest.

        A document without a digest is given one: the digest is the writer's promise, not the reader's need.

        Raises:
            InvalidInputError: the data is damaged, too large, no graph, or its digest is another one.
        """
        text = unpacked(data, source=source)
        values = parts(text)
        if len(text) > MAX_BYTES or values > MAX_PARTS:
            remedy = f"must be a graph of at most {MAX_BYTES} bytes and {MAX_PARTS} values"
            raise errors.InvalidInputError(source, f"{len(text)} bytes, {values} values", remedy)
        graph = cls.from_json(text, source=source)
        digest = graph.computed_digest()
        if graph.digest not in ("", digest):
            remedy = f"the content's digest is {digest}: extract the graph again, or remove the key"
            raise errors.InvalidInputError(f"{source}.digest", graph.digest, remedy)
        return graph.model_copy(update={"digest": digest})

    def packed(self) -> bytes:
        """Return the gzipped document; the same bytes for the same graph."""
        return gzip.compress(self.to_json().encode(), mtime=0)


def parts(text: bytes) -> int:
    """Return how many values a text has, more or less: without reading it."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{"))


def folded(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    """Operators that are equal in every key but `repeat`, made one, in order of first occurrence."""
    counts: dict[str, int] = {}
    first: dict[str, Operator] = {}
    for operator in operators:
        key = documents.canonical(operator.model_dump(mode="json", exclude={"repeat"}))
        counts[key] = counts.get(key, 0) + operator.repeat
        first.setdefault(key, operator)
    return tuple(operator.model_copy(update={"repeat": counts[key]}) for key, operator in first.items())


def unpacked(data: bytes, *, source: str) -> bytes:
    """Return the text of a document, gzipped or not.

    Raises:
        InvalidInputError: the gzip file is damaged, or unpacks to more than a graph may have.
    """
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise errors.InvalidInputError(source, data[:16], f"must be a whole gzip file: {error}") from error
    if len(text) > MAX_BYTES:
        raise errors.InvalidInputError(source, f"more than {MAX_BYTES} bytes", "must unpack to a graph of less")
    return text
