"""What was measured of a job while it had a GPU to itself, by GPU model. Values only; annotations of Jobs hold them."""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from cotenant_api import documents
from cotenant_api.names import GPUModel

Percent = Annotated[int, Field(ge=0, le=100)]


class Alone(documents.Model):
    """One replica, or the one that needed most, on one GPU model."""

    seconds: Annotated[int, Field(ge=0)]
    utilization_percent: Percent
    """The GPU's mean utilization over these seconds."""
    memory_peak_mib: Annotated[int, Field(ge=0)] = Field(default=0, alias="memoryPeakMiB")


class Measured(documents.Model):
    """All that was measured alone, for long enough."""

    by_gpu: dict[GPUModel, Alone] = Field(alias="byGPU", min_length=1)

    def over(self, other: "Measured | None") -> "Measured":
        """With what another measurement says of further GPU models."""
        if other is None:
            return self
        return self.model_copy(update={"by_gpu": {**other.by_gpu, **self.by_gpu}})


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """What former jobs of the same graph and namespace teach.

    Attributes:
        memory_mib: to be booked at least; None: nothing is known.
        measured: what they did alone.
    """

    memory_mib: int | None = None
    measured: Measured | None = None


NOTHING: Final = Learned()
