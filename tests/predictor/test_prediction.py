"""The formula: units, bounds, and what must hold whatever the numbers are."""

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from cotenant_api import errors
from cotenant_api.graph import Graph, Host, Inference, Mode, Operator, OperatorClass, Phase
from cotenant_api.names import GPUModel
from cotenant_api.prediction import GPUPrediction, Regime, Source
from cotenant_predictor import devices
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import prediction as jobs

SOME = devices.select(["NVIDIA-H200", "NVIDIA-A100-80GB-PCIe", "Tesla-T4", "Tesla-P4"])

operators = strategies.builds(
    Operator,
    operator_class=strategies.sampled_from(OperatorClass),
    name=strategies.just("aten::any"),
    phase=strategies.sampled_from(Phase),
    repeat=strategies.integers(1, 100),
    kernels=strategies.integers(0, 10),
    flops=strategies.integers(0, 10**13),
    bytes_read=strategies.integers(0, 10**10),
    bytes_written=strategies.integers(0, 10**10),
    output_elements=strategies.integers(0, 10**9),
    dtype=strategies.sampled_from(["fp32", "tf32", "bf16", "fp16", "int64"]),
)
several = strategies.lists(operators, min_size=1, max_size=8).map(tuple)


def on(graph: Graph, device: Device, **more: Any) -> GPUPrediction:
    return jobs.predict(graph, [device], **more).by_gpu[device.name]


def test_prediction_names_graph_source_and_model(build: Any, h200: Device) -> None:
    graph = build.graph().sealed()
    found = jobs.predict(graph, [h200])
    assert (found.graph, found.source, found.model) == (graph.digest, Source.FORMULA, "formula-1")


def test_graph_without_digest_is_given_one(build: Any, h200: Device) -> None:
    graph = build.graph()
    assert jobs.predict(graph, [h200]).graph == graph.computed_digest()


