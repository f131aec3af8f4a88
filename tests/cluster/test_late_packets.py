"""Packets between the extender and a real API server are held back: what the extender gave up arrives all the same.

As root: the extender runs in a network namespace. Where nobody is root these tests say so and do not run; the same
faults are simulated in tests/simulation and tests/extender/test_binder.py.
"""

import asyncio
import itertools
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, Self, TypeVar

import orjson
import pytest

from cluster.workloads import pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, nodes, startup, testing, waiting, wires
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster
from cotenant_extender import service, wire
from cotenant_extender.kube import http, transport

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace can only be made by root")

T = TypeVar("T")
GPUS = 6
SECONDS = 60
BINDINGS = re.compile(
    r'apiserver_request_total\{code="(\d+)",.*resource="pods",.*subresource="binding",verb="POST".*\} (\d+)'
)
PODS = clients.path_of("pods", namespace="default")
CLASSES = clients.path_of("priorityclasses", group="scheduling.k8s.io")


class Counting:
    """A transport that counts the Bindings that it was given.

    Args:
        keeps: a Binding whose sender gives up stays under way on an open connection, as behind a load balancer. Else
            its connection is closed: the API server then carries it out, or ends it with 504, whichever comes first.
    """

    def __init__(self, carrier: http.HTTP, *, keeps: bool) -> None:
        self.carrier, self._keeps = carrier, keeps
        self.bindings = self.unanswered = 0
        self._kept: set[asyncio.Task[transport.Answer]] = set()

    async def request(self, request: transport.Request) -> transport.Answer:
        """Send one."""
        try:
            return await self._sent(request)
        except transport.UnansweredError:
            self.unanswered += 1
            raise

    async def _sent(self, request: transport.Request) -> transport.Answer:
        if not request.path.endswith("/binding"):
            return await self.carrier.request(request)
        self.bindings += 1
        if not self._keeps:
            return await self.carrier.request(request)
        sending = asyncio.ensure_future(self.carrier.request(request._replace(timeout_seconds=SECONDS)))
        self._kept.add(sending)
        await asyncio.wait({sending}, timeout=request.timeout_seconds)
        if not sending.done():
            raise transport.UnansweredError("timed out")
        return sending.result()

    async def close(self) -> None:
        """Close what is open still."""
        await asyncio.gather(*self._kept, return_exceptions=True)
        await self.carrier.__aexit__(None, None, None)

    def stream(self, request: transport.Request) -> AbstractAsyncContextManager[transport.Stream]:
        """Send one whose answer is read line by line."""
        return self.carrier.stream(request)


