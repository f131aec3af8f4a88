"""What cannot be extracted is refused with the operator, the place in the user's code and what to do."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from cotenant_api.graph import Graph
from cotenant_predictor.extraction import extractor

Extract = Callable[..., Graph]


class Deciding(nn.Module):
    """Decides by what a tensor holds."""

    def __init__(self, decide: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.decide = nn.Linear(4, 4), decide

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """The layer's output, looked at."""
        values = self.layer(values)
        self.decide(values)
        return values


@pytest.mark.parametrize(
    ("decide", "operator"),
    [
        (lambda values: values.sum().item(), "aten::_local_scalar_dense"),
        (lambda values: bool(values.sum() > 0), "aten::_local_scalar_dense"),
        (lambda values: values.nonzero(), "aten::nonzero"),
        (lambda values: values[values > 0], "aten::index"),
        (lambda values: values.tolist(), "aten::"),
        (lambda values: values.detach().cpu(), "aten::"),
    ],
    ids=["item", "bool", "nonzero", "mask", "tolist", "cpu"],
)
def test_reading_a_value_is_refused_with_its_place(
    decide: Callable[[torch.Tensor], Any], operator: str, extract: Extract
) -> None:
    with pytest.raises(extractor.ExtractionError, match="decide by shapes or arguments") as caught:
        extract(lambda: (Deciding(decide), torch.empty(2, 4)))
    assert caught.value.operator.startswith(operator)
    assert "test_refusals.py:" in caught.value.place


def test_error_in_the_model_is_refused_with_its_place(extract: Extract) -> None:
    def broken(values: torch.Tensor) -> Any:
        return values["nothing"]

    with pytest.raises(extractor.ExtractionError, match="run on the CPU first") as caught:
        extract(lambda: (Deciding(broken), torch.empty(2, 4)))
    assert "in broken" in caught.value.place


def test_wrong_shapes_are_refused_by_their_operator(extract: Extract) -> None:
    with pytest.raises(extractor.ExtractionError, match="aten::addmm"):
        extract(lambda: (nn.Linear(3, 4), torch.empty(2, 5)))


def test_model_that_computes_while_it_is_built_is_told_the_cpu(extract: Extract) -> None:
    def build() -> Any:
        return nn.Linear(torch.arange(4).sum().item(), 2), torch.empty(2, 6)

    with pytest.raises(extractor.ExtractionError, match=r"build it under torch.device\('cpu'\)"):
        extract(build)


def test_naming_a_gpu_is_refused(extract: Extract) -> None:
    with pytest.raises(extractor.ExtractionError, match="name no device"):
        extract(lambda: (nn.Linear(4, 4, device="cuda"), torch.empty(2, 4)))


@pytest.mark.parametrize("built", [None, 3, (), (1, 2), {"modules": []}, nn.Linear(1, 1)], ids=repr)
def test_result_that_is_no_job_is_refused_with_the_contract(built: Any, extract: Extract) -> None:
    with pytest.raises(extractor.ExtractionError, match=r"return \(model, inputs\)"):
        extract(lambda: built)


def test_full_step_with_modules_elsewhere_is_refused(extract: Extract) -> None:
    def build() -> Any:
        return {"modules": [nn.Linear(2, 2, device="cpu")], "inputs": torch.empty(1, 2), "step": print}

    with pytest.raises(extractor.ExtractionError, match="without naming a device"):
        extract(build)


@pytest.mark.parametrize("optimizer", ["nothing", "sgd:colour=1", "sgd:momentum", "sgd:momentum=much"])
def test_unknown_optimizer_or_option_is_refused(optimizer: str, extract: Extract) -> None:
    with pytest.raises(extractor.ExtractionError, match=r"sgd:momentum=0\.9"):
        extract(lambda: (nn.Linear(2, 2), torch.empty(1, 2)), optimizer=optimizer)


@pytest.fixture
def mystery() -> Iterator[Any]:
    """An operator of somebody's own library."""
    library = torch.library.Library("cotenant_test", "DEF")
    library.define("mystery(Tensor x) -> Tensor")
    library.impl("mystery", torch.empty_like, "Meta")
    yield torch.ops.cotenant_test.mystery
    library._destroy()


def test_unknown_operator_is_counted_and_named(mystery: Any, extract: Extract) -> None:
    class Using(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return mystery(mystery(values))

    graph = extract(lambda: (Using(), torch.empty(100)), mode="Inference")
    (row,) = graph.operators
    assert graph.coverage.unknown == {"cotenant_test::mystery": 2}
    assert graph.coverage.flops_percent == 0
    assert (row.operator_class.value, row.repeat, row.bytes_read, row.bytes_written) == ("other", 2, 400, 400)
