"""What is held against a job that was there when a fault hit its GPU and nobody knows whose it was. Pure.

    first time    its pods share no GPU with another suspect, until they have run on for a while
    second time   its pods get GPUs to themselves: who faults alone is the one
    cleared       once it has run twice as long without a fault as it had when it was hit: the next is a first time
    fourth time   alone for good, whatever it did between

It counts against nobody. A job that always faults is alone after it has met two sets of neighbours, one that faults
as it pleases after four. Values only; annotations of Jobs and Deployments hold them.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from cotenant_api import documents, errors
from cotenant_operator import labels

Count = Annotated[int, Field(ge=0)]
APART_SECONDS: Final = (60, 1800)
"""Bounds of how long suspects are kept apart: on a small cluster one of them waits for so long."""
PATIENCE: Final = 2
"""So many times as long as it had run must a job run without a fault until it is cleared."""
MOST_FAULTS: Final = 4
"""A job that was there at so many is alone for good: no choice of when to fault takes down more neighbours."""
ALONE_SECONDS: Final = 3600
"""So long at least must pods that have GPUs to themselves run without a fault until they share again."""


class Suspicion(documents.Document):
    """Faults at which the job was there, as it ran on after each of them."""

    MAJOR: ClassVar[int] = 1

    faults: Count = 1
    """How many there were since it was cleared."""
    ever: Annotated[int, Field(ge=1)] = 1
    """How many there were in all."""
    fault: str
    """Id of the last."""
    seconds: Count = 0
    """The longest that it had run when one of them hit it."""

    @property
    def alone(self) -> bool:
        """Whether it gets GPUs to itself."""
        return self.faults > 1 or self.for_good

    @property
    def for_good(self) -> bool:
        """Whether no run clears it any more."""
        return self.ever >= MOST_FAULTS

    @property
    def suspected(self) -> bool:
        """Whether anything is held against it now."""
        return self.faults > 0 or self.for_good

    @property
    def apart_seconds(self) -> int:
        """How long its pods have to run before they share a GPU with another suspect."""
        least, most = APART_SECONDS
        return min(max(PATIENCE * self.seconds, least), most)

    def outlived(self, seconds: float) -> bool:
        """Return whether a run of so long clears the job."""
        return seconds > PATIENCE * self.seconds

    @property
    def alone_seconds(self) -> int:
        """How long pods that have GPUs to themselves have to run until they share again."""
        return max(PATIENCE * self.seconds, ALONE_SECONDS)

    def cleared(self) -> "Suspicion":
        """Return what is kept of a job that has run on for long enough."""
        return self.model_copy(update={"faults": 0})


def after(before: Suspicion | None, fault: str | None, seconds: int) -> Suspicion | None:
    """Return what is held against a job that has run for so long, and was then hit by a fault, or None, was not."""
    kept = before.cleared() if before is not None and before.outlived(seconds) else before
    if fault is None:
        return kept
    if kept is None:
        return Suspicion(fault=fault, seconds=seconds)
    longest = max(kept.seconds, seconds)
    return Suspicion(faults=kept.faults + 1, ever=kept.ever + 1, fault=fault, seconds=longest)


def read(text: str | None) -> Suspicion | None:
    """Return the annotation of a Deployment.

    None without one, or where somebody spoilt it: nothing is held against it.
    """
    if text is None:
        return None
    try:
        return Suspicion.from_json(text, source=labels.SUSPICION)
    except errors.InvalidInputError:
        return None