def test_compute_bound_step_takes_flops_over_the_rate_of_a_full_wave(build: Any, h200: Device) -> None:
    tiles = 132 * 100
    operator = build.matmul(flops=10**15, outputs=tiles * 4096, dtype="bf16")
    reduction = 10**15 / (2 * tiles * 4096) / 1024
    waves = -(-tiles * reduction // 132)
    seconds = 10**15 * waves * 132 / (tiles * reduction * 989.4e12 * 0.54)
    assert on(build.graph(operator), h200).step_milliseconds == pytest.approx(1e3 * seconds, rel=1e-4)


def test_memory_bound_step_takes_bytes_over_bandwidth(build: Any, h200: Device) -> None:
    prediction = on(build.graph(build.copy(moved=24 * 10**9)), h200)
    assert prediction.step_milliseconds == pytest.approx(1e3 * 48 / 4800 / 0.8, rel=1e-6)
    assert prediction.dram_activity.q50 == pytest.approx(80, abs=0.1)
    assert prediction.regime is Regime.MEMORY


def test_many_small_kernels_are_bound_by_launches(build: Any, h200: Device) -> None:
    prediction = on(build.graph(build.copy(moved=64, repeat=1000)), h200)
    assert prediction.regime is Regime.LAUNCH
    assert prediction.step_milliseconds == pytest.approx(25.0, rel=0.01)
    assert prediction.utilization.q50 == pytest.approx(100 * 2.7 / 25, abs=0.1)
    assert prediction.sm_activity.q50 < 1


def test_slow_input_bounds_utilization(build: Any, h200: Device) -> None:
    alone = on(build.graph(), h200)
    fed = on(build.graph(host=Host(samples_per_second=64 / (4 * alone.step_milliseconds / 1e3))), h200)
    assert fed.regime is Regime.HOST
    assert fed.utilization.q50 == pytest.approx(25, abs=0.2)
    assert fed.thread_percentage < alone.thread_percentage


def test_data_on_the_gpu_needs_no_loader(build: Any, h200: Device) -> None:
    slow = Host(samples_per_second=0.01, data_on_gpu=True)
    assert on(build.graph(host=slow), h200) == on(build.graph(), h200)


def test_missing_cores_slow_the_loader(build: Any, h200: Device) -> None:
    graph = build.graph(host=Host(loader_workers=8, samples_per_second=1000))
    few, enough = on(graph, h200, cpu_cores=2), on(graph, h200, cpu_cores=16)
    assert few.step_milliseconds == pytest.approx(4 * enough.step_milliseconds)


def test_undeclared_loader_is_assumed_from_its_workers(build: Any, h200: Device) -> None:
    graph = build.graph(host=Host(loader_workers=2), input_bytes_per_step=120_000_000)
    assert on(graph, h200).step_milliseconds == pytest.approx(1000)


def test_requests_bound_the_utilization_of_a_server_but_not_its_step(build: Any, h200: Device) -> None:
    busy = build.graph(mode=Mode.INFERENCE, batch_size=4)
    step = on(busy, h200)
    rate = 0.5 * 4 / (step.step_milliseconds / 1e3)
    asked = on(busy.model_copy(update={"inference": Inference(requests_per_second=rate)}), h200)
    assert asked.utilization.q50 == pytest.approx(step.utilization.q50 / 2, abs=0.1)
    assert asked.step_milliseconds == step.step_milliseconds
    assert asked.thread_percentage == step.thread_percentage
    assert asked.regime is Regime.HOST


def test_more_requests_than_can_be_served_keep_the_server_busy(build: Any, h200: Device) -> None:
    graph = build.graph(mode=Mode.INFERENCE, batch_size=4)
    flooded = graph.model_copy(update={"inference": Inference(requests_per_second=1e9)})
    assert on(flooded, h200).utilization == on(graph, h200).utilization


def test_compiled_graph_launches_faster(build: Any, h200: Device) -> None:
    graph = build.graph(build.copy(moved=64, repeat=1000))
    compiled = graph.model_copy(update={"compiled": True})
    assert on(compiled, h200).utilization.q50 > on(graph, h200).utilization.q50


def test_one_small_kernel_needs_few_multiprocessors(build: Any, h200: Device) -> None:
    operator = build.matmul(flops=2**26, outputs=8 * 4096)
    assert on(build.graph(operator), h200).thread_percentage == 7  # 8 thread blocks, 132 multiprocessors


def test_bound_is_the_median_widened_and_clipped(build: Any, h200: Device) -> None:
    low = on(build.graph(build.copy(moved=64, repeat=1000)), h200).utilization
    high = on(build.graph(), h200).utilization
    assert low.upper == pytest.approx(1.41 * low.q50, abs=0.02)
    assert (high.q50, high.upper) == (100, 100)


@hypothesis.given(several)
@hypothesis.settings(max_examples=60, deadline=None)
def test_values_stay_in_their_ranges(chosen: tuple[Operator, ...]) -> None:
    graph = Graph(name="any", mode=Mode.TRAINING, batch_size=1, parameters=0, parameter_bytes=0, operators=chosen)
    for prediction in jobs.predict(graph, SOME).by_gpu.values():
        for percent in (prediction.utilization, prediction.sm_activity, prediction.dram_activity):
            assert 0 <= percent.q50 <= percent.upper <= 100
        assert prediction.sm_activity.q50 <= prediction.utilization.q50 + 0.01
        assert prediction.memory_mib.q50 <= prediction.memory_mib.upper
        assert 1 <= prediction.thread_percentage <= 100


@hypothesis.given(strategies.permutations(range(6)))
@hypothesis.settings(max_examples=20, deadline=None)
def test_order_of_operators_changes_nothing(order: list[int]) -> None:
    chosen = tuple(
        Operator(
            operator_class=OperatorClass.MATMUL,
            name="aten::mm",
            phase=Phase.FORWARD,
            flops=10 ** (6 + index),
            bytes_read=10**index,
            output_elements=4096 * (index + 1),
        )
        for index in range(6)
    )
    graph = Graph(name="any", mode=Mode.TRAINING, batch_size=1, parameters=0, parameter_bytes=0, operators=chosen)
    shuffled = graph.model_copy(update={"operators": tuple(chosen[index] for index in order)})
    first, second = jobs.predict(graph, SOME).by_gpu, jobs.predict(shuffled, SOME).by_gpu
    for name, prediction in first.items():
        assert second[name].utilization == prediction.utilization
        assert second[name].step_milliseconds == pytest.approx(prediction.step_milliseconds, abs=2e-6)


@hypothesis.given(operators, strategies.integers(2, 50))
@hypothesis.settings(max_examples=60, deadline=None)
def test_folding_equal_operators_changes_nothing(operator: Operator, times: int) -> None:
    once = operator.model_copy(update={"repeat": 1})
    values: dict[str, Any] = {"name": "any", "mode": Mode.TRAINING, "batch_size": 1, "parameters": 0}
    apart = Graph(parameter_bytes=0, operators=(once,) * times, **values)
    together = Graph(parameter_bytes=0, operators=(once.model_copy(update={"repeat": times}),), **values)
    for device in SOME:
        assert on(apart, device).step_milliseconds == pytest.approx(on(together, device).step_milliseconds, abs=2e-6)


@hypothesis.given(several, strategies.integers(2, 8))
@hypothesis.settings(max_examples=60, deadline=None)
def test_larger_batch_is_never_less_work(chosen: tuple[Operator, ...], factor: int) -> None:
    def scaled(by: int) -> Graph:
        fields = ("flops", "bytes_read", "bytes_written", "output_elements")
        larger = tuple(op.model_copy(update={field: by * getattr(op, field) for field in fields}) for op in chosen)
        return Graph(name="any", mode=Mode.TRAINING, batch_size=by, parameters=0, parameter_bytes=0, operators=larger)

    small, large = jobs.predict(scaled(1), SOME), jobs.predict(scaled(factor), SOME)
    for name, prediction in small.by_gpu.items():
        assert large.by_gpu[name].step_milliseconds >= prediction.step_milliseconds - 2e-6
        assert large.by_gpu[name].memory_mib.upper >= prediction.memory_mib.upper


@hypothesis.given(several, strategies.floats(1, 4), strategies.floats(1, 4))
@hypothesis.settings(max_examples=60, deadline=None)
def test_faster_gpu_is_never_slower(chosen: tuple[Operator, ...], compute: float, memory: float) -> None:
    graph = Graph(name="any", mode=Mode.TRAINING, batch_size=1, parameters=0, parameter_bytes=0, operators=chosen)
    slow = devices.load()[GPUModel("NVIDIA-A100-SXM4-40GB")]
    fast = slow.model_copy(
        update={
            "peak_teraflops": {dtype: compute * rate for dtype, rate in slow.peak_teraflops.items()},
            "memory_gigabytes_per_second": memory * slow.memory_gigabytes_per_second,
        }
    )
    assert on(graph, fast).step_milliseconds <= on(graph, slow).step_milliseconds + 2e-6


def test_job_of_twice_the_steps_is_as_busy(build: Any, h200: Device) -> None:
    once, twice = build.graph(build.copy(repeat=5)), build.graph(build.copy(repeat=10))
    assert on(twice, h200).utilization == on(once, h200).utilization
    assert on(twice, h200).step_milliseconds == pytest.approx(2 * on(once, h200).step_milliseconds)


def test_bandwidth_alone_speeds_up_a_copy(build: Any, h200: Device, faster: Callable[..., Device]) -> None:
    double = faster(h200, memory_gigabytes_per_second=9600.0)
    graph = build.graph(build.copy(moved=2**34))
    assert on(graph, double).step_milliseconds == pytest.approx(on(graph, h200).step_milliseconds / 2)


def test_one_graph_is_predicted_for_all_models_at_once(build: Any) -> None:
    graph = build.graph()
    together = jobs.predict(graph, SOME)
    assert together.by_gpu == {device.name: on(graph, device) for device in SOME}


def test_no_gpu_model_is_refused(build: Any) -> None:
    with pytest.raises(errors.InvalidInputError, match="gpuModels"):
        jobs.predict(build.graph(), [])


def test_no_core_is_refused(build: Any, h200: Device) -> None:
    with pytest.raises(errors.InvalidInputError, match="cpuCores"):
        on(build.graph(), h200, cpu_cores=0)


def test_step_that_never_ends_is_refused(build: Any, h200: Device) -> None:
    with pytest.raises(errors.InvalidInputError, match="samplesPerSecond"):
        on(build.graph(host=Host(samples_per_second=1e-320)), h200)
