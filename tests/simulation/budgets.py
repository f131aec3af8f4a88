"""PodDisruptionBudgets in some worlds, and what must hold: no eviction beyond one, none without asking, none in vain.

Judged where a request of an extender takes effect, by what is stored just then, and counted here once more: not by the
allowance that the API server computes.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import orjson

from api_server import handlers, pods, store
from cotenant_extender.kube import transport
from simulation import hosts, jobs, network

Object = dict[str, Any]

REFUSED_AT_MOST = 3
REFUSED_SECONDS = 8.0
"""A pod that a budget keeps is asked again after 10 s; within less, so often only as leaders change."""


IN_VAIN_AT_MOST = 1
"""Pods that are evicted for a job beside victims that a budget keeps: an answer may get lost, and things change."""


class World(Protocol):
    """What budgets need of the world."""

    handling: handlers.Handlers
    objects: store.Store

    @property
    def hosts(self) -> Sequence[hosts.Host]:
        """All machines with an extender."""

    def clock(self) -> float:
        """Seconds since the epoch."""

    def say(self, text: str) -> None:
        """For the history."""

    def fail(self, text: str) -> None:
        """A rule is broken."""


class Budgets:
    """The budgets of one world."""

    def __init__(self, world: World, rng: random.Random, services: random.Random) -> None:
        self._world, self._rng, self._services = world, rng, services
        self._some = rng.random() < 0.5
        self._refused: dict[tuple[network.Link, str], list[float]] = {}
        self._in_vain: Counter[str] = Counter()
        self._for_now: list[str] = []

    def guard(self, job: jobs.Job) -> None:
        """A user protects a job, in some worlds."""
        if not self._some or self._rng.random() < 0.4:
            return
        self._guard(job, self._rng.choice([{"minAvailable": job.size}, {"minAvailable": 1}, {"maxUnavailable": 1}]))

    def guard_for_now(self, job: jobs.Job) -> None:
        """A user protects a service, until `release`: else jobs of a higher priority would wait for it for ever."""
        if self._services.random() < 0.5:
            self._guard(job, {"minAvailable": job.size})
            self._for_now.append(job.name)

    def release(self) -> None:
        """No service is protected any more."""
        budgets = self._world.objects.objects[pods.BUDGETS]
        for namespace, name in [key for key in budgets if key[1] in self._for_now]:
            self._world.objects.delete(pods.BUDGETS, (namespace, name))

    def _guard(self, job: jobs.Job, bound: Object) -> None:
        spec = {**bound, "selector": {"matchLabels": {jobs.JOB: job.name}}}
        body = {"metadata": {"name": job.name, "namespace": job.namespace}, "spec": spec}
        path = f"/apis/policy/v1/namespaces/{job.namespace}/poddisruptionbudgets"
        answer = self._world.handling.answer(transport.Request("POST", path, orjson.dumps(body)))
        if answer.status != 201:
            raise ValueError(f"{path}: {answer.body!r}")
        self._world.say(f"user guards {job.name}: {bound}")

    def arrives(self, sender: network.Link, request: transport.Request) -> Callable[[transport.Answer], None] | None:
        """A request of an extender is about to take effect; what is to be told of its answer."""
        if not sender.name.endswith("/extender") or request.method not in ("DELETE", "POST"):
            return None
        target = handlers.named(request.path)
        pod = self._world.objects.objects[pods.PODS].get(target.key) if target.collection == pods.PODS else None
        if pod is None or pod["status"].get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]:
            return None
        if request.method == "DELETE":
            return lambda answer: self._deleted(sender, pod, answer)
        if target.subresource == "eviction":
            options = orjson.loads(request.body or b"{}").get("deleteOptions") or {}
            broken, dry = self._broken_by(pod), "dryRun" in options
            return lambda answer: self._asked(sender, pod, broken, answer, dry=dry)
        return None

    def _deleted(self, sender: network.Link, pod: Object, answer: transport.Answer) -> None:
        if answer.status < 300:
            self._world.fail(f"{sender.name} deleted {pod['metadata']['name']}, which ran, and asked no budget")

    def _asked(self, sender: network.Link, pod: Object, broken: str, answer: transport.Answer, *, dry: bool) -> None:
        name = pod["metadata"]["name"]
        if answer.status < 300 and broken:
            self._world.fail(f"{name} {'could be' if dry else 'was'} evicted beyond the budget {broken}")
        if answer.status < 300 and not dry:
            self._evicted(sender, pod)
        if answer.status != 429:
            return
        self._world.say(f"the eviction of {name} by {sender.name} is refused by its budget")
        now = self._world.clock()
        times = self._refused.setdefault((sender, pod["metadata"]["uid"]), [])
        times[:] = [time for time in times if now - time < REFUSED_SECONDS] + [now]
        if len(times) > REFUSED_AT_MOST:
            self._world.fail(f"{sender.name} asks for {name} again and again, which its budget keeps")

    def _evicted(self, sender: network.Link, pod: Object) -> None:
        """Count who is evicted beside another victim that a budget keeps, so that their job cannot start."""
        extender = next((host.extender for host in self._world.hosts if host.extender_link is sender), None)
        live = {} if extender is None else extender.leader._queue.preemptions._live
        running = [other for other in self._world.objects.objects[pods.PODS].values() if _runs(other)]
        for name, preemption in live.items():
            if pod["metadata"]["uid"] not in preemption.victims:
                continue
            victims = [other for other in running if other["metadata"]["uid"] in preemption.victims]
            kept = next((broken for victim in victims if (broken := self._broken_by(victim))), "")
            if not kept:
                continue
            self._world.say(f"{pod['metadata']['name']} was evicted for {name} in vain: {kept}")
            self._in_vain[str(name)] += 1
            if self._in_vain[str(name)] > IN_VAIN_AT_MOST:
                self._world.fail(f"pods were evicted for {name} in vain, again and again: {kept}")

    def _broken_by(self, pod: Object) -> str:
        """The budget that is broken if this pod goes now; empty: none."""
        mine = (pod["metadata"].get("labels") or {}).get(jobs.JOB)
        alike = [
            other
            for (namespace, _), other in self._world.objects.objects[pods.PODS].items()
            if namespace == pod["metadata"]["namespace"]
            and (other["metadata"].get("labels") or {}).get(jobs.JOB) == mine
            and other["status"].get("phase") not in pods.FINISHED
        ]
        left = sum(1 for other in alike if other is not pod and _runs(other))
        budget = self._world.objects.objects[pods.BUDGETS].get((pod["metadata"]["namespace"], mine or ""))
        if budget is None:
            return ""
        spec = budget["spec"]
        least = spec.get("minAvailable", len(alike) - spec.get("maxUnavailable", 0))
        return f"{mine}: {left} of {least} are left" if left < least else ""


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
