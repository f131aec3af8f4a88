"""The protocol's bodies: what is of its shape is read, everything else is refused with what is wrong."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import hypothesis
import orjson
import pytest
from hypothesis import strategies as st

from cotenant_api import errors
from cotenant_extender import records, verbs, wire
from extender import builders

Object = dict[str, Any]
T = TypeVar("T")


def args(**changes: Any) -> bytes:
    return json.dumps({"Pod": builders.pod("a"), "Nodes": None, "NodeNames": ["n0", "n1"]} | changes).encode()


def test_node_names_are_read_and_answered_as_names() -> None:
    found = wire.decode_args(args())
    assert found.names == ("n0", "n1")
    assert found.pod.name == "a"
    answer = json.loads(wire.filter_result(found, ["n0"], {"n1": "why"}))  # type: ignore[list-item,dict-item]
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n0"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    refused = json.loads(wire.filter_result(found, [], {"n1": "why"}))  # type: ignore[dict-item]
    assert refused["FailedAndUnresolvableNodes"] == {"n1": "why"}


def test_whole_nodes_are_read_and_answered_as_nodes() -> None:
    nodes = [builders.node("n0"), builders.node("n1")]
    found = wire.decode_args(args(NodeNames=None, Nodes={"items": nodes}))
    assert found.names == ("n0", "n1")
    answer = json.loads(wire.filter_result(found, ["n1"], {}))  # type: ignore[list-item]
    assert answer["NodeNames"] is None
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["n1"]


def test_a_request_without_nodes_has_none() -> None:
    assert wire.decode_args(args(NodeNames=None)).names == ()


def test_scores_are_json_integers() -> None:
    assert wire.priorities([("n0", 10), ("n1", 0)]) == (  # type: ignore[list-item]
        b'[{"Host":"n0","Score":10},{"Host":"n1","Score":0}]'
    )


def test_a_binding_is_read() -> None:
    body = b'{"PodName":"a","PodNamespace":"team","PodUID":"u","Node":"n0","New":1}'
    found = wire.decode_binding(body)
    assert (found.name, found.namespace, found.uid, found.node) == ("a", "team", "u", "n0")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"\xff\xfe", "body"),
        (b"[" * 100_000, "body"),
        (b"{}", "Pod"),
        (args(Pod=[]), "Pod"),
        (args(Pod={"metadata": None}), "Pod.metadata"),
        (args(Pod={"metadata": {"uid": 5}}), "Pod.metadata.uid"),
        (args(Pod={"metadata": {"uid": "u"}, "spec": 5}), "Pod"),
        (args(Pod={"metadata": {"uid": "u"}, "spec": {"containers": [5]}}), "Pod"),
        (args(Pod={"metadata": {"uid": "u", "labels": 1}}), "Pod.metadata.labels"),
        (args(Pod={"metadata": {"uid": "u", "annotations": {"a": 1}}}), "Pod.metadata.annotations[a]"),
        (args(NodeNames="n0"), "NodeNames"),
        (args(NodeNames=[5]), "NodeNames[]"),
        (args(NodeNames=None, Nodes=[]), "Nodes"),
        (args(NodeNames=None, Nodes={"items": [{}]}), "Nodes.items[].metadata"),
    ],
)
def test_a_malformed_body_is_refused_with_the_field(body: bytes, field: str) -> None:
    with pytest.raises(wire.MalformedError) as caught:
        wire.decode_args(body)
    assert caught.value.field == field


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
def test_a_binding_that_lacks_a_field_is_refused_with_it(missing: str) -> None:
    value = {"PodName": "a", "PodNamespace": "team", "PodUID": "u", "Node": "n0"}
    del value[missing]
    with pytest.raises(wire.MalformedError) as caught:
        wire.decode_binding(json.dumps(value).encode())
    assert caught.value.field == missing


def test_an_oversized_body_is_refused_with_the_remedy() -> None:
    with pytest.raises(wire.OversizedError, match="nodeCacheCapable"):
        wire.decode_args(b" " * (wire.MAX_BODY_BYTES + 1))


def test_a_message_with_a_lone_surrogate_can_be_answered() -> None:
    assert b"Error" in wire.filter_error("\ud800")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where something stands in a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.extend(paths(inner, (*path, key)))
    return found


def decoded(decode: Callable[[bytes], T], body: bytes) -> T | None:
    """What a body says; None where it is refused, with an answer that says why."""
    try:
        return decode(body)
    except errors.InvalidInputError as refusal:
        return None if orjson.loads(wire.filter_error(str(refusal)))["Error"] else decode(body)


RICH = builders.pod(
    "a",
    annotations={
        "cotenant.dev/prediction": builders.prediction(h200=(40.0, 1000, 50)),
        "cotenant.dev/gpu-memory": "8Gi",
        "cotenant.dev/gang": '{"v":1,"name":"g","size":2}',
        "cotenant.dev/earmark": '{"v":1,"node":"n0","gpus":["x"]}',
        "cotenant.dev/queued-since": "2026-01-31T12:00:00Z",
    },
    labels={"team": "x"},
    nodeSelector={"zone": "a"},
    tolerations=[{"key": "x", "operator": "Exists"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        }
    },
    initContainers=[{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
    unschedulable="x",
)
REQUEST = {"Pod": RICH, "Nodes": None, "NodeNames": ["n0", "n1"]}


@hypothesis.settings(max_examples=400, deadline=None)
@hypothesis.given(data=st.data())
def test_a_value_of_any_kind_anywhere_in_a_request_is_answered_or_refused(data: st.DataObject) -> None:
    value = json.loads(json.dumps(REQUEST))
    path = data.draw(st.sampled_from(paths(value)))
    inner: Any = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(json_values)
    body = json.dumps(value).encode()
    source = builders.cluster(nodes=2, tenancy="Label", tenancyLabel="team")
    builders.put(source, builders.bound("other", 10, "n0", "GPU-n0-0", labels={"team": "x"}))
    found = decoded(wire.decode_args, body)
    if found is None:
        return
    filtered = verbs.filter_nodes(source, found.pod, found.names)
    assert orjson.loads(wire.filter_result(found, filtered.chosen, filtered.failed))["Error"] == ""
    wire.priorities(verbs.prioritize(source, found.pod, found.names))


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(body=st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_answered_or_refused(body: bytes) -> None:
    decoded(wire.decode_args, body)
    decoded(wire.decode_binding, body)


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(cut=st.integers(0, len(json.dumps(REQUEST)) - 1))
def test_a_truncated_body_is_refused(cut: int) -> None:
    with pytest.raises(wire.MalformedError):
        wire.decode_args(json.dumps(REQUEST).encode()[:cut])


def test_of_a_pod_that_is_known_only_the_uid_is_read() -> None:
    known = records.pod_record(builders.pod("a"))
    found = wire.decode_args(
        b'{"Pod":{"metadata":{"uid":"uid-a"},"spec":5},"NodeNames":["n0"]}', {known.uid: known}.get
    )
    assert found.pod is known
