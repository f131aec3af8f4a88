"""Objects that no API server gives: watches go on, the ledger stays whole, and what comes next is taken."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import strategies as st

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import feed, leadership, reading, records, steps, verbs
from cotenant_extender.kube import client, pods, transport, watches
from cotenant_extender.ledger import drift, ledger
from cotenant_extender.queue import planning
from extender import builders, running, virtual
from extender.builders import NOW
from extender.test_wire_fuzz import POD, VALUES, paths

Object = dict[str, Any]

NODES = [NodeName("n0"), NodeName("n1")]
NODE = builders.node("n0", labels={"zone": "a"}, taints=[{"key": "x", "effect": "NoSchedule"}])
GPUNODE = builders.gpunode("n0", tenants={0: ["a"]}, spec={"excludedGPUs": ["GPU-n0-1"]})
AGENT = builders.lease("node-n0", "n0")
SCHEDULER = builders.lease("cotenant-scheduler", "host_1")
POLICY = builders.policy(tenancy="Any", overrides=[{"gpuModels": [builders.T4], "maxTenantsPerGPU": 2}])
BOUND = builders.bound("a", 40, "n0", "GPU-n0-0", annotations=POD["metadata"]["annotations"])
READERS: dict[str, Callable[[Object], Any]] = {
    "pods": reading.pod,
    "nodes": reading.node,
    "gpunodes": reading.gpunode,
    "leases": reading.lease,
    "policies": lambda item: item,
}
"""What reads an object of a list before it is delivered."""
KINDS: dict[str, list[Object]] = {
    "pods": [POD, BOUND],
    "nodes": [NODE],
    "gpunodes": [GPUNODE],
    "leases": [AGENT, SCHEDULER],
    "policies": [POLICY],
}


@st.composite
def broken(draw: st.DrawFn, kind: str) -> Object:
    """An object of which some places hold something else, or nothing. It keeps its name and UID."""
    base = draw(st.sampled_from(KINDS[kind]))
    value: Object = json.loads(json.dumps(base))
    for _ in range(draw(st.integers(1, 3))):
        ways = list(paths(value))
        if not ways:
            break
        way = draw(st.sampled_from(ways))
        inner: Any = value
        for key in way[:-1]:
            inner = inner[key]
        if draw(st.integers(0, 3)) == 0:
            del inner[way[-1]]
        else:
            inner[way[-1]] = draw(VALUES)
    metadata = value.get("metadata")
    kept = {key: base["metadata"][key] for key in ("name", "uid", "namespace") if key in base["metadata"]}
    value["metadata"] = (metadata if isinstance(metadata, dict) else {}) | kept
    return value


def sink_of(kind: str, source: ledger.Ledger) -> watches.Sink:
    """What the watch of a kind delivers to."""

    def clock() -> float:
        return NOW

    def changed() -> None:
        pass

    made: dict[str, Callable[[], watches.Sink]] = {
        "pods": lambda: feed.Pods(source, clock, changed),
        "nodes": lambda: feed.Nodes(source, changed),
        "gpunodes": lambda: feed.GPUNodes(source, clock, changed),
        "leases": lambda: feed.Leases(source, leadership.Leadership("host", assume=False), clock, changed),
        "policies": lambda: feed.Policies(source, changed),
    }
    return made[kind]()


@pytest.mark.parametrize("kind", KINDS)
@hypothesis.settings(max_examples=80, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=st.data())
def test_a_malformed_object_is_taken_in_and_the_next_one_too(kind: str, data: st.DataObject) -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.bound("b", 30, "n0", "GPU-n0-1"))
    sink, queue = sink_of(kind, source), planning.Queue()
    for deliver in data.draw(st.lists(st.sampled_from(["changed", "listed", "gone"]), min_size=1, max_size=3)):
        wrong = data.draw(broken(kind))
        if deliver == "listed":
            steps.finish(sink.take([READERS[kind](wrong)], 1))
        else:
            getattr(sink, deliver)(wrong)
        decide(source, queue)
    for good in KINDS[kind]:
        sink.changed(copy.deepcopy(good))
    decide(source, queue)


def decide(source: ledger.Ledger, queue: planning.Queue) -> None:
    """What is decided on this state: the queue and a filter; and the ledger equals its recount."""
    source.tick(now=NOW)
    assert drift.differences(source) == []
    if source.policy is not None:
        queue.plan(source, source.policy, now=NOW)
    new = records.pod_record(builders.pod("new", gates=()))
    for leaves in verbs.Leaves:
        verbs.filter_nodes(source, new, NODES, leaves=leaves)
    verbs.prioritize(source, new, NODES)


@pytest.mark.parametrize("cpu", ["1E", "9223372036854775807", "-1E"])
def test_a_pod_that_asks_for_more_cores_than_a_number_holds_is_counted_and_fits_nowhere(cpu: str) -> None:
    source = builders.cluster(nodes=1)
    asking = {"name": "main", "resources": {"requests": {"cpu": cpu}, "limits": {names.GPU_SHARE: "10"}}}
    sink = sink_of("pods", source)
    sink.changed(builders.pod("waits", containers=[asking]))
    sink.changed(builders.bound("runs", 10, "n0", "GPU-n0-0", containers=[asking]))
    decide(source, planning.Queue())


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"nodeName": "n0", "containers": [5]}},
        {"metadata": {"uid": "uid-a", "name": "a", "namespace": "team", "annotations": 5}},
        {"spec": {"nodeName": "n0", "containers": [{"resources": {"limits": {"cotenant.dev/gpu-share": []}}}]}},
    ],
)
def test_a_running_pod_that_cannot_be_read_closes_its_node(change: Object) -> None:
    source = builders.cluster(nodes=1)
    sink_of("pods", source).changed(copy.deepcopy(BOUND) | change)
    assert source.pods[PodUID("uid-a")].placement is None
    assert source.nodes[NodeName("n0")].unreadable


class _Junk:
    """An API server whose watch sends lines, then nothing more."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = list(lines)
        self.lists = 0

    async def request(self, _request: transport.Request) -> transport.Answer:
        self.lists += 1
        body = {"metadata": {"resourceVersion": "1"}, "items": []}
        return transport.Answer(200, {}, orjson.dumps(body))

    @asynccontextmanager
    async def stream(self, _request: transport.Request) -> AsyncIterator[transport.Stream]:
        yield _Lines(self._lines)


