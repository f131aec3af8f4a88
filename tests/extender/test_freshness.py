"""No turn of the event loop reads the whole fleet anew, whoever needs it, at whatever moment a policy changes."""

import asyncio
import itertools
from typing import Any

import pytest

from cotenant_extender.kube import pods
from cotenant_extender.ledger import fleets
from cotenant_extender.packing import policies
from cotenant_extender.queue import passes, planning
from extender import builders, running, virtual
from extender.running import until

NODES = 10 * fleets.NODES_PER_STEP
FEW_STEPS = 3
"""Of a fleet that few nodes are missing from."""
LIMIT: dict[str, Any] = {"maxGPUsPerNamespace": 99}


class Counter:
    """Counts the steps in which the fleet is made.

    Attributes:
        longest: the most in one turn of the event loop.
    """

    def __init__(self) -> None:
        self.longest = self._turn = 0

    def step(self) -> None:
        """Count one."""
        if self._turn == 0:
            asyncio.get_running_loop().call_soon(self._end)
        self._turn += 1

    def _end(self) -> None:
        self.longest, self._turn = max(self.longest, self._turn), 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Count the steps of every fleet."""
    counter, advance = Counter(), fleets.Fleets.advance

    def counting(self: fleets.Fleets, policy: policies.InForce) -> None:
        counter.step()
        advance(self, policy)

    monkeypatch.setattr(fleets.Fleets, "advance", counting)
    return counter


@virtual.time
async def test_a_bind_waits_for_the_fleet_of_another_policy(steps: Counter) -> None:
    server = running.server(nodes=NODES, gpus=1, **LIMIT)
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("a"))
        await until(lambda: "schedulingGates" not in server.pod("a")["spec"], "lifted")
        steps.longest = 0
        rig.extender.ledger.policy_changed(builders.in_force(generation=2, **LIMIT))
        assert await rig.bound("a", "n0") == ""
        assert steps.longest <= FEW_STEPS


@virtual.time
async def test_telling_why_pods_wait_waits_for_the_fleet_of_another_policy(
    steps: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = running.server(nodes=NODES, gpus=1, **LIMIT)
    plan, generations = planning.Queue.plan, itertools.count(2)

    def changes(self: planning.Queue, source: Any, *arguments: Any, **named: Any) -> passes.Plan:
        """Another policy comes in the moment that follows each pass."""
        found = plan(self, source, *arguments, **named)
        policy = builders.in_force(generation=next(generations), **LIMIT)
        asyncio.get_running_loop().call_soon(source.policy_changed, policy)
        return found

    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(2)
        steps.longest = 0
        monkeypatch.setattr(planning.Queue, "plan", changes)
        server.put(pods.PODS, builders.pod("a", annotations={"cotenant.dev/gpu-models": "X"}))
        await until(lambda: server.sent("PATCH", "/pods/a/status") > 0, "told")
        assert steps.longest <= FEW_STEPS
