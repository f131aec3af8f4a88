"""A model of kube-scheduler: one scheduling cycle at a time, an extender for filter and bind, assumed pods, backoff.

It knows nodes and pods from watches, scores nothing, and preempts nothing, as its shipped profile says.
"""

import asyncio
import collections
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from api_server import pods, store
from cotenant_api import names, quantity
from cotenant_extender.kube import pods as paths
from cotenant_extender.kube import transport
from simulation import backlog, election, informers, network, processes, requests, volumes

Object = dict[str, Any]
Call = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]

COUNTED = ("cpu", "memory")
"""Of shares kube-scheduler knows nothing: `ignoredByScheduler` in its configuration."""


class UnreachableError(Exception):
    """The extender did not answer."""


class Scheduler:
    """One kube-scheduler process.

    Args:
        call: asks the extender: verb and body, to status and body; raises UnreachableError.
        say: for the history.
    """

    def __init__(
        self,
        link: network.Link,
        process: processes.Process,
        elected: election.Election,
        *,
        call: Call,
        say: Callable[[str], None],
    ) -> None:
        self._link, self._process, self.election = link, process, elected
        self._call, self._say = call, say
        self._pods: dict[str, Object] = {}
        self._nodes: dict[str, Object] = {}
        self._assumed: dict[str, tuple[Object, str]] = {}
        self._queue = backlog.Backlog()
        self._woken = asyncio.Event()
        elected.changed = self._woken.set
        self._loop = asyncio.get_running_loop()
        self._informer = informers.Informer(link, process, (paths.NODES, paths.PODS), self._heard)

    async def run(self) -> None:
        """Until the Lease is lost."""
        self._informer.start()
        electing = asyncio.ensure_future(self.election.run())
        scheduling = asyncio.ensure_future(self._schedule())
        await asyncio.wait({electing, scheduling}, return_when=asyncio.FIRST_COMPLETED)
        scheduling.cancel()
        if scheduling.done() and not scheduling.cancelled():
            scheduling.result()
        electing.result()

    async def _schedule(self) -> None:
        while True:
            now = self._loop.time()
            entry = self._queue.pop(now=now) if self.election.leading else None
            if entry is None:
                self._queue.flush(now=now)
                self._woken.clear()
                wait = self._queue.next_due(now=now) - now if self.election.leading else 30.0
                await _within(self._woken.wait(), max(wait, 0.001))
            else:
                await self._cycle(entry)

    async def _cycle(self, entry: backlog.Queued) -> None:
        pod = self._pods.get(entry.uid)
        if pod is None or pod["spec"].get("nodeName"):
            self._queue.drop(entry.uid)
            return
        await asyncio.sleep(0.002)
        feasible = [name for name, node in self._nodes.items() if self._fits(pod, node)]
        if not feasible:
            self._none(pod, f"0/{len(self._nodes)} nodes are available: Insufficient resources.")
            return
        try:
            found, reasons = await self._filter(pod, feasible)
        except UnreachableError as error:
            self._error(pod, f"extender: {error}")
            return
        if not found:
            self._none(pod, f"0/{len(self._nodes)} nodes are available: {', '.join(reasons)}.")
            return
        self._assumed[entry.uid] = pod, found[0]
        self._process.start(self._bind(pod, found[0]))

    async def _filter(self, pod: Object, nodes: list[str]) -> tuple[list[str], list[str]]:
        """The nodes that are left, and the reasons against others, counted and sorted as kube-scheduler does."""
        body = orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes})
        code, answer = await self._call("filter", body)
        value = orjson.loads(answer)
        if code != 200 or value.get("Error"):
            raise UnreachableError(f"{code}: {value.get('Error') or value.get('error')}")
        kept = list(value["NodeNames"] or ())
        strangers = [name for name in (*kept, *value["FailedAndUnresolvableNodes"]) if name not in nodes]
        if strangers:
            raise AssertionError(f"filter answered with nodes that were not asked for: {strangers}")
        counted = collections.Counter(value["FailedAndUnresolvableNodes"].values())
        return kept, sorted(f"{count} {reason}" for reason, count in counted.items())

    async def _bind(self, pod: Object, node: str) -> None:
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        try:
            error = await self._volume(pod)
            if not error:
                code, answer = await self._call("bind", orjson.dumps(body))
                error = str(orjson.loads(answer).get("Error") or "") if code == 200 else f"{code}"
        except UnreachableError as unreachable:
            error = str(unreachable)
        self._say(f"{self.election.identity} bound {metadata['name']} to {node}: {error or 'ok'}")
        if error:
            self._assumed.pop(metadata["uid"], None)
            self._queue.moved()
            self._error(self._pods.get(metadata["uid"], pod), error)
            self._woken.set()

    async def _volume(self, pod: Object) -> str:
        """VolumeBinding's PreBind: why the pod's volume cannot be bound; empty: it is, or there is none."""
        if not volumes.is_late(pod, now=self._link.network.handling.clock()):
            return ""
        await asyncio.sleep(volumes.FAILS_SECONDS)
        return volumes.FAILURE

    def _none(self, pod: Object, message: str) -> None:
        self._queue.unschedulable(pod["metadata"]["uid"], now=self._loop.time())
        self._report(pod, "Unschedulable", message)

    def _error(self, pod: Object, message: str) -> None:
        if pod["spec"].get("nodeName"):
            self._queue.drop(pod["metadata"]["uid"])
            return
        self._queue.failed(pod["metadata"]["uid"], now=self._loop.time())
        self._report(pod, "SchedulerError", message)

    def _report(self, pod: Object, reason: str, message: str) -> None:
        """Write PodScheduled, unless it says so already."""
        standing: Object = next(
            (item for item in (pod.get("status") or {}).get("conditions") or () if item["type"] == "PodScheduled"), {}
        )
        if (standing.get("reason"), standing.get("message")) == (reason, message):
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if standing.get("status") != "False":
            condition["lastTransitionTime"] = pods.timestamp(self._link.network.handling.clock())
        self._process.start(self._patch(pod, {"status": {"conditions": [condition]}}))

    async def _patch(self, pod: Object, change: Object) -> None:
        metadata = pod["metadata"]
        path = paths.pod_path(metadata["namespace"], metadata["name"], "status")
        change["metadata"] = {"uid": metadata["uid"]}
        try:
            await requests.once(self._link, "PATCH", path, change, strategic=True)
        except transport.UnansweredError as error:
            self._say(f"{self.election.identity}: condition of {metadata['name']}: {error}")

    def _heard(self, change: store.Change) -> None:
        if change.collection == paths.NODES:
            self._heard_node(change)
        else:
            self._heard_pod(change)
        self._woken.set()

    def _heard_node(self, change: store.Change) -> None:
        name = change.value["metadata"]["name"]
        if change.kind == "DELETED":
            self._nodes.pop(name, None)
            return
        before = self._nodes.get(name)
        self._nodes[name] = change.value
        if before is None or (before["spec"], before["status"]) != (change.value["spec"], change.value["status"]):
            self._queue.moved()

    def _heard_pod(self, change: store.Change) -> None:
        pod, uid = change.value, change.value["metadata"]["uid"]
        before = self._pods.get(uid)
        over = change.kind == "DELETED" or (pod.get("status") or {}).get("phase") in pods.FINISHED
        bound = bool(pod["spec"].get("nodeName"))
        if over:
            self._pods.pop(uid, None)
            self._assumed.pop(uid, None)
            self._queue.drop(uid)
            if before is not None and before["spec"].get("nodeName"):
                self._queue.moved()
            return
        self._pods[uid] = pod
        if bound:
            self._assumed.pop(uid, None)
            self._queue.drop(uid)
            if before is None or not before["spec"].get("nodeName"):
                self._queue.moved()
        elif "deletionTimestamp" in pod["metadata"]:
            self._queue.drop(uid)
        elif not pod["spec"].get("schedulingGates") and pod["spec"].get("schedulerName") == names.SCHEDULER_NAME:
            self._queue.add(uid, priority=pod["spec"].get("priority") or 0, now=self._loop.time())
            if before is not None and _told(before) != _told(pod):
                self._queue.updated(uid)

    def _fits(self, pod: Object, node: Object) -> bool:
        """NodeResourcesFit, NodeUnschedulable."""
        if node["spec"].get("unschedulable"):
            return False
        name = node["metadata"]["name"]
        here = [other for other in self._pods.values() if other["spec"].get("nodeName") == name]
        here += [other for other, where in self._assumed.values() if where == name]
        offered = node["status"]["allocatable"]
        if len(here) + 1 > int(offered["pods"]):
            return False
        return all(
            sum(requested(other, resource) for other in (*here, pod)) <= amount(offered.get(resource, "0"))
            for resource in COUNTED
        )


def requested(pod: Object, resource: str) -> float:
    """What a pod requests."""
    total = 0.0
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        named = (resources.get("requests") or {}).get(resource) or (resources.get("limits") or {}).get(resource)
        total += amount(named) if named else 0.0
    return total


@functools.lru_cache(maxsize=1024)
def amount(text: str) -> float:
    """A quantity."""
    return float(quantity.parse(text, field="quantity"))


def _told(pod: Object) -> tuple[object, ...]:
    """What of an unbound pod counts as its change."""
    metadata = pod["metadata"]
    return metadata.get("annotations"), metadata.get("labels"), pod["spec"]


async def _within(work: Any, seconds: float) -> None:
    """Wait, but not longer."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return
