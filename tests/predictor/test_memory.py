"""Memory: what is alive at once, from a graph's exact and estimated parts."""

from typing import Any

import pytest

from cotenant_api.graph import Graph, Mode, Operator, OperatorClass, Phase
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import coefficients, memory, roofline
from cotenant_predictor.jobs import prediction as jobs

MIB = 2**20


def alive(graph: Graph) -> memory.Alive:
    constants = coefficients.FORMULA_1
    return memory.alive_of(graph, roofline.operators_of(graph, constants))


def slack() -> float:
    return 1 + coefficients.FORMULA_1.allocator_slack


def sweep(*, state: int, gradients: int) -> Operator:
    return Operator(
        operator_class=OperatorClass.ELEMENTWISE,
        name="optimizer::sgd",
        phase=Phase.OPTIMIZER,
        bytes_written=10**12,
        dims={"tensors": 3, "stateBytes": state, "gradientBytes": gradients},
    )


def test_weights_and_state_of_the_sweep_are_exact(build: Any) -> None:
    found = alive(build.graph(build.matmul(), sweep(state=100, gradients=50), parameters=1000, optimizer="sgd"))
    assert (found.exact, found.gradients) == (4100, 50)


def test_optimizer_that_says_nothing_is_taken_for_adam(build: Any) -> None:
    found = alive(build.graph(parameters=1000, optimizer="own"))
    assert (found.exact, found.gradients) == (4000 + 8000, 4000)


def test_the_sweep_itself_is_no_transient(build: Any) -> None:
    assert alive(build.graph(build.matmul(), sweep(state=0, gradients=0))).estimated < 2**30


def test_inference_keeps_no_gradients_and_no_activations(build: Any) -> None:
    graph = build.graph(mode=Mode.INFERENCE, saved_activation_bytes=10**12, optimizer="adamw", parameters=1000)
    found = alive(graph)
    assert (found.exact, found.gradients) == (4000, 0)
    assert found.estimated < 10**9


def test_saved_activations_count_once_in_the_median_and_widened_in_the_bound(build: Any, h200: Device) -> None:
    def needed(saved: int) -> Any:
        graph = build.graph(saved_activation_bytes=saved * MIB)
        return jobs.predict(graph, [h200]).by_gpu[h200.name].memory_mib

    small, large = needed(1000), needed(3000)
    assert large.q50 - small.q50 == pytest.approx(2000 * slack(), abs=1)
    assert large.upper - small.upper == pytest.approx(2000 * slack() * 1.3, abs=1)


@pytest.mark.parametrize(("dtype", "half"), [("fp32", False), ("tf32", False), ("fp16", True), ("bf16", True)])
def test_convolution_needs_a_workspace_by_its_precision(build: Any, h200: Device, dtype: str, *, half: bool) -> None:
    def needed(moved: int) -> Any:
        convolution = Operator(
            operator_class=OperatorClass.CONV,
            name="aten::convolution",
            phase=Phase.FORWARD,
            bytes_read=moved,
            dtype=dtype,
        )
        graph = build.graph(convolution, peak_activation_bytes=10**9)
        return jobs.predict(graph, [h200]).by_gpu[h200.name].memory_mib

    constants = coefficients.FORMULA_1
    share = constants.half_convolution_workspace if half else constants.convolution_workspace
    widened = 1 if half else constants.workspace_widening
    small, large = needed(10 * 2**30), needed(20 * 2**30)
    assert large.q50 - small.q50 == pytest.approx(10 * 1024 * share * slack(), abs=1)
    assert large.upper - small.upper == pytest.approx(10 * 1024 * share * slack() * widened * 1.1, abs=1)


def test_blocks_of_the_largest_tensor_lie_partly_idle_whatever_the_peak(build: Any, h200: Device) -> None:
    def needed(largest: int, *, mode: Mode) -> Any:
        operator = build.matmul().model_copy(update={"bytes_written": largest * MIB})
        graph = build.graph(operator, mode=mode, peak_activation_bytes=8000 * MIB)
        return jobs.predict(graph, [h200]).by_gpu[h200.name].memory_mib

    share = coefficients.FORMULA_1.idle_block_share
    for mode in Mode:
        small, large = (needed(largest, mode=mode) for largest in (1000, 3000))
        assert large.q50 - small.q50 == pytest.approx(2000 * share * slack(), abs=1)
        assert large.upper - small.upper == pytest.approx(2000 * share * slack(), abs=1)


def test_larger_batch_has_more_of_all_but_weights_and_gradients(build: Any) -> None:
    graph = build.graph(build.matmul(), sweep(state=300, gradients=200), peak_activation_bytes=10**6)
    here = alive(graph)
    there = here.at(1.5)
    assert (there.exact, there.gradients) == (here.exact, here.gradients)
    assert there.estimated == pytest.approx(200 + 1.5 * (here.estimated - 200))
    assert there.largest == pytest.approx(1.5 * here.largest)


def test_peak_that_was_followed_counts_instead_of_single_operators(build: Any, h200: Device) -> None:
    def needed(**sizes: int) -> Any:
        return jobs.predict(build.graph(**sizes), [h200]).by_gpu[h200.name].memory_mib

    small, large = (needed(peak_activation_bytes=peak * MIB, saved_activation_bytes=1) for peak in (1000, 3000))
    assert large.q50 - small.q50 == pytest.approx(2000 * slack(), abs=1)
    assert large.upper - small.upper == pytest.approx(2000 * slack() * 1.1, abs=1)
    assert needed(peak_activation_bytes=1000 * MIB, saved_activation_bytes=2**40) == small


def test_optimizer_makes_a_copy_of_all_gradients_when_activations_are_gone(build: Any) -> None:
    graph = build.graph(build.matmul(), sweep(state=0, gradients=500), peak_activation_bytes=600)
    assert alive(graph).estimated == 1000 + graph.input_bytes_per_step


def test_inference_with_a_followed_peak_needs_that_and_its_weights(build: Any) -> None:
    graph = build.graph(mode=Mode.INFERENCE, peak_activation_bytes=12345, parameters=1000)
    found = alive(graph)
    assert (found.exact, found.estimated, found.followed) == (4000, 12345 + graph.input_bytes_per_step, True)


def test_smaller_gpu_holds_a_smaller_context(build: Any, h200: Device) -> None:
    small = h200.model_copy(update={"sm_count": 20})
    found = alive(build.graph())
    constants = coefficients.FORMULA_1
    assert memory.needed(found, small, constants).q50 < memory.needed(found, h200, constants).q50
