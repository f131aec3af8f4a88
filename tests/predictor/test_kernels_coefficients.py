"""Constants of the formula that data determine are what the data that ship say; times of kernels in whole steps."""

import dataclasses

import numpy as np
import pytest

from cotenant_api.graph import Graph, Operator, OperatorClass, Phase
from cotenant_predictor import devices
from cotenant_predictor.datasets import traces
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import roofline, shapes
from cotenant_predictor.kernels import convolutions, model, products
from cotenant_predictor.kernels.model import Family, KernelModel
from cotenant_predictor.training import coefficients as training

MODEL = KernelModel(
    families={
        model.LINEAR: Family(physics=products.Physics()),
        model.BMM: Family(physics=products.Physics()),
        model.CONV: Family(physics=convolutions.Physics()),
    }
)


def step(name: str = "resnet50_32") -> Graph:
    graph = next(trace for trace in traces.load() if trace.name == name).graph
    assert graph is not None
    return graph


@pytest.mark.parametrize("name", sorted(training.assumed()))
def test_a_constant_is_what_the_data_say(name: str) -> None:
    assert training.assumed()[name] == pytest.approx(training.measured()[name], rel=0.01)


def test_every_product_and_whole_convolution_has_a_family() -> None:
    graph = step()
    found = {part.family: len(part.index) for part in shapes.of(graph)}
    counted = [one.operator_class for one in graph.operators]
    assert found["conv"] == counted.count(OperatorClass.CONV)
    assert found["linear"] == counted.count(OperatorClass.MATMUL)


def test_a_backward_convolution_passes_twice() -> None:
    graph = step()
    (part,) = (part for part in shapes.of(graph) if part.family == "conv")
    passes = dict(zip(part.index.tolist(), part.passes.tolist(), strict=True))
    forward = [passes[index] for index in passes if graph.operators[index].phase is Phase.FORWARD]
    backward = [passes[index] for index in passes if graph.operators[index].phase is Phase.BACKWARD]
    assert set(forward) == {1.0}
    assert set(backward) == {1.0, 2.0}  # the first layer needs no gradient of its input


def test_winograd_is_for_three_by_three_of_stride_one() -> None:
    graph = step()
    (part,) = (part for part in shapes.of(graph) if part.family == "conv")
    assert isinstance(part.shapes, convolutions.Convolutions)
    edges = np.array([graph.operators[index].dims["r"] for index in part.index])
    assert not part.shapes.has_winograd[edges != 3].any()
    # 13 of ResNet-50's 16 such layers have stride 1; the other three halve the image.
    repeats = np.array([graph.operators[index].repeat for index in part.index])
    is_forward = np.array([graph.operators[index].phase is Phase.FORWARD for index in part.index])
    assert repeats[part.shapes.has_winograd & is_forward].sum() == 13
    assert repeats[part.shapes.has_winograd & ~is_forward].sum() == 13


def test_grouped_convolutions_stay_with_the_formula() -> None:
    graph = step("mobilenetv2_32")
    known = np.concatenate([part.index for part in shapes.of(graph)])
    assert not any(graph.operators[index].dims.get("groups", 1) > 1 for index in known)


def test_an_operator_without_dimensions_has_no_family() -> None:
    bare = Operator(operator_class=OperatorClass.MATMUL, name="aten::mm", phase=Phase.FORWARD, flops=10)
    assert shapes.of(step().model_copy(update={"operators": (bare,)})) == ()


def busy(share: float, *, graph: Graph | None = None, gpu: str = "NVIDIA-A100-SXM4-40GB") -> float:
    used = graph or step()
    gpus = roofline.devices_of(devices.select([gpu]))
    operators = roofline.operators_of(used, constants.FORMULA_1)
    found = roofline.busy(
        operators,
        gpus,
        sm_share=np.array([[share]]),
        coefficients=constants.FORMULA_1,
        kernels=roofline.kernel_times(operators, gpus, MODEL),
    )
    return float(found.total_seconds[0, 0])


@pytest.mark.parametrize("gpu", ["NVIDIA-A100-SXM4-40GB", "Tesla-T4", "NVIDIA-H200"])
def test_more_multiprocessors_never_take_longer(gpu: str) -> None:
    times = [busy(share / 20, gpu=gpu) for share in range(1, 21)]
    assert times == sorted(times, reverse=True)


def test_at_all_multiprocessors_times_are_those_of_the_kernels() -> None:
    graph = step()
    gpus = roofline.devices_of(devices.select(["NVIDIA-A100-SXM4-40GB"]))
    operators = roofline.operators_of(graph, constants.FORMULA_1)
    known = roofline.kernel_times(operators, gpus, MODEL)
    assert known is not None
    found = roofline.busy(operators, gpus, sm_share=np.ones((1, 1)), coefficients=constants.FORMULA_1, kernels=known)
    alone = products.combined(known.compute, known.memory, sharpness=known.sharpness)
    floor = operators.kernels[known.index] * constants.FORMULA_1.kernel_seconds
    assert found.seconds[:, known.index] == pytest.approx(operators.repeat[known.index] * np.maximum(alone, floor))


def test_a_power_limited_gpu_loses_less_by_fewer_multiprocessors() -> None:
    limited = busy(0.6, gpu="Tesla-T4") / busy(1.0, gpu="Tesla-T4")
    unlimited = busy(0.6, gpu="Tesla-V100-SXM2-32GB") / busy(1.0, gpu="Tesla-V100-SXM2-32GB")
    assert limited < unlimited


@pytest.mark.parametrize(
    "trace", [trace for trace in traces.load() if trace.graph is not None], ids=lambda one: one.name
)
def test_a_traced_step_takes_about_as_long_as_measured(trace: traces.Trace) -> None:
    assert busy(1.0, graph=trace.graph, gpu=traces.GPU) == pytest.approx(trace.seconds.sum(), rel=0.25)


def test_a_step_without_products_needs_no_kernels() -> None:
    graph = step()
    others = tuple(one for one in graph.operators if one.operator_class is OperatorClass.NORM)
    assert busy(1.0, graph=graph.model_copy(update={"operators": others})) > 0


def test_half_precision_moves_half_the_bytes() -> None:
    graph = step()
    halves = tuple(one.model_copy(update={"dtype": "fp16"}) for one in graph.operators)
    (whole,), (half,) = (
        [part for part in shapes.of(used) if part.family == "linear"]
        for used in (graph, graph.model_copy(update={"operators": halves}))
    )
    assert dataclasses.asdict(whole)["shapes"]["rows"] == pytest.approx(dataclasses.asdict(half)["shapes"]["rows"])
    assert (np.asarray(whole.shapes.item_bytes) == 2 * np.asarray(half.shapes.item_bytes)).all()
