"""A prediction says when it should not be trusted."""

from typing import Any

import pytest

from cotenant_api.graph import Coverage, Graph
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction as jobs


def outside(graph: Graph, model: str = "NVIDIA-H200") -> bool:
    return jobs.predict(graph, devices.select([model])).by_gpu[GPUModel(model)].out_of_domain


def test_known_graph_that_fits_is_inside(build: Any) -> None:
    assert not outside(build.graph())


@pytest.mark.parametrize(
    "coverage",
    [Coverage(operators=100, unknown={"aten::foo": 6}), Coverage(operators=100, flops_percent=94.0)],
)
def test_graph_that_the_extractor_did_not_know_is_outside(build: Any, coverage: Coverage) -> None:
    assert outside(build.graph(coverage=coverage))


def test_few_unknown_operators_are_inside(build: Any) -> None:
    assert not outside(build.graph(coverage=Coverage(operators=100, unknown={"aten::foo": 5})))


def test_job_that_does_not_fit_the_gpu_is_outside_there_alone(build: Any) -> None:
    graph = build.graph(saved_activation_bytes=20 * 2**30)
    assert outside(graph, "Tesla-T4")
    assert not outside(graph, "NVIDIA-H200")


def test_type_without_a_rate_is_outside(build: Any) -> None:
    graph = build.graph(build.matmul(dtype="bf16"))
    assert outside(graph, "Tesla-T4")
    assert not outside(graph, "NVIDIA-L4")


def test_tf32_is_fp32_where_there_is_none(build: Any) -> None:
    assert not outside(build.graph(build.matmul(dtype="tf32")), "Tesla-T4")
