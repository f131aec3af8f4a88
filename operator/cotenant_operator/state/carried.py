"""What an attempt takes over from those before it, and why one was ended: two annotations of its Job. Pure.

They are the memory of a training job: the next attempt rests on what its predecessor's Job carries, whatever became
of pods and GPUNodes meanwhile. What cannot be read ends the DLJob, and is never guessed.
"""

import enum
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from cotenant_api import documents
from cotenant_operator.state.measured import Measured
from cotenant_operator.state.suspicions import Suspicion

MiB = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
MAX_MESSAGE: Final = 1024


class Cause(enum.StrEnum):
    """Why an attempt, or a pod of it, ended."""

    OUT_OF_MEMORY = "OutOfMemory"
    """It ran out of GPU memory."""
    HOST_OUT_OF_MEMORY = "HostOutOfMemory"
    """The kernel killed it for the host's memory."""
    VICTIM_OF_FAULT = "VictimOfFault"
    """Another tenant, or the hardware, broke the GPU under it."""
    NEVER_STARTED = "NeverStarted"
    """It failed before any container started."""
    DISRUPTED = "Disrupted"
    """A member of a gang was evicted: the others cannot go on without it."""
    PROFILED = "Profiled"
    """It has been measured alone for long enough."""
    CORRECTED = "Corrected"
    """What was measured alone says that it is to be placed differently."""
    SUSPENDED = "Suspended"
    """The DLJob was suspended, and another controller would have resumed its Job."""
    FAILED = "Failed"
    """By its own doing."""


UNCOUNTED: Final = frozenset(Cause) - {Cause.FAILED, Cause.HOST_OUT_OF_MEMORY}
"""Causes that do not count against `backoffLimit`."""
AT_ONCE: Final = frozenset({Cause.OUT_OF_MEMORY, Cause.PROFILED, Cause.CORRECTED, Cause.SUSPENDED})
"""Causes that the next attempt remedies, or that are none: nothing is gained by waiting."""


class Carried(documents.Document):
    """What an attempt takes over: annotation `cotenant.dev/carried` of its Job, written when it is made."""

    MAJOR: ClassVar[int] = 1

    failures: Count = 0
    """Failures of all attempts before it that count against `backoffLimit`."""
    uncounted: Count = 0
    """Attempts before it that ended for no fault of theirs and were waited after."""
    out_of_memory: Count = 0
    """Attempts before it that ran out of GPU memory."""
    memory_mib: MiB | None = Field(default=None, alias="memoryMiB")
    """GPU memory that it needs at least, as the attempts before it have shown."""
    exclusive: bool = False
    """It gets whole GPUs, although it need not by its spec."""
    profile: bool = False
    """It has a GPU to itself in order to be measured, and is ended when it has been."""
    measured: Measured | None = None
    """What the attempts before it were measured to do alone."""
    suspicion: Suspicion | None = None
    """What is held against it, of faults that nobody knows the cause of."""

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object; what only few jobs have is there only for them."""
        return documents.without(super().to_object(), measured=None, profile=False, suspicion=None)


FIRST: Final = Carried()
"""What a first attempt takes over: nothing."""


class Ended(documents.Document):
    """Why and how an attempt ended: annotation `cotenant.dev/ended` of its Job."""

    MAJOR: ClassVar[int] = 1

    cause: Cause
    failures: Count = 0
    """Its failures that count against `backoffLimit`."""
    memory_mib: MiB | None = Field(default=None, alias="memoryMiB")
    """The larger of what was measured and what was booked, of one that ran out of GPU memory."""
    gpu_memory_mib: MiB | None = Field(default=None, alias="gpuMemoryMiB")
    """Memory of the GPU that it had to itself, of one that ran out of GPU memory there."""
    measured: Measured | None = None
    """What it was measured to do alone, of one that was profiled."""
    fault: str | None = None
    """Id of the fault that hit it, of one that may have caused it."""
    ran_seconds: Count | None = None
    """How long it had run, of one against which something is held."""
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""
    """What happened, in words."""

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object; what only measured jobs have is there only for them."""
        return documents.without(super().to_object(), measured=None, fault=None, ranSeconds=None)


def of_attempt(text: str | None, *, attempt: int) -> Carried:
    """Return what an attempt carries; without the annotation, every attempt before it counted.

    Raises:
        InvalidInputError: it cannot be read.
    """
    if text is None:
        return Carried(failures=max(attempt - 1, 0))
    return Carried.from_json(text, source="metadata.annotations[cotenant.dev/carried]")


def end(text: str | None) -> Ended | None:
    """Why it was ended; None where nobody has said.

    Raises:
        InvalidInputError: it cannot be read.
    """
    return None if text is None else Ended.from_json(text, source="metadata.annotations[cotenant.dev/ended]")
