"""What running out of GPU memory has taught about an inference job: an annotation of its Deployment. Pure.

It is written together with the pod template that follows from it, so that neither is ever there without the other.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Final

from pydantic import Field

from cotenant_api import documents, errors
from cotenant_operator import labels
from cotenant_operator.state.carried import MAX_MESSAGE, Carried, Count, MiB
from cotenant_operator.state.suspicions import Suspicion


class Shortage(documents.Document):
    """How often pods of a Deployment ran out of GPU memory, and what those of its template get for it."""

    MAJOR: ClassVar[int] = 1

    of: str = ""
    """Digest of what was run: another model or batch needs another amount."""
    out_of_memory: Count = 0
    """Templates whose pods ran out of GPU memory."""
    memory_mib: MiB | None = Field(default=None, alias="memoryMiB")
    """GPU memory that a pod needs at least, as those before have shown."""
    exclusive: bool = False
    """Its pods get whole GPUs, although they need not by the spec."""
    given_up: bool = False
    """No GPU that the job may use has more."""
    at: str = ""
    """When it last ran out, as RFC 3339; empty where there is nothing to tell of that."""
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""
    """What happened then, and what follows."""

    @property
    def taken_over(self) -> Carried:
        """As the attempts of a training job take it over."""
        return Carried(out_of_memory=self.out_of_memory, memory_mib=self.memory_mib, exclusive=self.exclusive)

    @property
    def since(self) -> datetime | None:
        """When it last ran out; None where there is nothing to tell of that."""
        return datetime.fromisoformat(self.at) if self.at else None

    def settled(self) -> "Shortage":
        """Return what is known of the memory alone: the spec has changed, and nothing is known of how that one does."""
        return self.model_copy(update={"given_up": False, "at": "", "message": ""})


NONE: Final = Shortage()
"""Nothing is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lessons:
    """All that a Deployment's pods have taught.

    Attributes:
        shortage: by running out of GPU memory.
        suspicion: by being where faults were.
    """

    shortage: Shortage = NONE
    suspicion: Suspicion | None = None

    @property
    def taken_over(self) -> Carried:
        """As the attempts of a training job take it over."""
        return self.shortage.taken_over.model_copy(update={"suspicion": self.suspicion})


NO_LESSONS: Final = Lessons()


def read(text: str | None) -> Shortage:
    """Return the annotation.

    NONE without one, or where somebody spoilt it: then the job runs out and learns once more.
    """
    if text is None:
        return NONE
    try:
        found = Shortage.from_json(text, source=labels.SHORTAGE)
        dated = found.since is None or found.since.tzinfo is not None
    except (errors.InvalidInputError, ValueError):
        return NONE
    return found if dated else NONE