class Remote:
    """Extenders at the other end of a cable; tests take the place of kube-scheduler."""

    def __init__(self, cluster: Cluster, cable: wires.Wire) -> None:
        self.cluster, self.cable = cluster, cable
        self._kubeconfig = installation.kubeconfig_of(cluster, installation.EXTENDER, names.SCHEDULER_ACCOUNT)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ended: asyncio.Task[None] | None = None
        self._carriers: list[Counting] = []
        self._extenders: list[service.Extender] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._closed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def start(self, *, keeps: bool) -> service.Extender:
        """Run another extender; returns when it serves, with as many idle connections as there are GPUs and more."""
        extender = self.call(self._started(keeps=keeps))
        waiting.wait_until(extender.serving, "serving extender", SECONDS)
        self.call(self._connect())
        return extender

    @property
    def sent(self) -> int:
        """How many Bindings all extenders have sent."""
        return sum(carrier.bindings for carrier in self._carriers)

    def all_answered(self) -> bool:
        """Return whether every Binding that was sent has been carried out or refused, however late."""
        return answered(self).total() >= self.sent

    def stop(self) -> None:
        """End the extender that runs, as SIGKILL would: what it sent stays under way."""
        self.call(self._stopped())

    def filter(self, extender: service.Extender, pod: Json, node: str) -> bool:
        """Return whether filter leaves a node for a pod."""
        asked = orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": [node]})
        answer = orjson.loads(self.call(extender.filter(wire.decode_args(asked))))
        return bool(answer["NodeNames"] == [node])

    def bind(self, extender: service.Extender, pod: Json, node: str) -> str:
        """Return what bind answers: empty on success."""
        metadata = pod["metadata"]
        asked = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"], "Node": node}
        answer = self.call(extender.bind(wire.decode_binding(orjson.dumps(asked))))
        return str(orjson.loads(answer)["Error"])

    def bind_all(self, extender: service.Extender, pods: list[Json], node: str) -> list[str]:
        """Bind several pods at the same time."""
        with ThreadPoolExecutor(len(pods)) as pool:
            return list(pool.map(lambda pod: self.bind(extender, pod, node), pods))

    def bind_in_vain(self, extender: service.Extender, pods: list[Json], node: str) -> list[str]:
        """Bind several pods while the cable is pulled; put it back when each was read twice in vain, too.

        By then the kernel waits for seconds before it sends the Bindings again.
        """
        self.cable.pull()
        before = self._carriers[-1].unanswered
        with ThreadPoolExecutor(1) as pool:
            answers = pool.submit(self.bind_all, extender, pods, node)
            waiting.wait_until(
                lambda: self._carriers[-1].unanswered - before >= 3 * len(pods), "unanswered requests", SECONDS
            )
            self.cable.put_back()
            return answers.result()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def _run(self) -> None:
        self.cable.move_there()
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _started(self, *, keeps: bool) -> service.Extender:
        carrier = await http.HTTP(str(self._kubeconfig), clock=time.monotonic).__aenter__()
        self._carriers.append(Counting(carrier, keeps=keeps))
        extender = service.Extender(service.Settings(identity="there", assume_leader=True), self._carriers[-1])

        async def run() -> None:
            try:
                await extender.run()
            finally:
                if not keeps:
                    await carrier.__aexit__(None, None, None)

        self._extenders.append(extender)

        self._ended = asyncio.ensure_future(run())
        return extender

    async def _connect(self) -> None:
        version = transport.Request("GET", "/version")
        await asyncio.gather(*(self._carriers[-1].request(version) for _ in range(4 * GPUS)))

    async def _stopped(self) -> None:
        if self._ended is not None:
            self._ended.cancel()
            await asyncio.wait({self._ended})
            await self._extenders[-1].writer.finish()

    async def _closed(self) -> None:
        for carrier in self._carriers:
            await carrier.close()


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A control plane that listens at this end of a cable, one node with a few GPUs, and a place for extenders."""
    kind = nodes.NodeType("n", nodes.H200, gpus=GPUS, nodes=1)
    with ExitStack() as opened:
        cable = opened.enter_context(wires.wire())
        options = startup.Options(nodes=nodes.of_type(kind), host=wires.HERE)
        cluster = opened.enter_context(testing.control_plane(tmp_path_factory.mktemp("late"), options))
        installation.apply_manifests(cluster)
        installation.start_agents(cluster)
        cluster.client.create(
            CLASSES,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
        )
        yield opened.enter_context(Remote(cluster, cable))


_numbers = itertools.count(1)


def submit(remote: Remote, count: int, **spec: Any) -> list[Json]:
    """Create pods that take a GPU each; returns them once the queue has lifted them."""
    made = [f"p{next(_numbers)}" for _ in range(count)]
    for name in made:
        remote.cluster.client.create(PODS, pod_object(name, 90, **spec))

    def lifted() -> bool:
        return all("schedulingGates" not in pod["spec"] for pod in found(remote, made))

    waiting.wait_until(lifted, "lifted gates", SECONDS)
    return found(remote, made)


def found(remote: Remote, made: list[str]) -> list[Json]:
    return [remote.cluster.client.get(clients.path_of("pods", namespace="default", name=name)) for name in made]


def answered(remote: Remote) -> Counter[str]:
    """How many Bindings the API server has answered, by code: those whose senders had gone, too."""
    text = remote.cluster.kubectl("get", "--raw", "/metrics")
    total: Counter[str] = Counter()
    for code, count in BINDINGS.findall(text):
        total[code] += int(count)
    return total


def booked(remote: Remote) -> Counter[str]:
    """Hundredths by GPU, of the pods that are bound."""
    total: Counter[str] = Counter()
    for pod in remote.cluster.client.items(PODS):
        text = (pod["metadata"].get("annotations") or {}).get(names.PLACEMENT)
        for gpu in json.loads(text)["gpus"] if text else ():
            total[gpu["uuid"]] += gpu["share"]
    return total


@pytest.fixture
def empty(remote: Remote) -> Iterator[Remote]:
    """No pods before, and none after."""
    yield remote
    remote.cable.put_back()
    remote.stop()
    for pod in remote.cluster.client.items(PODS):
        path = clients.path_of("pods", namespace="default", name=pod["metadata"]["name"])
        remote.cluster.client.delete(path, gracePeriodSeconds="0")
    waiting.wait_until(lambda: not remote.cluster.client.items(PODS), "no pods", SECONDS)


@pytest.mark.parametrize("keeps", [False, True], ids=["closed", "kept"])
def test_bindings_that_arrive_after_their_sender_gave_up_book_no_gpu_twice(empty: Remote, *, keeps: bool) -> None:
    extender = empty.start(keeps=keeps)
    first = submit(empty, GPUS)
    empty.bind_in_vain(extender, first, "n-0")
    # Nothing was sent to the watch of pods meanwhile, so it is not held up: others of a higher priority are heard of
    # before the Bindings arrive, and take what was promised to their pods.
    later = [f"q{next(_numbers)}" for _ in range(GPUS)]
    for name in later:
        empty.cluster.client.create(PODS, pod_object(name, 90, priorityClassName="high"))

    def all_are_bound() -> bool:
        for pod in found(empty, later):
            waits = "schedulingGates" not in pod["spec"] and "nodeName" not in pod["spec"]
            if waits and empty.filter(extender, pod, "n-0"):
                empty.bind(extender, pod, "n-0")
        return all("nodeName" in pod["spec"] for pod in found(empty, later))

    waiting.wait_until(all_are_bound, "bound pods of high priority", SECONDS)
    waiting.wait_until(empty.all_answered, "late Bindings", SECONDS)
    assert booked(empty) == dict.fromkeys(booked(empty), 90)
    assert len(booked(empty)) == GPUS


def test_bindings_of_a_former_leader_that_arrive_late_book_no_gpu_twice(empty: Remote) -> None:
    former = empty.start(keeps=True)
    pods = submit(empty, GPUS)
    empty.bind_in_vain(former, pods, "n-0")
    empty.stop()
    extender = empty.start(keeps=False)
    waiting.wait_until(empty.all_answered, "late Bindings", SECONDS)
    for pod in found(empty, [pod["metadata"]["name"] for pod in pods]):
        assert "nodeName" in pod["spec"] or empty.bind(extender, pod, "n-0") == ""
    assert booked(empty) == dict.fromkeys(booked(empty), 90)
    assert len(booked(empty)) == GPUS
