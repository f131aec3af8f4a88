"""What a public set measured of whole jobs, each alone on a GPU, with the graph of what ran."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel

ARRAYS: Final = "samples in memory"
"""Arrays that are cut into batches."""
PREPARED: Final = "samples prepared by the CPU"
"""While the job runs; how, each set says."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WholeJob:
    """One measured job."""

    program: str
    """The same at whatever batch size, and on whatever GPU model."""
    batch_size: int
    gpu_model: GPUModel
    graph: Graph
    source: str
    """Where its samples come from, in a few words: the jobs of each source are scored by themselves, too."""
    measured: Mapping[str, float]
    """Values by target; a target that was not measured is missing."""

    @property
    def is_input_rate_known(self) -> bool:
        """Whether the graph says how fast samples can come.

        If not, the prediction assumes what each loader worker makes; without workers it takes samples to come in time.
        """
        return self.graph.host.data_on_gpu or self.graph.host.samples_per_second is not None
