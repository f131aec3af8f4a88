"""Pods without a share on the nodes of some worlds, and jobs that can start on none beside them.

What such a pod does is not modelled: it is bound, and has a little of its node's CPU, for ever or as long as nobody
knows. A job that requests all CPUs of a node then never starts, and may not keep others from GPUs for long.
"""

import random
from collections.abc import Callable
from typing import Any, Protocol

import orjson

from api_server import handlers
from cotenant_extender.kube import transport
from extender import builders, idling
from simulation import hosts, jobs, kubelets

Object = dict[str, Any]

PART = 0.25
"""Of all worlds."""
CPUS = "64"
"""All that a node has."""
IDLE_SECONDS = 20.0
"""Worlds last for minutes: a hold is in vain as much sooner, and the first pause after evictions in vain as short."""
EVERY_SECONDS = 2.0


class World(Protocol):
    """What the rule needs of the world."""

    handling: handlers.Handlers
    hosts: list[hosts.Host]
    jobs: jobs.Jobs

    def clock(self) -> float:
        """Seconds since the epoch."""

    def fail(self, text: str) -> None:
        """A rule is broken."""

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call something in no process."""


class Besides:
    """All of it, for one world."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world, self._rng, self._count = world, rng, 0
        self._there = rng.random() < PART
        self._judges: dict[int, idling.Idling] = {}

    def start(self) -> None:
        """From now on."""
        if self._there:
            self._world.later(EVERY_SECONDS, self._look)
            for number in range(2):
                self._world.later(self._rng.uniform(0.0, 40.0), lambda number=number: self._ask(number))  # type: ignore[misc]

    def put(self, node: str) -> None:
        """A node has joined: a pod of the system runs there."""
        if self._there:
            self._count += 1
            restarts = self._rng.choice(["Always", "Never"])
            value = builders.pod(
                f"system-{self._count}", 0, node=node, namespace=kubelets.SYSTEM, gates=(), restartPolicy=restarts
            )
            path = f"/api/v1/namespaces/{kubelets.SYSTEM}/pods"
            self._world.handling.answer(transport.Request("POST", path, orjson.dumps(value), transport.JSON))

    def _ask(self, number: int) -> None:
        """A user wants all of a node, as it is without other pods."""
        size = self._rng.choice([1, 1, 2])
        namespace, share = self._rng.choice(jobs.NAMESPACES), self._rng.choice([40, 100])
        job = jobs.Job(
            name=f"all-{number}", namespace=namespace, share=share, notes={}, priority=self._rng.choice([0, 5]),
            size=size, run_seconds=10.0, tracked=False, feasible=False, cpu=CPUS,
        )  # fmt: skip
        self._world.jobs.submit(job)

    def _look(self) -> None:
        """No GPU stands empty for long because it is held for such a job; a new leader begins anew."""
        for host in self._world.hosts:
            extender, process = host.extender, host.extender_process
            alive = process is not None and process.alive and not process.paused
            if extender is None or not alive or not extender.serving():
                self._judges.pop(id(host), None)
                continue
            judge = self._judges.setdefault(id(host), idling.Idling())
            for text in judge.look(extender.ledger, now=self._world.clock()):
                self._world.fail(f"{host.name}: {text}")
        self._world.later(EVERY_SECONDS, self._look)
