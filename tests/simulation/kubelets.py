"""A model of kubelet: starts what is bound to its node when the agent lets it, reports ends, confirms deletions."""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from typing import Any

from api_server import pods, store
from cotenant_api.names import PodUID
from cotenant_extender.kube import pods as paths
from simulation import agents, informers, machines, network, processes, requests

Object = dict[str, Any]
Work = Callable[[], Awaitable[None]]

RUN_SECONDS = "simulation/run-seconds"
FAILS = "simulation/fails"
SYSTEM = "system"
"""Namespace of pods that have no share, and of which nothing but that they are bound is modelled."""
POLL_SECONDS = 2.0
RETRY_SECONDS = 1.0


class Kubelet:
    """One kubelet process.

    Args:
        agent: the node's agent, where there is one at present.
    """

    def __init__(
        self,
        machine: machines.Machine,
        link: network.Link,
        process: processes.Process,
        *,
        agent: Callable[[], tuple[agents.Agent, processes.Process] | None],
        rng: random.Random,
    ) -> None:
        self._machine, self._link, self._process, self._agent, self._rng = machine, link, process, agent, rng
        self._pods: dict[PodUID, Object] = {}
        self._busy: set[PodUID] = set()
        self._loop = asyncio.get_running_loop()
        self._informer = informers.Informer(link, process, (paths.PODS,), self._heard, node=machine.name)

    async def run(self) -> None:
        """Until killed."""
        self._informer.start()
        for container in self._machine.containers.values():
            self._loop.call_at(container.ends, self._look, container.uid)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for uid in sorted({*self._pods, *self._machine.containers}):
                self._look(uid)

    def _heard(self, change: store.Change) -> None:
        pod = change.value
        uid = PodUID(pod["metadata"]["uid"])
        if pod["metadata"]["namespace"] == SYSTEM:
            return
        if change.kind == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._know(uid, pod)
        self._look(uid)

    def _look(self, uid: PodUID) -> None:
        """Begin what is due for a pod."""
        work = None if uid in self._busy else self._due(uid)
        if work is not None:
            self._busy.add(uid)
            self._process.start(self._ending(uid, work))

    def _due(self, uid: PodUID) -> Work | None:
        pod = self._pods.get(uid)
        container = self._machine.containers.get(uid)
        if container is not None and container.ends <= self._loop.time():
            self._machine.stop(uid)
            self._machine.over[uid] = True
            container = None
        if pod is None:
            return None if container is None else functools.partial(self._stop, uid)
        if "deletionTimestamp" in pod["metadata"]:
            return functools.partial(self._terminate, pod)
        return self._due_of(pod, container)

    def _due_of(self, pod: Object, container: machines.Container | None) -> Work | None:
        """What is due for a pod that is to stay."""
        uid, phase = PodUID(pod["metadata"]["uid"]), pod["status"].get("phase", "Pending")
        if phase in pods.FINISHED:
            return None if container is None else functools.partial(self._stop, uid)
        if uid in self._machine.over:
            return functools.partial(self._finish, pod)
        if container is not None:
            return functools.partial(self._say, pod, "Running") if phase == "Pending" else None
        if phase == "Pending":
            return functools.partial(self._admit, pod)
        return functools.partial(self._finish, pod, lost=True)

    async def _ending(self, uid: PodUID, work: Work) -> None:
        try:
            await work()
        finally:
            self._busy.discard(uid)

    async def _admit(self, pod: Object) -> None:
        """Start it, if its agent says so."""
        uid = PodUID(pod["metadata"]["uid"])
        await asyncio.sleep(self._rng.uniform(0.01, 0.5))
        found = self._agent()
        if found is None:
            if self._rng.random() < 0.3:
                await self._say(pod, "Failed", reason="UnexpectedAdmissionError")
            return
        agent, process = found
        asking = process.start(agent.prepare(uid))
        await asyncio.wait({asking}, timeout=10.0)
        if not asking.done() or asking.cancelled() or asking.result() is not agents.Answer.START:
            self._loop.call_later(RETRY_SECONDS, self._look, uid)
            return
        await asyncio.sleep(self._rng.uniform(0.0, 0.3))
        notes = pod["metadata"].get("annotations") or {}
        container = machines.Container(
            uid=uid,
            name=pod["metadata"]["name"],
            namespace=pod["metadata"]["namespace"],
            shares=dict(self._machine.specs.get(uid, {})),
            ends=self._loop.time() + float(notes.get(RUN_SECONDS, 10.0)),
        )
        if self._machine.start(container):
            self._loop.call_at(container.ends, self._look, uid)
            await self._say(pod, "Running")

    async def _finish(self, pod: Object, *, lost: bool = False) -> None:
        fails = lost or FAILS in (pod["metadata"].get("annotations") or {})
        await self._say(pod, "Failed" if fails else "Succeeded")

    async def _stop(self, uid: PodUID) -> None:
        await asyncio.sleep(self._rng.uniform(0.1, 1.0))
        self._machine.stop(uid)

    async def _terminate(self, pod: Object) -> None:
        """Stop what runs, say that it ended, and confirm the deletion."""
        uid = PodUID(pod["metadata"]["uid"])
        if uid in self._machine.containers:
            await asyncio.sleep(self._rng.uniform(0.1, 3.0))
            self._machine.stop(uid)
        self._machine.specs.pop(uid, None)
        if pod["status"].get("phase") not in pods.FINISHED:
            await self._say(pod, "Failed")
        path = paths.pod_path(pod["metadata"]["namespace"], pod["metadata"]["name"])
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await requests.stubbornly(self._link, "DELETE", path, options)

    async def _say(self, pod: Object, phase: str, *, reason: str = "") -> None:
        """Write a phase onto the pod as it is now; one that is final stays."""
        uid, path = pod["metadata"]["uid"], paths.pod_path(pod["metadata"]["namespace"], pod["metadata"]["name"])
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        status: Object = {"phase": phase, "conditions": [ready]} | ({"reason": reason} if reason else {})
        while True:
            code, now = await requests.stubbornly(self._link, "GET", path)
            if code != 200 or now["metadata"]["uid"] != uid or now["status"].get("phase") in (phase, *pods.FINISHED):
                return
            seen = {"uid": uid, "resourceVersion": now["metadata"]["resourceVersion"]}
            change = {"metadata": seen, "status": status}
            code, stored = await requests.stubbornly(self._link, "PATCH", f"{path}/status", change, strategic=True)
            if code == 200:
                self._know(uid, stored)
                return

    def _know(self, uid: PodUID, pod: Object) -> None:
        """Take a pod, unless a newer one is known: the reply to a write may come after its deletion was heard of."""
        known = self._pods.get(uid)
        if known is None or _version(known) < _version(pod):
            self._pods[uid] = pod


def _version(value: Object) -> int:
    return int(value["metadata"]["resourceVersion"])
