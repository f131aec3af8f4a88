"""What --compile makes of a step: fewer kernels, fewer bytes, the same arithmetic."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
import transformers
from torch import Tensor, nn
from torch.nn import functional

from cotenant_api.graph import Graph, OperatorClass, Phase

Extract = Callable[..., Graph]


def image_model(name: str) -> Any:
    return torchvision.models.get_model(name), torch.empty(2, 3, 224, 224)


def text_model() -> Any:
    return transformers.BertModel(transformers.BertConfig(num_hidden_layers=2)), {
        "input_ids": torch.zeros(2, 64, dtype=torch.long)
    }


def totals(graph: Graph) -> tuple[int, int, int]:
    operators = graph.operators
    kernels = sum(op.kernels * op.repeat for op in operators)
    moved = sum((op.bytes_read + op.bytes_written) * op.repeat for op in operators)
    return kernels, moved, sum(op.flops * op.repeat for op in operators)


class Applied(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, values: Tensor) -> Any:
        """Values of any shape."""
        return self.function(values)


def kernels_of(function: Callable[[Tensor], Any], extract: Extract, *, shape: tuple[int, ...] = (512, 768)) -> Graph:
    return extract(lambda: (Applied(function), torch.empty(shape)), mode="Inference", compiled=True)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("mode", ["Training", "Inference"])
@pytest.mark.parametrize("name", ["resnet50", "vgg16", "vit_b_16", "mobilenet_v2", "swin_t", "bert"])
def test_kernels_and_bytes_drop_and_arithmetic_stays(name: str, mode: str, precision: str, extract: Extract) -> None:
    build = text_model if name == "bert" else functools.partial(image_model, name)
    plain = extract(build, mode=mode, precision=precision)
    compiled = extract(build, mode=mode, precision=precision, compiled=True)
    assert (plain.compiled, compiled.compiled) == (False, True)
    assert totals(compiled)[0] < totals(plain)[0]
    assert totals(compiled)[1] < totals(plain)[1]
    assert totals(compiled)[2] == totals(plain)[2]
    assert compiled.critical_path_operators < plain.critical_path_operators
    assert compiled.parameters == plain.parameters
    assert compiled.coverage.operators == plain.coverage.operators


def test_pointwise_chain_is_one_kernel_that_reads_and_writes_once(extract: Extract) -> None:
    (kernel,) = kernels_of(lambda x: (x.exp() * 2 + 1).tanh(), extract).operators
    assert kernel.kernels == 1
    assert (kernel.bytes_read, kernel.bytes_written) == (4 * 512 * 768, 4 * 512 * 768)
    assert kernel.flops == 4 * 512 * 768
    assert kernel.name == "fused::exp_mul_add_tanh"


def test_norm_joins_what_comes_before_and_after(extract: Extract) -> None:
    def body(values: Tensor) -> Tensor:
        return functional.layer_norm(values + 1, (768,)).relu()

    (kernel,) = kernels_of(body, extract).operators
    assert kernel.operator_class is OperatorClass.NORM
    assert kernel.bytes_read == 4 * 512 * 768


def test_softmax_written_out_is_one_kernel(extract: Extract) -> None:
    def body(values: Tensor) -> Tensor:
        shifted = (values - values.amax(dim=1, keepdim=True)).exp()
        return shifted / shifted.sum(dim=1, keepdim=True)

    assert sum(op.kernels * op.repeat for op in kernels_of(body, extract).operators) == 1


def test_what_needs_a_sum_over_everything_waits_for_it(extract: Extract) -> None:
    graph = kernels_of(lambda values: values / values.sum(), extract)
    assert [op.name for op in graph.operators] == ["aten::sum", "aten::div"]
    assert graph.critical_path_operators == 2


def test_products_stay_alone_between_fused_kernels(extract: Extract) -> None:
    graph = kernels_of(lambda values: ((values + 1).relu() @ values.t()).exp().neg(), extract)
    assert [op.name for op in graph.operators] == ["fused::add_relu", "aten::mm", "fused::exp_neg"]


def test_operators_that_a_product_separates_are_not_fused_around_it(extract: Extract) -> None:
    def body(values: Tensor) -> Tensor:
        gate = values.sigmoid()
        return gate * (gate @ values.t()).sum(dim=1, keepdim=True)

    names = [op.name for op in kernels_of(body, extract).operators]
    assert names.index("aten::sigmoid") < names.index("aten::mm")
    assert names[-1].endswith("mul")


def test_operators_beside_one_another_share_a_kernel_where_they_read_the_same(extract: Extract) -> None:
    graph = kernels_of(lambda values: [values.exp(), values.tanh(), values.neg()], extract)
    (kernel,) = graph.operators
    assert (kernel.bytes_read, kernel.bytes_written) == (4 * 512 * 768, 3 * 4 * 512 * 768)


def test_constants_are_made_where_they_are_used(extract: Extract) -> None:
    (kernel,) = kernels_of(lambda values: values + torch.arange(768), extract).operators
    assert kernel.bytes_read == 4 * 512 * 768


def test_bias_of_a_convolution_joins_the_activation(extract: Extract) -> None:
    layers = nn.Sequential
    graph = extract(
        lambda: (layers(nn.Conv2d(3, 8, 3), nn.ReLU()), torch.empty(1, 3, 9, 9)), mode="Inference", compiled=True
    )
    assert [(op.name, op.kernels) for op in graph.operators] == [("aten::convolution", 1), ("fused::bias_relu", 1)]


def test_forward_and_backward_share_no_kernel_and_the_optimizer_is_left_alone(extract: Extract) -> None:
    graph = extract(text_model, optimizer="adamw", compiled=True)
    assert {op.phase for op in graph.operators} == set(Phase)
    assert [op.name for op in graph.operators if op.phase is Phase.OPTIMIZER] == ["optimizer::adamw"]


def test_recurrent_layers_are_as_they_were(extract: Extract) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(12, 20, 2)

        def forward(self, values: Tensor) -> Tensor:
            return self.lstm(values)[0].tanh().exp()

    def rnn(*, compiled: bool) -> list[Any]:
        graph = extract(lambda: (Net(), torch.empty(7, 5, 12)), compiled=compiled)
        return [op for op in graph.operators if op.operator_class is OperatorClass.RNN]

    assert rnn(compiled=True) == rnn(compiled=False)


def test_same_compiled_step_gives_the_same_document(extract: Extract) -> None:
    assert extract(text_model, compiled=True).sealed() == extract(text_model, compiled=True).sealed()
