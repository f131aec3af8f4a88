"""A small cluster in virtual time: real extenders, and models of everything around them, on one API server in memory.

Everything that is random comes from one seed. The same seed gives the same history, line by line.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from api_server import handlers, store
from cotenant_api import packingpolicy
from cotenant_extender.kube import pods as paths
from cotenant_extender.kube import transport
from cotenant_extender.ledger import drift, ledger
from extender import builders
from simulation import (
    besides,
    budgets,
    election,
    history,
    hosts,
    jobs,
    latecomers,
    marks,
    network,
    preconditions,
    ranks,
    sites,
    truth,
    turns,
    volumes,
    wakeups,
    webhooks,
)

Object = dict[str, Any]

BOOKMARK_SECONDS = 15.0
DRIFT_SECONDS = 2.0


class BrokenError(Exception):
    """A rule was broken: the run ends."""


class World:
    """Everything there is.

    Attributes:
        violations: rules that were broken.
        max_wait_seconds: of the policy.
        step_seconds: what a step of the extender's work takes on the average; 0: nothing takes any time.
    """

    def __init__(self, seed: int, *, echo: bool, prepare: hosts.Prepare) -> None:
        self.seed = seed
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._unhandled)
        self._rng = random.Random(f"world {seed}")  # noqa: S311
        self.history = history.History(echo=echo)
        self.violations: list[str] = []
        self.broken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.objects = store.Store()
        self.handling = handlers.Handlers(self.objects, self.clock)
        self.network = network.Network(self.handling, self.objects)
        self._events = self._checked = 0
        self.objects.listeners.append(self._count)
        self.objects.listeners.append(lambda change: self.say(history.told(change)))
        rng = self._rng
        self.two_hosts = rng.random() < 0.6
        self.hosts = [
            hosts.Host(self, name, self.rng(name), skew=rng.uniform(-1.0, 1.0), prepare=prepare)
            for name in (("host-a", "host-b") if self.two_hosts else ("host-a",))
        ]
        self.sites = [
            sites.Site(
                self,
                f"n{index}",
                self.rng(f"n{index}"),
                gpus=rng.choice([1, 2, 2, 3]),
                model=builders.H200 if index == 0 else rng.choice([builders.H200, builders.H200, builders.T4]),
            )
            for index in range(rng.choice([1, 2, 2, 3]))
        ]
        self.jobs = jobs.Jobs(self, self.rng("jobs"), volumes.Volumes(self.rng("volumes")))
        self.budgets = budgets.Budgets(self, self.rng("budgets"), self.rng("guarded services"))
        self.network.on_arrival = self._arrives
        self.network.lifts = self.rng("lifts")
        self.marks = marks.Marks(self)
        self.latecomers = latecomers.Latecomers(self)
        self.truth = truth.Truth(self)
        self.ranks, self.wakeups = ranks.Ranks(self), wakeups.WakeUps(self)
        self.webhook = webhooks.Webhook(self)
        self.besides = besides.Besides(self, self.rng("besides"))
        self.network.on_binding = self._bound
        self.step_seconds = self.rng("turns").choice(turns.STEPS)
        self.max_wait_seconds = rng.choice([15, 30, 60])
        self.policy: Object = {
            "placement": str(rng.choice(list(packingpolicy.Placement))),
            "tenancy": str(rng.choice([packingpolicy.Tenancy.SAME_NAMESPACE, packingpolicy.Tenancy.ANY])),
            "maxTenantsPerGPU": rng.choice([1, 2, 3, 3]),
            "maxUtilizationPercent": 100,
            "memoryHeadroomPercent": 5,
            "queue": {
                "order": str(rng.choice(list(packingpolicy.Order))),
                "maxWaitSeconds": self.max_wait_seconds,
            },
        }

    def rng(self, name: str) -> random.Random:
        """A source of randomness of its own."""
        return random.Random(f"{self.seed} {name}")  # noqa: S311

    def clock(self) -> float:
        """Seconds since the epoch."""
        return builders.NOW + self._loop.time()

    def say(self, text: str) -> None:
        """For the history."""
        self.history.say(self._loop.time(), text)

    def fail(self, text: str) -> None:
        """A rule is broken."""
        self.say(f"VIOLATION {text}")
        self.violations.append(text)
        self.broken.set()

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call something in no process."""
        self._loop.call_later(seconds, callback, context=self.network.outside)

    def joined(self, node: str) -> None:
        """A node has joined the cluster."""
        self.besides.put(node)

    def holder(self) -> str:
        """Who holds the Lease of kube-scheduler."""
        lease = self.objects.objects[election.LEASES_ALL].get(election.KEY)
        return "" if lease is None else str(lease["spec"].get("holderIdentity", ""))

    def start(self) -> None:
        """Everything begins."""
        self._request("POST", paths.POLICIES, builders.policy(**self.policy))
        for site in self.sites:
            site.start()
        for host in self.hosts:
            host.start()
        self.later(BOOKMARK_SECONDS, self._bookmark)
        self.later(DRIFT_SECONDS, self._check_drift)
        self.latecomers.look()
        self.wakeups.start()
        self.besides.start()

    def change_policy(self, **change: Any) -> None:
        """An admin changes the policy."""
        self._request("PATCH", f"{paths.POLICIES}/{packingpolicy.NAME}", {"spec": change})

    def bind_by_hand(self, value: Object, node: str) -> None:
        """A person binds a pod without a placement."""
        metadata = value["metadata"]
        path = paths.pod_path(metadata["namespace"], metadata["name"], "binding")
        body = {"metadata": {"name": metadata["name"], "uid": metadata["uid"]}, "target": {"name": node}}
        self.handling.answer(transport.Request("POST", path, orjson.dumps(body)))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin something in no process."""
        task = self._loop.create_task(work, context=self.network.outside.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def rest(self, seconds: float) -> None:
        """Let time pass; raises BrokenError when a rule is broken meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self.broken.wait()
        except TimeoutError:
            return
        raise BrokenError

    def stop(self) -> None:
        """Nothing runs any more."""
        for host in self.hosts:
            host.kill_extender()
            host.kill_scheduler()
        for site in self.sites:
            site.kill_agent()
            site.kill_kubelet()

    def _request(self, method: str, path: str, body: Object) -> None:
        kind = transport.MERGE_PATCH if method == "PATCH" else transport.JSON
        answer = self.handling.answer(transport.Request(method, path, orjson.dumps(body), kind))
        if answer.status >= 300:
            raise ValueError(f"{method} {path}: {answer.body!r}")

    def _bookmark(self) -> None:
        self.network.bookmark()
        self.later(BOOKMARK_SECONDS, self._bookmark)

    def _check_drift(self) -> None:
        for host in self.hosts:
            extender = host.extender
            if extender is not None and self._checked != self._events:
                for line in drift.differences(extender.ledger):
                    self.fail(f"{host.name}: ledger drift: {line}")
        self._checked = self._events
        self.later(DRIFT_SECONDS, self._check_drift)

    def _count(self, change: store.Change) -> None:
        """Leases change no sums."""
        if change.collection != election.LEASES_ALL:
            self._events += 1

    def _arrives(self, sender: network.Link, request: transport.Request) -> network.Judge | None:
        """A request is about to take effect; who is to be told of its answer."""
        preconditions.check(self, sender, request)
        return self.budgets.arrives(sender, request) or self.marks.arrives(request)

    def _bound(self, sender: network.Link, binding: Object) -> None:
        """A Binding took effect, however late: its sender must count it, and nobody else may serve.

        Who serves because the pod could not be marked keeps for it what its former leader promised it.
        """
        holder = self.holder()
        for host in self.hosts:
            process, extender = host.extender_process, host.extender
            if host.extender_link is sender and extender is not None:
                claim = extender.ledger.claims.get(binding["metadata"]["uid"])
                if claim is None or claim.node != binding["target"]["name"]:
                    self.fail(f"{sender.name} does not count {binding['metadata']['name']}, which it bound")
            if host.extender_link is sender or extender is None or process is None or process.paused:
                continue
            if self._keeps(extender.ledger, binding):
                continue
            if process.alive and holder.startswith(f"{host.name}_") and extender.serving():
                self.fail(f"a Binding of {sender.name} took effect while {process.name} served")

    def _keeps(self, source: ledger.Ledger, binding: Object) -> bool:
        """Return whether a ledger reserves for a pod, which it could not mark, GPUs of the node that it is bound to."""
        uid = binding["metadata"]["uid"]
        claim = source.claims.get(uid) if uid in source.earmarks.unmarked else None
        return claim is not None and claim.node == binding["target"]["name"]

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.fail(f"unhandled: {context.get('message')}: {context.get('exception')!r}")


class Errors(logging.Handler):
    """An error in an extender's log breaks a rule: it says that something unexpected happened."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the log."""
        cause = record.exc_info[1] if record.exc_info else None
        self._world.fail(f"logged as an error: {record.getMessage()} {cause!r}")
