"""Digests that a workload carries of the spec that it was made from. `workloads.digests` compares them. Pure."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from cotenant_api import documents, errors
from cotenant_operator import labels

MAX_DIGEST = 128
Digest = Annotated[str, Field(max_length=MAX_DIGEST)]


class MadeFrom(documents.Document):
    """The digests by which this release tells that a spec has changed: an annotation of Jobs and Deployments."""

    MAJOR: ClassVar[int] = 1

    spec: Digest
    """Of all that the workload is made from."""
    model: Digest
    """Of what a prediction is made from."""
    beside: Digest
    """Value of the annotation `spec-digest` that was written with this one.

    Release 0.1.0 writes that annotation and leaves this one. Where the two differ, this one is older than the workload.
    """
    queue: Digest | None = None
    """Of the DLJob's labels that are Kueue's; None: written by a build that did not look at them again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What a workload says of the spec that it was made from.

    Attributes:
        spec: the annotation `spec-digest`, as release 0.1.0 reads it.
        model: the annotation `model-digest`, likewise.
        made_from: the annotation `made-from`; None: there is none that can be read.
    """

    spec: str = ""
    model: str = ""
    made_from: MadeFrom | None = None

    @property
    def own(self) -> MadeFrom | None:
        """What this release wrote, unless another release has made the workload again since."""
        found = self.made_from
        return found if found is not None and found.beside == self.spec else None


def read(*, spec: str | None, model: str | None, made_from: str | None) -> Origin:
    """Return the origin that these annotations name; what cannot be read counts as absent."""
    return Origin(spec=(spec or "")[:MAX_DIGEST], model=(model or "")[:MAX_DIGEST], made_from=_made_from(made_from))


def _made_from(text: str | None) -> MadeFrom | None:
    if text is None:
        return None
    try:
        return MadeFrom.from_json(text, source=labels.MADE_FROM)
    except errors.InvalidInputError:
        return None
