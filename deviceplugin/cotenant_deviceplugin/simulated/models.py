"""GPU models that can be simulated: what NVML would report of them.

Memory is the total that nvidia-smi prints with a current driver; SMs and compute capability are from
NVIDIA's datasheets and architecture whitepapers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant_api.names import GPUModel


@dataclass(frozen=True)
class SimulatedModel:
    """One GPU model. `memory_mib`: in MiB; `compute_capability`: `"9.0"`."""

    name: GPUModel
    memory_mib: int
    sm_count: int
    compute_capability: str


_MODELS = (
    SimulatedModel(GPUModel("NVIDIA-H200"), 143771, 132, "9.0"),
    SimulatedModel(GPUModel("NVIDIA-H100-80GB-HBM3"), 81559, 132, "9.0"),
    SimulatedModel(GPUModel("NVIDIA-A100-SXM4-80GB"), 81920, 108, "8.0"),
    SimulatedModel(GPUModel("NVIDIA-A100-80GB-PCIe"), 81920, 108, "8.0"),
    SimulatedModel(GPUModel("NVIDIA-A100-PCIE-40GB"), 40960, 108, "8.0"),
    SimulatedModel(GPUModel("NVIDIA-L40S"), 46068, 142, "8.9"),
    SimulatedModel(GPUModel("NVIDIA-L4"), 23034, 58, "8.9"),
    SimulatedModel(GPUModel("NVIDIA-A10"), 23028, 72, "8.6"),
    SimulatedModel(GPUModel("Tesla-T4"), 15360, 40, "7.5"),
    SimulatedModel(GPUModel("Tesla-V100-PCIE-32GB"), 32768, 80, "7.0"),
    SimulatedModel(GPUModel("Tesla-V100-SXM2-32GB"), 32768, 80, "7.0"),
)

MODELS: Mapping[GPUModel, SimulatedModel] = {model.name: model for model in _MODELS}
