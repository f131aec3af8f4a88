"""Times of kernels: physics that follows the data sheet, states that survive JSON, an estimator like any other."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.kernels import chips, convolutions, model, products
from cotenant_predictor.kernels.chips import Chips
from cotenant_predictor.kernels.convolutions import Convolutions
from cotenant_predictor.kernels.model import Anchors, Family, KernelModel
from cotenant_predictor.kernels.products import Products

sizes = st.integers(1, 8192)


def of(*names: str) -> Chips:
    return chips.of(devices.select(names))


def product(batch: float = 1, rows: float = 4096, reduction: float = 1024, columns: float = 4096) -> Products:
    values = {"batch": batch, "rows": rows, "reduction": reduction, "columns": columns}
    return Products(**{name: np.array([float(value)]) for name, value in values.items()})


def convolution(taps: int = 9, has_winograd: bool = True) -> Convolutions:
    values = {"batch": 32, "channels": 256, "filters": 256, "height": 28, "width": 28, "taps": taps}
    shape = {name: np.array([float(value)]) for name, value in values.items()}
    return Convolutions(**shape, has_winograd=np.array([has_winograd]))


def seconds(shapes: Products, gpu: Chips, *, peak: Any = None, **physics: float) -> float:
    rate = gpu.peak_flops if peak is None else peak
    return float(products.times(shapes, gpu, products.Physics(**physics), peak=rate).total()[0, 0])


@settings(max_examples=60)
@given(rows=sizes, reduction=sizes, columns=sizes)
def test_a_product_never_beats_the_roofline(rows: int, reduction: int, columns: int) -> None:
    gpu = of("Tesla-V100-PCIE-32GB")
    shapes = product(rows=rows, reduction=reduction, columns=columns)
    elements = rows * reduction + reduction * columns + rows * columns
    bound = max(shapes.flops[0] / gpu.peak_flops[0, 0], 4 * elements / gpu.bandwidth[0, 0])
    assert seconds(shapes, gpu) >= bound


@settings(max_examples=60)
@given(rows=sizes, reduction=sizes, columns=sizes)
def test_more_work_never_takes_less(rows: int, reduction: int, columns: int) -> None:
    gpu = of("NVIDIA-A100-SXM4-40GB")
    less = seconds(product(rows=rows, reduction=reduction, columns=columns), gpu)
    assert seconds(product(batch=2, rows=rows, reduction=reduction, columns=columns), gpu) >= less


def test_a_large_product_comes_near_the_peak_where_power_allows_it() -> None:
    gpu = of("Tesla-V100-SXM2-32GB")
    shapes = product(rows=8192, reduction=8192, columns=8192)
    reached = shapes.flops[0] / seconds(shapes, gpu) / gpu.peak_flops[0, 0]
    assert 0.75 < reached < 0.95


def test_power_limits_what_the_clock_would_allow() -> None:
    gpu = of("Tesla-T4")
    limited = seconds(product(), gpu)
    unlimited = seconds(product(), dataclasses.replace(gpu, energy_scale=0 * gpu.energy_scale))
    assert limited > 1.5 * unlimited


def test_idle_time_earns_power_for_a_short_kernel() -> None:
    gpu, physics = of("Tesla-T4"), products.Physics()
    busy = products.times(product(rows=256), gpu, physics, peak=gpu.peak_flops)
    rested = products.times(product(rows=256), gpu, physics, peak=gpu.peak_flops, idle_seconds=1.0)
    assert rested.compute < busy.compute
    assert rested.compute == rested.tiles


def test_wide_multiprocessors_are_fed_more_slowly() -> None:
    feed = of("Tesla-V100-PCIE-32GB", "NVIDIA-H100-80GB-HBM3").feed[:, 0]
    assert feed == pytest.approx([1.0, 1.26], abs=0.02)


def test_matrix_cores_are_not_fed_by_lanes() -> None:
    h100 = devices.load()[GPUModel("NVIDIA-H100-80GB-HBM3")]
    assert chips.of([h100.model_copy(update={"has_fp32_matrix_cores": True})]).feed[0, 0] == 1.0


def test_a_faster_type_is_faster() -> None:
    gpu = of("NVIDIA-A100-SXM4-40GB")
    assert seconds(product(), gpu, peak=16 * gpu.peak_flops) < 0.25 * seconds(product(), gpu)


def test_a_long_reduction_is_split_over_idle_multiprocessors() -> None:
    gpu = of("NVIDIA-A100-SXM4-40GB")
    found = products.times(product(rows=64, reduction=65536, columns=64), gpu, products.Physics(), peak=gpu.peak_flops)
    assert found.parallel[0, 0] >= 16


def test_winograd_wins_where_it_can_run() -> None:
    gpu, physics = of("Tesla-V100-PCIE-32GB"), convolutions.Physics()
    with_it = convolutions.times(convolution(), gpu, physics, peak=gpu.peak_flops).total()
    without = convolutions.times(convolution(has_winograd=False), gpu, physics, peak=gpu.peak_flops).total()
    assert with_it < without


def test_each_algorithm_of_a_convolution_has_a_time() -> None:
    gpu, physics = of("Tesla-V100-PCIE-32GB"), convolutions.Physics()
    found = convolutions.algorithms(convolution(has_winograd=False), gpu, physics, peak=gpu.peak_flops)
    assert len(found) == len(convolutions.ALGORITHMS)
    assert [np.isfinite(option.total()[0, 0]) for option in found] == [True, False, False]


def test_an_anchor_counts_for_its_own_gpu_and_not_for_others() -> None:
    anchors = Anchors(sheets=model.sheet_of(of("Tesla-V100-PCIE-32GB"))[0], offsets=np.log([1.5]))
    factors = anchors.factor(of("Tesla-V100-PCIE-32GB", "NVIDIA-H200"))[:, 0]
    assert factors == pytest.approx([1.5, 1.0], abs=1e-6)


def families(**changes: Any) -> KernelModel:
    plain = {name: Family(physics=products.Physics()) for name in (model.LINEAR, model.BMM)}
    return KernelModel(families={**plain, model.CONV: Family(physics=convolutions.Physics()), **changes})


def test_a_model_survives_json() -> None:
    anchors = Anchors(sheets=model.sheet_of(of("Tesla-T4"))[0], offsets=np.array([0.25]))
    before = families(linear=Family(physics=products.Physics(), anchors=anchors))
    after = KernelModel.from_state(json.loads(json.dumps(before.to_state())))
    gpus = of("Tesla-T4", "NVIDIA-H200")
    assert (after.latency_seconds("linear", product(), gpus) == before.latency_seconds("linear", product(), gpus)).all()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("linear", "physics", "efficiency"), 0.0, "efficiency"),
        (("bmm", "physics", "panel"), float("inf"), "panel"),
        (("conv", "trust"), 2.0, "trust"),
        (("linear", "anchors"), [[[1.0]], [1.0]], "anchors"),
        (("linear", "anchors"), [[[1.0] * 5], [float("nan")]], "finite"),
    ],
)
def test_a_state_that_cannot_be_is_refused(path: tuple[str, ...], value: Any, message: str) -> None:
    state = json.loads(json.dumps(families().to_state()))
    place = state
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        KernelModel.from_state(state)


def test_a_convolution_needs_the_physics_of_convolutions() -> None:
    gpu = of("Tesla-T4")
    with pytest.raises(TypeError, match="convolution"):
        Family(physics=products.Physics()).times(convolution(), gpu, peak=gpu.peak_flops)
