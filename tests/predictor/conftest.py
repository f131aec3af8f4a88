"""Graphs and GPU models for the predictor's tests."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cotenant_api.graph import Graph, Mode, Operator, OperatorClass, Phase
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.devices import Device
from cotenant_predictor.training import jobs


@dataclasses.dataclass(frozen=True)
class Builder:
    """Builds graphs whose amounts a test states where they matter."""

    def matmul(self, *, flops: int = 2**36, outputs: int = 2**24, **more: Any) -> Operator:
        """A large product that fills every GPU."""
        values = {"operator_class": OperatorClass.MATMUL, "name": "aten::mm", "phase": Phase.FORWARD, **more}
        return Operator(flops=flops, output_elements=outputs, bytes_read=2**20, bytes_written=2**20, **values)

    def copy(self, *, moved: int = 2**28, **more: Any) -> Operator:
        """A copy that memory bounds."""
        values = {"operator_class": OperatorClass.COPY, "name": "aten::clone", "phase": Phase.FORWARD, **more}
        return Operator(bytes_read=moved, bytes_written=moved, **values)

    def graph(self, *operators: Operator, **more: Any) -> Graph:
        """A training step of these operators."""
        values = {"name": "example", "mode": Mode.TRAINING, "batch_size": 64, "parameters": 10**6, **more}
        return Graph(parameter_bytes=4 * values["parameters"], operators=operators or (self.matmul(),), **values)


@pytest.fixture(scope="session")
def build() -> Builder:
    return Builder()


@pytest.fixture(scope="session")
def h200() -> Device:
    return devices.load()[GPUModel("NVIDIA-H200")]


@pytest.fixture(scope="session")
def faster() -> Callable[..., Device]:
    """A GPU like another one, with some values changed."""

    def change(device: Device, **values: Any) -> Device:
        return device.model_copy(update=values)

    return change


@pytest.fixture(scope="module")
def few_trees() -> Iterator[None]:
    """Rows are held out with ten trees, not fifty: as good where what is tested holds for any forest, and quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_HELD_OUT_TREES", 0.05)
        yield
