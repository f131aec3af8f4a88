"""What the extractor's tests share: extraction with the usual options, and figures that are only reported."""

from collections.abc import Callable
from typing import Any

import pytest

from cotenant_api.graph import Graph, OperatorClass
from cotenant_predictor.extraction import extractor

MATRIX = {OperatorClass.CONV, OperatorClass.MATMUL, OperatorClass.ATTENTION, OperatorClass.RNN}
FIGURE = "figure"


@pytest.fixture(scope="session")
def extract() -> Callable[..., Graph]:
    def run(build: Callable[[], Any], **options: Any) -> Graph:
        defaults = {"name": "example", "batchSize": 1, "mode": "Training", "precision": "fp32", "optimizer": "sgd"}
        return Graph.from_object(extractor.extract(build, {**defaults, **options}), source="example")

    return run


@pytest.fixture(scope="session")
def matrix_flops() -> Callable[[Graph], int]:
    """FLOPs of convolutions, products, attention and recurrent layers: what published counts count."""

    def count(graph: Graph) -> int:
        return sum(op.flops * op.repeat for op in graph.operators if op.operator_class in MATRIX)

    return count


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keeps a line for the end of the run, from whichever process the test is in."""
    return lambda line: request.node.user_properties.append((FIGURE, line))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in terminalreporter.stats.values():
        for told in outcome:
            if isinstance(told, pytest.TestReport) and told.when == "call":
                for name, line in told.user_properties:
                    if name == FIGURE:
                        terminalreporter.write_line(str(line))
