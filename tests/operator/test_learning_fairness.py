"""Measurements of one namespace that cannot be read, or take long, hold up those of no other."""

import asyncio
import dataclasses
from typing import Any

from cotenant_api import errors, names
from cotenant_api.names import GraphDigest
from cotenant_operator.kube import api
from cotenant_operator.learning import ledger
from cotenant_operator.loop import keeper
from cotenant_operator.parsing import tasks, turns
from cotenant_operator.state import outcomes
from cotenant_operator.state.views import Key
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.measuring import line
from operator_kit.parsing import Inline
from operator_kit.server import Server, Time

Json = dict[str, Any]

RELEASE = names.RELEASE_NAMESPACE
GRAPH = GraphDigest("sha256:a")
SECONDS = 20
"""Far above what it takes: a bound against what does not end."""


class InTurns(Inline):
    """Reads as the process does: one question at a time, and not too many of a namespace.

    Attributes:
        refused: of which namespaces no measurements are read now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.turns = turns.Turns()
        self.refused: set[str] = set()

    async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        """The answer. Raises TemporaryError."""
        async with self.turns.turn(namespace):
            if any(task.source.endswith(f"-{name}") for name in self.refused):
                raise errors.TemporaryError("not now", delay_seconds=5)
            return await super().ask(namespace, task, data)


async def no_document(key: Key, spec: Any) -> outcomes.Missing:
    raise AssertionError(f"{key}: nobody asks for a graph: {spec}")


def a_keeper(parser: Inline, time: Time) -> keeper.Keeper:
    """Of a release that holds lines of two namespaces."""
    server = Server(time)
    for namespace in ("crowd", "team"):
        lines = ledger.EMPTY.with_lines([line(f"pod-of-{namespace}")])
        server.put("configmaps", ledger.manifest(namespace, lines, {}, release=RELEASE))
    dljobs = keeper.DLJobs(document=no_document, observe=lambda _: None)
    return keeper.Keeper(api.API(server), release=RELEASE, parser=parser, dljobs=dljobs, monotonic=time.monotonic)


def knows(found: keeper.Keeper) -> list[str]:
    return [name for name in ("crowd", "team") if found.learned(name, GRAPH).memory_mib is not None]


async def test_all_measurements_are_read_while_as_many_graphs_of_a_namespace_wait_as_may() -> None:
    parser = InTurns()
    end = asyncio.Event()

    async def wait() -> None:
        async with parser.turns.turn("crowd"):
            await end.wait()

    graphs = [asyncio.create_task(wait()) for _ in range(turns.PER_NAMESPACE + 1)]
    await asyncio.sleep(0)
    assert len(parser.turns) == turns.PER_NAMESPACE
    found = a_keeper(parser, Time())
    reading = asyncio.create_task(found.read_all())
    await asyncio.sleep(0)
    end.set()
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(reading, *graphs)
    assert knows(found) == ["crowd", "team"]


async def test_a_namespace_whose_lines_cannot_be_read_now_is_read_later_and_the_others_at_once() -> None:
    parser, time = InTurns(), Time()
    parser.refused.add("crowd")
    found = a_keeper(parser, time)
    await found.read_all()
    assert knows(found) == ["team"]
    await found.write_due()
    assert parser.count(tasks.Kind.LINES) == 1
    time.seconds += keeper.READ_RETRY_SECONDS
    await found.write_due()
    assert knows(found) == ["team"]
    parser.refused.clear()
    time.seconds += keeper.READ_RETRY_SECONDS
    await found.write_due()
    assert knows(found) == ["crowd", "team"]


class SlowDocuments(Inline):
    """Keeps no graph of the namespace `crowd` until it is told to; `fails`: not even then, once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for, self.end, self.fails = asyncio.Event(), asyncio.Event(), False

    async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        """As the process, whose turns are so long. Raises TemporaryError."""
        if namespace == "crowd" and task.kind is tasks.Kind.DOCUMENT:
            self.asked_for.set()
            await self.end.wait()
            if self.fails:
                raise errors.TemporaryError("not now", delay_seconds=5)
        return await super().ask(namespace, task, data)


async def measured(parser: Inline) -> Cluster:
    """A finished job in each of two namespaces, of which the first has its measurement written first."""
    cluster = Cluster(parser)
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    for namespace in ("crowd", "team"):
        found = objects.config_map()
        found["metadata"]["namespace"] = namespace
        cluster.apply(found, plural="configmaps")
    cluster.apply(objects.dljob())
    await cluster.start()
    before = cluster.store.observe(Key("team", "train"), outcome=None)
    await cluster.run("create_pods", "place", "run_pods")
    (pod,) = cluster.server.all("pods")
    ended = {"podUID": pod["metadata"]["uid"], "memoryPeakMiB": 9000, "aloneSeconds": 75}
    ended |= {"aloneUtilizationPercent": 33, "time": cluster.time.text()}
    cluster.server.change(
        "gpunodes", "n1", lambda value: value["status"]["gpus"][0].update(ended=[ended]), namespace=""
    )
    await cluster.run("succeed")
    await cluster.settle()
    cluster.restart()
    await cluster.start()
    observed = cluster.store.observe(Key("team", "train"), outcome=None)
    assert before is not None
    assert observed is not None
    for namespace in ("crowd", "team"):
        meta = dataclasses.replace(observed.job.meta, key=Key(namespace, "train"))
        job = dataclasses.replace(before.job, meta=meta)
        cluster.work.keeper.look_at(dataclasses.replace(observed, job=job))
    cluster.time.seconds += keeper.KEEP_SECONDS + 1
    return cluster


def graphs_kept(cluster: Cluster, namespace: str) -> int | None:
    """How many graphs are kept of a namespace; None: nothing is written of it."""
    found = cluster.server.find("configmaps", ledger.name_of(namespace), namespace=RELEASE)
    return None if found is None else len(ledger.graphs(found))


async def test_graphs_of_one_namespace_that_take_long_hold_up_no_measurements_of_another() -> None:
    parser = SlowDocuments()
    cluster = await measured(parser)
    written = asyncio.Event()

    async def pause(_: float) -> None:
        if graphs_kept(cluster, "team"):
            written.set()
        await asyncio.sleep(0)

    running = asyncio.create_task(cluster.work.keeper.run(pause=pause))
    async with asyncio.timeout(SECONDS):
        await parser.asked_for.wait()
        await written.wait()
    assert graphs_kept(cluster, "crowd") is None
    parser.end.set()
    running.cancel()
    await cluster.work.keeper.write_due(all_of_it=True)
    assert graphs_kept(cluster, "crowd") == 1


async def test_lines_are_kept_though_their_graphs_cannot_be_read_now_and_those_are_kept_later() -> None:
    parser = SlowDocuments()
    parser.fails = True
    parser.end.set()
    cluster = await measured(parser)
    await cluster.work.keeper.write_due()
    assert graphs_kept(cluster, "crowd") == 0
    cluster.server.requests.clear()
    cluster.time.seconds += keeper.KEEP_SECONDS + 1
    await cluster.work.keeper.write_due()
    assert [request.method for request in cluster.server.requests if request.method != "GET"] == []
    parser.fails = False
    cluster.time.seconds += keeper.KEEP_SECONDS + 1
    await cluster.work.keeper.write_due()
    assert graphs_kept(cluster, "crowd") == 1
