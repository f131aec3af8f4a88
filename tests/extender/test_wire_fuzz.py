"""Bytes that no kube-scheduler sends: every verb answers, or refuses, by the protocol; nothing is ever raised."""

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import strategies as st

from cotenant_api import names
from cotenant_extender import app, wire
from cotenant_extender.kube import pods
from extender import asgi, builders, running, virtual

Object = dict[str, Any]

FILTER, PRIORITIZE, BIND = (f"{app.PREFIX}/{verb}" for verb in ("filter", "prioritize", "bind"))
KEYS = {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
ANNOTATIONS = {
    names.PREDICTION: builders.prediction(h200=(40.0, 1000, 50)),
    names.GPU_MEMORY: "8Gi",
    names.GPU_MODELS: builders.H200,
    names.GANG: '{"v":1,"name":"g","size":2}',
    names.EARMARK: '{"v":1,"node":"n0","gpus":["GPU-n0-0"]}',
    names.PLACEMENT: "{}",
    names.QUEUED_SINCE: "2026-01-31T12:00:00Z",
    names.MINIMUM_RUN_SECONDS: "0",
    names.PROCESSES_PER_GPU: "2",
    names.WORKLOAD_TYPE: "Inference",
}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["5"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}],
                }
            ]
        }
    }
}
POD = builders.pod(
    "free",
    gates=(),
    annotations=ANNOTATIONS,
    labels={"team": "x"},
    nodeSelector={"zone": "a"},
    tolerations=[{"key": "x", "operator": "Exists", "effect": "NoSchedule"}],
    affinity=AFFINITY,
    overhead={"cpu": "10m"},
    initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
    unschedulable="x",
    packed="TenantLimit",
)
NODE = builders.node("n1", labels={"zone": "a"}, taints=[{"key": "x", "effect": "NoSchedule"}])
BY_NAME: Object = {"Pod": POD, "Nodes": None, "NodeNames": ["n0", "n1", "n2"]}
BY_NODE: Object = {"Pod": builders.pod("simple", gates=()), "Nodes": {"items": [NODE]}, "NodeNames": None}
BINDING: Object = {"PodName": "simple", "PodNamespace": "team", "PodUID": "uid-simple", "Node": "n0"}

HUGE = st.sampled_from(["1" + "0" * 400, "-" + "9" * 5000, "1e999", "-1e400", "1e-9999", str(2**63), str(2**64), "-0"])
LITERALS = HUGE | st.sampled_from(["NaN", "Infinity", "-Infinity", '"\\ud800"', '"\\u0000"', '"' + "x" * 300 + '"'])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=20)
    | st.sampled_from(
        ["1e400", "9" * 60, "1E", "1e1000000000", "-1", "0x10", "½", "9" * 400, "2026-99-99T00:00:00Z", "\udc80"]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something stands in a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


@st.composite
def changed(draw: st.DrawFn, base: Object) -> bytes:
    """A body of which some places hold something else, or are gone, or stand under another key."""
    value = json.loads(json.dumps(base))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(list(paths(value))))
        inner: Any = value
        for key in way:
            inner = inner[key]
        if draw(st.integers(0, 3)) == 0:
            del inner[last]
        else:
            inner[last] = draw(VALUES)
        if not value:
            break
    return json.dumps(value).encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn, base: Object) -> bytes:
    """A body of which some bytes are lost, doubled, or others."""
    body = json.dumps(base).encode()
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = start + draw(st.integers(0, 40))
        middle = draw(st.binary(max_size=6) | LITERALS.map(str.encode) | st.just(body[start:end] * 2))
        body = body[:start] + middle + body[end:]
    return body


def deep(draw_from: int) -> bytes:
    """Nested so many times."""
    return json.dumps(BY_NAME)[:-1].encode() + b',"x":' + b'{"a":[' * draw_from + b"]}" * draw_from + b"}"


def bodies(*bases: Object) -> st.SearchStrategy[bytes]:
    """Whatever may come in the place of these."""
    return (
        st.one_of(*(changed(base) for base in bases))
        | st.one_of(*(damaged(base) for base in bases))
        | VALUES.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))
        | st.binary(max_size=100)
        | st.sampled_from([1, 100, 1023, 1025, 50_000]).map(deep)
        | LITERALS.map(lambda text: json.dumps(bases[0]).replace('"cotenant"', text).encode())
    )


class Service:
    """The application of an extender in virtual time, which passes only while something is asked."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=virtual.Loop)
        server = running.server(nodes=3, tenancy="Label", tenancyLabel="team")
        for pod in (builders.pod("simple", gates=()), builders.bound("other", 10, "n0", "GPU-n0-0")):
            server.put(pods.PODS, pod)
        self._context = running.extender(server, assume_leader=True)
        self.rig = self._runner.run(self._context.__aenter__())
        self._runner.run(self.rig.serving())
        self._app = app.create(self.rig.extender, self.rig.extender.metrics)

    def ask(self, path: str, body: bytes) -> tuple[int, Any]:
        """Status and decoded body of an answer."""
        status, answer = self._runner.run(asgi.call(self._app, "POST", path, body))
        return status, orjson.loads(answer)

    def close(self) -> None:
        """Stop it."""
        self._runner.run(self._context.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """One for all examples: what one asked may not disturb the next."""
    made = Service()
    yield made
    assert made.ask(FILTER, json.dumps(BY_NODE | {"Nodes": None, "NodeNames": ["n0"]}).encode())[1]["NodeNames"] == [
        "n0"
    ]
    made.close()


FUZZED = hypothesis.settings(max_examples=300, deadline=None)


@FUZZED
@hypothesis.given(body=bodies(BY_NAME, BY_NODE))
def test_filter_answers_whatever_comes_with_a_filter_result(service: Service, body: bytes) -> None:
    status, answer = service.ask(FILTER, body)
    hypothesis.event("refused" if answer["Error"] else "chosen" if answer["NodeNames"] else "answered")
    assert (status, set(answer)) == (200, KEYS)


@FUZZED
@hypothesis.given(body=bodies(BY_NAME, BY_NODE))
def test_prioritize_answers_whatever_comes_with_scores_or_400(service: Service, body: bytes) -> None:
    status, answer = service.ask(PRIORITIZE, body)
    if status == 200:
        assert all(set(one) == {"Host", "Score"} and isinstance(one["Score"], int) for one in answer)
    else:
        assert (status, set(answer)) == (400, {"error"})


@FUZZED
@hypothesis.given(body=bodies(BINDING))
def test_bind_answers_whatever_comes_with_a_binding_result(service: Service, body: bytes) -> None:
    status, answer = service.ask(BIND, body)
    assert (status, set(answer)) == (200, {"Error"})


@FUZZED
@hypothesis.given(body=bodies(BY_NAME, BY_NODE, BINDING))
def test_the_decoder_raises_nothing_but_its_own_refusals(body: bytes) -> None:
    for decode in (wire.decode_args, wire.decode_binding):
        try:
            decode(body)
        except wire.MalformedError as refusal:
            hypothesis.event("refused")
            wire.filter_error(str(refusal))


def test_a_number_that_no_json_may_hold_is_refused() -> None:
    for number in (math.nan, math.inf):
        with pytest.raises(wire.MalformedError, match="must be JSON"):
            wire.decode_args(json.dumps(BY_NAME | {"x": number}).encode())
