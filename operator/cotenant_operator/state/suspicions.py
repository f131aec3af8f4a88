"""What is held against a job that was there when a fault hit its GPU and nobody knows whose it was. Pure.

    first time    its pods share no GPU with another suspect, until they have run on for a while
    second time   its pods get GPUs to themselves: who faults alone is the one
    forgotten     once it has run twice as long without a fault as it had when it was hit

It counts against nobody. A job that always faults is alone after it has met two sets of neighbours at most. Values
only; annotations of Jobs and Deployments hold them.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from cotenant_api import documents, errors
from cotenant_operator import labels

Count = Annotated[int, Field(ge=0)]
APART_SECONDS: Final = (60, 1800)
"""Bounds of how long suspects are kept apart: on a small cluster one of them waits for so long."""
PATIENCE: Final = 2
"""So many times as long as it had run must a job run without a fault until nothing is held against it."""


class Suspicion(documents.Document):
    """Faults at which the job was there, as it ran on after each of them."""

    MAJOR: ClassVar[int] = 1

    faults: Annotated[int, Field(ge=1)] = 1
    """How many there were since it last ran long enough without one."""
    fault: str
    """Id of the last."""
    seconds: Count = 0
    """The longest that it had run when one of them hit it."""

    @property
    def alone(self) -> bool:
        """Whether it gets GPUs to itself."""
        return self.faults > 1

    @property
    def apart_seconds(self) -> int:
        """How long its pods have to run before they share a GPU with another suspect."""
        least, most = APART_SECONDS
        return min(max(PATIENCE * self.seconds, least), most)

    def outlived(self, seconds: float) -> bool:
        """Return whether a run of so long clears the job."""
        return seconds > PATIENCE * self.seconds


def after(before: Suspicion | None, fault: str, seconds: int) -> Suspicion:
    """What is held against a job that a fault hit when it had run for so long."""
    if before is None or before.outlived(seconds):
        return Suspicion(fault=fault, seconds=seconds)
    return Suspicion(faults=before.faults + 1, fault=fault, seconds=max(before.seconds, seconds))


def read(text: str | None) -> Suspicion | None:
    """The annotation of a Deployment; None without one, or where somebody spoilt it: nothing is held against it."""
    if text is None:
        return None
    try:
        return Suspicion.from_json(text, source=labels.SUSPICION)
    except errors.InvalidInputError:
        return None
