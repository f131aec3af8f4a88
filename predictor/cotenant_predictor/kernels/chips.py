"""What the physics of one kernel needs to know of GPU models, as arrays. Pure."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_predictor.devices import Device

Array: TypeAlias = npt.NDArray[Any]

FIRST_MODERN_CAPABILITY: Final = 7.0
"""From here on the vendor's library has tuned fp32 kernels with large tiles; older GPUs run what was left behind."""
REFERENCE_NANOMETERS: Final = 16.0
"""Assumption: energy per operation is proportional to the process' name, so 56 % less from 16 to 7 nm and 29 % less
from there to 5 nm: about what the foundry states for logic (60 % and 30 %).
"""
LANES_FED: Final = 128.0
"""Multiply-adds per clock that an SM's shared memory feeds: 128 bytes per clock, and a product whose threads hold 8 x 8
results each reads one byte per multiply-add.
"""
REFERENCE_LANES: Final = 64.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chips:
    """GPU models as arrays of one shape: (n_devices, 1) beside operators, or (n_rows,) where each row has its own."""

    peak_flops: Array
    """FLOP/s in fp32, outside tensor cores."""
    bandwidth: Array
    """Bytes per second to DRAM."""
    sm_count: Array
    cache_bytes: Array
    power_watts: Array
    energy_scale: Array
    """Energy of one operation, relative to a 16 nm process; 0 where the process is not known."""
    is_legacy: Array
    feed: Array
    """Slowdown of fp32 products, against SMs of 64 lanes, because wider SMs share as much shared memory bandwidth."""

    def take(self, rows: Any) -> Self:
        """Return the chips at these positions along the first axis."""
        return type(self)(**{field.name: getattr(self, field.name)[rows] for field in dataclasses.fields(self)})


def of(devices: Sequence[Device]) -> Chips:
    """GPU models, each array of shape (n_devices, 1)."""
    columns = np.array([_column(device) for device in devices], dtype=np.float64)
    names = [field.name for field in dataclasses.fields(Chips)]
    return Chips(**{name: columns[:, index, None] for index, name in enumerate(names)})


def _column(device: Device) -> tuple[float, ...]:
    """Return the values of `Chips`, in its order."""
    nanometers = device.process_nanometers
    lanes = device.peak_flops("fp32") / (2e6 * device.sm_count * device.clock_mhz)
    return (
        device.peak_flops("fp32"),
        device.memory_gigabytes_per_second * 1e9,
        device.sm_count,
        device.l2_mib * 2**20,
        device.power_watts,
        nanometers / REFERENCE_NANOMETERS if nanometers else 0.0,
        float(device.compute_capability) < FIRST_MODERN_CAPABILITY,
        1.0 if device.has_fp32_matrix_cores else _feed(lanes) / _feed(REFERENCE_LANES),
    )


def _feed(lanes: float) -> float:
    """Time of products over that at peak: arithmetic and shared memory partly overlap."""
    return float(np.hypot(1.0, lanes / LANES_FED))
