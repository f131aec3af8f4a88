"""Graphs that wait to be read hold up neither the workers nor other namespaces."""

import asyncio

from cotenant_api import errors
from cotenant_operator.kube import api
from cotenant_operator.loop import controller
from cotenant_operator.parsing import tasks
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.parsing import Inline

CROWD = controller.WORKERS + 8
SECONDS = 20
"""Far above what it takes: a bound against what does not end."""


class Slow(Inline):
    """Reads nothing of the namespace `crowd` until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.end, self.all_came = asyncio.Event(), asyncio.Event()

    async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        """As the process, whose turns are so long."""
        answer = await super().ask(namespace, task, data)
        if len(self.asked) == CROWD:
            self.all_came.set()
        if namespace == "crowd":
            await self.end.wait()
        return answer


async def test_more_graphs_than_workers_wait_and_another_namespace_is_served() -> None:
    parser, served = Slow(), asyncio.Event()
    cluster = Cluster(parser)
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    for number in range(CROWD):
        graph = objects.toy_graph().model_copy(update={"parameters": number, "digest": ""}).sealed()
        crowd(cluster, f"job-{number}", graph.packed())
    cluster.apply(objects.config_map(), plural="configmaps")
    await cluster.start()
    working = asyncio.create_task(cluster.work.run())
    async with asyncio.timeout(SECONDS):
        await parser.all_came.wait()
        cluster.server.fault = lambda request: served.set() if request.path.endswith("/team/jobs") else None
        cluster.apply(objects.dljob())
        await cluster.deliver()
        await served.wait()
    parser.end.set()
    cluster.work.stop()
    await working


async def test_full_queue_is_told_without_reading_the_config_map_again() -> None:
    class Full(Inline):
        """So many of each namespace wait."""

        def check(self, namespace: str) -> None:
            raise errors.TemporaryError(f"64 graphs of namespace {namespace} wait", delay_seconds=5)

    cluster = Cluster(Full())
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    cluster.apply(objects.config_map(), plural="configmaps")
    await cluster.start()
    cluster.apply(objects.dljob())
    for _ in range(12):
        await cluster.advance(60)
        await cluster.settle()
    assert not [request for request in cluster.server.requests if "/configmaps/" in request.path]


async def test_honest_job_waits_no_longer_beside_a_thousand_of_another_namespace() -> None:
    """In requests of the others that come first: each takes as long as the API server takes."""
    waited = [await others_first(0), await others_first(1000)]
    assert waited[1] <= waited[0] + 2 * controller.WORKERS


async def others_first(count: int) -> int:
    """How many ConfigMaps of a crowd are read before an honest DLJob's Job is made."""
    cluster = Cluster()
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    cluster.apply(objects.config_map(), plural="configmaps")
    for number in range(count):
        crowd(cluster, f"job-{number}", objects.toy_graph().packed())
    await cluster.start()
    cluster.apply(objects.dljob())
    await cluster.deliver()
    served = asyncio.Event()

    def watch(request: api.Request) -> None:
        if request.path.endswith("/team/jobs"):
            served.set()

    cluster.server.fault = watch
    before = len(cluster.server.requests)
    working = asyncio.create_task(cluster.work.run())
    async with asyncio.timeout(SECONDS):
        await served.wait()
    since = cluster.server.requests[before:]
    cluster.work.stop()
    await working
    last = next(index for index, request in enumerate(since) if request.path.endswith("/team/jobs"))
    return sum("/crowd/configmaps/" in request.path for request in since[:last])


def crowd(cluster: Cluster, name: str, data: bytes) -> None:
    """A DLJob with a graph of its own."""
    config_map = objects.config_map(name, data=data)
    job = objects.dljob(name, model={"configMapRef": {"name": name}})
    for value, plural in ((config_map, "configmaps"), (job, "dljobs")):
        value["metadata"]["namespace"] = "crowd"
        cluster.apply(value, plural=plural)