class _Lines:
    def __init__(self, waiting: list[bytes]) -> None:
        self.status = 200
        self._waiting = waiting

    async def lines(self) -> AsyncIterator[bytes]:
        while self._waiting:
            yield self._waiting.pop(0)
        await asyncio.Event().wait()


EVENT = orjson.dumps({"type": "ADDED", "object": builders.node("late")})


@pytest.mark.parametrize(
    "line",
    [
        b"5",
        b"[]",
        b"null",
        b'{"type":5}',
        b'{"type":"ADDED","object":5}',
        b'{"type":"ADDED","object":{}}',
        b'{"type":"ADDED","object":{"metadata":5}}',
        b'{"type":"ADDED","object":{"metadata":{"name":5}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":5}}}',
        b'{"type":"ERROR","object":{"code":"x"}}',
        b'{"type":"ERROR","object":[]}',
        b"\xff",
        b"{",
        b"[" * 5000,
    ],
)
@virtual.time
async def test_a_line_that_is_no_event_is_survived(line: bytes) -> None:
    server = _Junk(line, EVENT)
    source = builders.cluster(nodes=0)
    watch = watches.Watch(client.Client(server), pods.NODES, sink_of("nodes", source))
    task = asyncio.create_task(watch.run())
    await running.until(lambda: NodeName("late") in source.nodes, "the next event")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
