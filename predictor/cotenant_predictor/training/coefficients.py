"""Where measured constants of the formula come from: each computed again from data that ship.

`python -m cotenant_predictor.training.coefficients` prints what the formula has beside what the data say. What is not
here is marked as an assumption in `jobs.coefficients`.
"""

from collections.abc import Mapping

import numpy as np

from cotenant_api.graph import OperatorClass
from cotenant_predictor import devices
from cotenant_predictor.datasets import kernels, traces
from cotenant_predictor.datasets.kernels import Kernels
from cotenant_predictor.jobs import rates
from cotenant_predictor.jobs.coefficients import FORMULA_1, Coefficients
from cotenant_predictor.kernels import model
from cotenant_predictor.kernels.convolutions import Convolutions

LAUNCHES = 20
"""A kernel this many times longer than the shortest call of its family is not a matter of launching."""


def measured() -> Mapping[str, float]:
    """Return the constants that data determine, by name."""
    found = kernels.load()
    linear, bmm, conv = (full_wave_efficiency(found[name]) for name in (model.LINEAR, model.BMM, model.CONV))
    return {
        "compute_efficiency[conv]": conv,
        "compute_efficiency[matmul]": (linear + bmm) / 2,
        "kernel_seconds": min(float(trace.seconds.min()) for trace in traces.load()),
        "depthwise_efficiency": depthwise_efficiency(),
    }


def assumed(coefficients: Coefficients = FORMULA_1) -> Mapping[str, float]:
    """Return the same constants as the formula has them."""
    return {
        "compute_efficiency[conv]": coefficients.compute_efficiency[OperatorClass.CONV],
        "compute_efficiency[matmul]": coefficients.compute_efficiency[OperatorClass.MATMUL],
        "kernel_seconds": coefficients.kernel_seconds,
        "depthwise_efficiency": coefficients.rates.depthwise,
    }


def full_wave_efficiency(data: Kernels, coefficients: Coefficients = FORMULA_1) -> float:
    """Share of the peak of a full wave of tiles: the median over GPUs of each one's median over long kernels."""
    shapes = data.shapes.product if isinstance(data.shapes, Convolutions) else data.shapes
    outputs = shapes.batch * shapes.rows * shapes.columns
    split = np.maximum(1.0, shapes.reduction / coefficients.split_reduction)
    tiles = np.maximum(1.0, outputs * split / coefficients.tile_elements)
    chips = data.chips
    full = shapes.flops / chips.peak_flops * np.ceil(tiles / chips.sm_count) * chips.sm_count / tiles
    is_long = data.seconds > LAUNCHES * np.quantile(data.seconds, 0.01)
    members = [is_long & (data.device_index == index) for index in range(len(data.devices))]
    return float(np.median([np.median((full / data.seconds)[member]) for member in members]))


def depthwise_efficiency() -> float:
    """Bytes per second of MobileNetV2's depthwise convolutions, forward and backward, over the V100's bandwidth."""
    trace = next(found for found in traces.load() if found.name == "mobilenetv2_32")
    operators = () if trace.graph is None else trace.graph.operators
    moved = sum(one.repeat * (one.bytes_read + one.bytes_written) for one in operators if rates.is_depthwise(one))
    bandwidth = devices.load()[traces.GPU].memory_gigabytes_per_second * 1e9
    return moved / bandwidth / trace.seconds_of("conv_depthwise2d")


if __name__ == "__main__":
    for name, value in measured().items():
        print(f"{name:28} formula {assumed()[name]:.4g}  measured {value:.4g}")
