"""The graph document."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import errors, graph


def operator(**changes: object) -> graph.Operator:
    return graph.Operator.model_validate({"class": "conv", "name": "aten::convolution", "phase": "Forward", **changes})


def sample(**changes: object) -> graph.Graph:
    value = {
        "name": "resnet50-64",
        "mode": "Training",
        "batchSize": 64,
        "parameters": 25_557_032,
        "parameterBytes": 102_228_128,
        "operators": [operator().to_object()],
        **changes,
    }
    return graph.Graph.from_object(value, source="graph").sealed()


def test_the_digest_does_not_depend_on_the_name() -> None:
    assert sample(name="a").digest == sample(name="b").digest


def test_the_digest_depends_on_the_content() -> None:
    assert sample(batchSize=1).digest != sample(batchSize=2).digest


def test_a_null_and_an_absent_key_have_the_same_digest() -> None:
    assert sample(inference=None).digest == sample().digest


def test_a_packed_graph_is_read_back() -> None:
    assert graph.Graph.read(sample().packed(), source="x") == sample()


def test_packing_gives_the_same_bytes_each_time() -> None:
    assert sample().packed() == sample().packed()


def test_plain_json_is_read_too() -> None:
    assert graph.Graph.read(sample().to_json().encode(), source="x") == sample()


def test_what_graphs_of_before_do_not_say_leaves_their_digests_as_they_are() -> None:
    written = sample(peakActivationBytes=None, channelsLast=False)
    assert written.digest == sample().digest
    assert {"peakActivationBytes", "channelsLast"}.isdisjoint(written.to_object())
    assert len({sample(**said).digest for said in ({}, {"peakActivationBytes": 0}, {"channelsLast": True})}) == 3


def test_a_graph_without_digest_is_given_one() -> None:
    content = sample().to_object()
    del content["digest"]
    assert graph.Graph.read(json.dumps(content).encode(), source="x").digest == sample().digest


def test_a_changed_graph_is_refused_by_its_digest() -> None:
    content = sample().to_object() | {"batchSize": 128}
    with pytest.raises(errors.InvalidInputError, match=r"x\.digest: .* extract the graph again"):
        graph.Graph.read(json.dumps(content).encode(), source="x")


def test_a_truncated_archive_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="must be a whole gzip file"):
        graph.Graph.read(sample().packed()[:-20], source="x")


def test_an_archive_that_explodes_is_refused() -> None:
    bomb = gzip.compress(b" " * (graph.MAX_BYTES + 1))
    with pytest.raises(errors.InvalidInputError, match="must unpack to a graph of less"):
        graph.Graph.read(bomb, source="x")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batchSize", 0),
        ("batchSize", -1),
        ("parameters", -1),
        ("operators", []),
        ("mode", "Dreaming"),
        ("precision", "fp3"),
        ("inference", {"requestsPerSecond": 0}),
        ("host", {"loaderWorkers": -1}),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(field: str, value: object) -> None:
    with pytest.raises(errors.InvalidInputError, match=rf"^graph\.{field}"):
        sample(**{field: value})


def test_equal_operators_are_folded_and_counted() -> None:
    folded = graph.folded([operator(), operator(flops=1), operator(repeat=3)])
    assert [(one.flops, one.repeat) for one in folded] == [(0, 4), (1, 1)]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_graph_or_a_clear_error(data: bytes) -> None:
    with pytest.raises(errors.InvalidInputError):
        graph.Graph.read(data, source="x")
