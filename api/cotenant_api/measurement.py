"""The measurement document: one tenant of one run, a line of JSONL. Lines of a joint run share `id`."""

import enum
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from cotenant_api import documents
from cotenant_api.names import GPUModel, GraphDigest

Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ThreadPercentage = Annotated[int, Field(ge=1, le=100)]


class Mechanism(enum.StrEnum):
    """How the GPU was shared."""

    ALONE = "Alone"
    MPS = "MPS"
    TIME_SLICING = "TimeSlicing"
    PRIORITY_STREAMS = "PriorityStreams"


class Outcome(enum.StrEnum):
    """How the run ended."""

    OK = "Ok"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASHED = "Crashed"
    TIMEOUT = "Timeout"


class CoTenant(documents.Model):
    """Another tenant of the run."""

    graph: GraphDigest
    thread_percentage: ThreadPercentage | None = None


class Distribution(documents.Model):
    """Times of many steps, in milliseconds."""

    mean: Figure
    p50: Figure
    p99: Figure
    std: Figure


class Values(documents.Model):
    """What was measured; a null has its entry in `reasons`."""

    utilization: Figure | None = None
    memory_utilization: Figure | None = None
    sm_activity: Figure | None = None
    dram_activity: Figure | None = None
    memory_peak_mib: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="memoryPeakMiB")
    step_milliseconds: Distribution | None = None
    normalized_speed: Figure | None = None
    power_watts: Figure | None = None
    turnaround_milliseconds: Distribution | None = None
    host_to_device_milliseconds: Figure | None = None
    long_kernel_share: Figure | None = None
    large_kernel_share: Figure | None = None


class Kernel(documents.Model):
    """One kernel's launches."""

    name: str
    count: Annotated[int, Field(ge=1)]
    microseconds: Figure
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: Annotated[int, Field(ge=0)]
    shared_bytes: Annotated[int, Field(ge=0)]


class Environment(documents.Model):
    """What a figure was measured with."""

    driver: str
    cuda: str
    torch: str
    cpu: str
    commit: str


_WHERE_NAMED: Final = ("family", "namespace")


class Measurement(documents.Document):
    """A measurement document, version 1.

    `group` is what leave-group-out holds out, `family` what leave-family-out does; no family: the graph tells it.
    `namespace` is whose jobs it was measured of; none: measured on purpose, by whoever gives the line to training.
    """

    id: str = Field(min_length=1)
    group: str = Field(min_length=1)
    family: Annotated[str, Field(min_length=1)] | None = None
    namespace: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    graph: GraphDigest
    gpu_model: GPUModel
    mechanism: Mechanism
    thread_percentage: ThreadPercentage | None = None
    client_priority: Annotated[int, Field(ge=0, le=1)] = 0
    memory_limit_mib: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="memoryLimitMiB")
    co_tenants: tuple[CoTenant, ...] = ()
    repeat: Annotated[int, Field(ge=0)] = 0
    duration_seconds: Figure
    outcome: Outcome
    simulated: bool
    values: Values
    kernels: tuple[Kernel, ...] = ()
    reasons: dict[str, str] = Field(default_factory=dict)
    environment: Environment

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object; `family` and `namespace` are there only where they are named."""
        written = super().to_object()
        return {key: value for key, value in written.items() if value is not None or key not in _WHERE_NAMED}

    @model_validator(mode="after")
    def _nulls_have_reasons(self) -> Self:
        values = self.values.model_dump(by_alias=True)
        missing = [name for name, value in values.items() if value is None and name not in self.reasons]
        if missing:
            raise ValueError(f"null without an entry in reasons: {', '.join(missing)}")
        return self
