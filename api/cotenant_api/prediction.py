"""The prediction document: what one job is expected to need, on each GPU model that it may use."""

import enum
from typing import Annotated

from pydantic import Field

from cotenant_api import documents
from cotenant_api.names import GPUModel, GraphDigest

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
"""Of one GPU. The predictor caps what it predicts, so that more is a document of somebody else's."""


class Source(enum.StrEnum):
    """What a prediction rests on."""

    FORMULA = "Formula"
    MODEL = "Model"
    PROFILE = "Profile"
    USER = "User"


class Regime(enum.StrEnum):
    """What bounds the step: the reason that a person understands."""

    COMPUTE = "Compute"
    MEMORY = "Memory"
    LAUNCH = "Launch"
    HOST = "Host"


class PercentRange(documents.Model):
    """A median and an upper bound, in percent of the GPU."""

    q50: Percent
    upper: Percent


class MemoryRange(documents.Model):
    """A median and an upper bound, in MiB."""

    q50: Annotated[int, Field(ge=0)]
    upper: Annotated[int, Field(ge=0)]


class GPUPrediction(documents.Model):
    """What is expected on one GPU model."""

    utilization: PercentRange
    sm_activity: PercentRange
    dram_activity: PercentRange
    memory_utilization: PercentRange | None = None
    """Share of time in which memory is read or written, as nvidia-smi shows it; unknown to older writers."""
    memory_mib: MemoryRange = Field(alias="memoryMiB")
    step_milliseconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    step_joules: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Energy that the GPU takes for one step; unknown to older writers."""
    thread_percentage: Annotated[int, Field(ge=1, le=100)]
    """The smallest at which the job keeps 95 % of its speed."""
    regime: Regime
    out_of_domain: bool = False


class Prediction(documents.Document):
    """A prediction document, version 1: the annotation `cotenant.dev/prediction`."""

    graph: GraphDigest
    source: Source
    model: str
    by_gpu: dict[GPUModel, GPUPrediction] = Field(alias="byGPU")
