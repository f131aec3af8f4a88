"""A step that asks what a tensor holds runs with the examples that its author declares."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cotenant_api.graph import Graph
from cotenant_predictor.extraction import extractor

Extract = Callable[..., Graph]


class Asking(nn.Module):
    """Passes on what `ask` makes of a layer's output."""

    def __init__(self, ask: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.ask = nn.Linear(8, 8), ask

    def forward(self, values: Tensor) -> Any:
        """Values of shape (b, 8)."""
        return self.ask(self.layer(values))


def shapes(function: Callable[[Tensor], Any], extract: Extract, **examples: Any) -> list[tuple[int, ...]]:
    """The shapes of what `function` returned."""
    seen = []

    def noting(values: Tensor) -> Any:
        result = function(values)
        seen.append(tuple(result.shape))
        return result

    extract(lambda: (Asking(noting), torch.empty(100, 8)), mode="Inference", examples=examples)
    return seen


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda values: values[values[:, 0] > 0], (40, 8)),
        (lambda values: values[values > 0], (40,)),
        (lambda values: values.nonzero(), (40, 2)),
        (lambda values: values.masked_select(values > 0), (40,)),
        (lambda values: values.unique(), (40,)),
        (lambda values: values.unique(dim=0), (40, 8)),
        (lambda values: values.repeat_interleave(torch.zeros(100, dtype=torch.long), dim=0), (40, 8)),
    ],
    ids=["rows", "elements", "nonzero", "masked_select", "unique", "unique_rows", "repeat_interleave"],
)
def test_number_of_rows_is_the_declared_one(ask: Any, expected: Any, extract: Extract) -> None:
    assert shapes(ask, extract, noting=40) == [expected]


def test_value_is_the_declared_one(extract: Extract) -> None:
    def ask(values: Tensor) -> Tensor:
        return values[: int(values.sum())]

    assert shapes(ask, extract, ask=7) == [(7, 8)]


def test_values_on_the_cpu_are_all_the_declared_one(extract: Extract) -> None:
    def ask(values: Tensor) -> Tensor:
        return values[: int(sum(row[0] for row in values.tolist()))]

    assert shapes(ask, extract, ask=0.5) == [(50, 8)]


def test_line_can_be_named_instead_of_the_function(extract: Extract) -> None:
    def ask(values: Tensor) -> Tensor:
        return values if values.sum() > 0 else values[:1]

    line = ask.__code__.co_firstlineno + 1
    assert shapes(ask, extract, **{f"test_examples_declared.py:{line}": True}) == [(100, 8)]
    assert shapes(ask, extract, **{f"test_examples_declared.py:{line}": False}) == [(1, 8)]


def test_example_of_another_place_does_not_answer(extract: Extract) -> None:
    def ask(values: Tensor) -> Tensor:
        return values[: int(values.sum())]

    with pytest.raises(extractor.ExtractionError, match=r"--example test_examples_declared.py:\d+=VALUE"):
        shapes(ask, extract, other=7)


def test_backward_through_a_selection_takes_an_example_too(extract: Extract) -> None:
    graph = extract(
        lambda: (Asking(lambda values: values[values[:, 0] > 0]), torch.empty(100, 8)), examples={"forward": 40}
    )
    assert {"aten::index", "aten::index_put"} <= {op.name for op in graph.operators}


def test_dice_thrown_in_python_need_no_example(extract: Extract) -> None:
    class Dropping(nn.Linear):
        def forward(self, values: Tensor) -> Tensor:
            return values if torch.rand([]) < 0.1 else super().forward(values)

    assert "aten::addmm" in {op.name for op in extract(lambda: (Dropping(8, 8), torch.empty(2, 8))).operators}
