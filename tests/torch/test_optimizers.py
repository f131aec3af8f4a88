"""Optimizers as CUDA runs them: torch's as one sweep, others as their own operators, and what cannot be known."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cotenant_api.graph import Graph, Operator, Phase
from cotenant_predictor.extraction import extractor

Extract = Callable[..., Graph]
SIZE = 4 * 100 * 100


def layer() -> Any:
    return nn.Linear(100, 100, bias=False), torch.empty(2, 100)


def swept(graph: Graph) -> list[Operator]:
    return [op for op in graph.operators if op.phase is Phase.OPTIMIZER]


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [("adamax", 2), ("nadam", 2), ("radam", 2), ("asgd", 1), ("rprop", 2), ("rmsprop:momentum=0.9", 2), ("adagrad", 1)],
)
def test_every_elementwise_optimizer_of_torch_is_one_sweep(optimizer: str, states: int, extract: Extract) -> None:
    (sweep,) = swept(extract(layer, optimizer=optimizer))
    assert sweep.dims == {"tensors": 1, "stateBytes": states * SIZE, "gradientBytes": SIZE}
    assert sweep.bytes_read == (2 + states) * SIZE


def test_sweep_over_many_tensors_takes_several_kernels(extract: Extract) -> None:
    def many() -> Any:
        return nn.Sequential(*[nn.Linear(4, 4) for _ in range(50)]), torch.empty(2, 4)

    assert swept(extract(many, optimizer="adam"))[0].kernels == 3


def test_optimizer_that_multiplies_matrices_is_counted_by_its_products(extract: Extract) -> None:
    graph = extract(layer, optimizer="muon")
    products = [op for op in swept(graph) if op.operator_class.value == "matmul"]
    assert sum(op.flops * op.repeat for op in products) >= 5 * 2 * 2 * 100**3  # five steps of two products and more
    assert [op.dims["stateBytes"] for op in swept(graph) if op.name == "optimizer::muon"] == [SIZE]


class Own(torch.optim.Optimizer):
    """Momentum, written out parameter by parameter."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        super().__init__(parameters, {})

    def step(self) -> None:
        """One step."""
        with torch.no_grad():
            self.move()

    def move(self) -> None:
        """What a step does."""
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            parameter.sub_(state["momentum"].mul_(0.9).add_(parameter.grad))


class Asking(Own):
    """Decides by what its state holds."""

    def move(self) -> None:
        """What a step does."""
        super().move()
        for state in self.state.values():
            state["momentum"].sum().item()


def stepping(kind: type[Own]) -> Callable[[], Any]:
    def build() -> Any:
        model, inputs = layer()
        optimizer = kind(model.parameters())

        def step(values: Tensor) -> None:
            model(values).sum().backward()
            optimizer.step()

        return {"modules": [model], "inputs": inputs, "step": step}

    return build


def test_somebody_elses_optimizer_runs_its_own_operators(extract: Extract) -> None:
    graph = extract(stepping(Own))
    assert [op.name for op in swept(graph)] == [
        *("aten::zeros_like", "aten::mul_", "aten::add_", "aten::sub_"),
        "optimizer::own",
    ]
    assert swept(graph)[-1].dims == {"stateBytes": SIZE, "gradientBytes": SIZE}
    assert (graph.optimizer, graph.coverage.unknown) == ("own", {})


def test_optimizer_that_asks_for_values_is_taken_for_a_sweep_and_named(extract: Extract) -> None:
    graph = extract(stepping(Asking))
    (sweep,) = swept(graph)
    assert sweep.dims["stateBytes"] == SIZE
    assert graph.coverage.unknown == {"optimizer::asking": 1}


def test_line_search_is_refused(extract: Extract) -> None:
    with pytest.raises(extractor.ExtractionError, match="line search"):
        extract(layer, optimizer="lbfgs")


def test_clipping_gradients_takes_multi_tensor_kernels(extract: Extract) -> None:
    def build() -> Any:
        model, inputs = layer()
        optimizer = torch.optim.SGD(model.parameters())

        def step(values: Tensor) -> None:
            model(values).sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return {"modules": [model], "inputs": inputs, "step": step}

    clipping = [op for op in extract(build).operators if op.name.startswith("aten::_foreach")]
    assert [(op.name, op.kernels, op.flops) for op in clipping] == [
        ("aten::_foreach_norm", 1, 100 * 100),
        ("aten::_foreach_mul_", 1, 100 * 100),
    ]
    assert clipping[1].bytes_written == SIZE
