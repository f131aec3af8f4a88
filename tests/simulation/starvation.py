"""A world without faults and with more work than fits, for ever: how long does a job wait?

The bound that is stated where nothing wrong is expected of run times: `maxWaitSeconds`, and then for each job of its
priority that is older, and for each of a higher priority that comes, as long as the tenants of the GPUs that are held
still run. Here every job runs at most `RUN_SECONDS`, and `SLACK_SECONDS` are for everything else: kube-scheduler,
kubelet, agent.
"""

import asyncio
import logging
import random

from api_server import pods, store
from simulation import jobs, processes, runs
from simulation.world import BrokenError, World

RUN_SECONDS = 8.0
SLACK_SECONDS = 8.0
MAX_WAIT_SECONDS = 15
LASTS_SECONDS = 200.0
EVERY_SECONDS = 1.2


def run(seed: int) -> list[str]:
    """What was broken."""
    level = runs.LOG.level
    runs.LOG.setLevel(logging.ERROR)
    try:
        with asyncio.Runner(loop_factory=processes.Loop) as runner:
            return runner.run(_world(seed))
    finally:
        runs.LOG.setLevel(level)


async def _world(seed: int) -> list[str]:
    world = World(seed, echo=False, prepare=runs.untouched)
    world.policy["queue"] = {**world.policy["queue"], "maxWaitSeconds": MAX_WAIT_SECONDS}
    rng = world.rng("arrivals")
    waits = _Waits(world)
    world.start()
    try:
        await world.rest(3.0)
        big = max(len(site.machine.gpus) for site in world.sites if site.machine.model.endswith("H200"))
        for number in range(int(LASTS_SECONDS / EVERY_SECONDS)):
            world.jobs.submit(_job(rng, f"j{number}", big))
            await world.rest(EVERY_SECONDS)
        waits.judge()
    except BrokenError:
        return world.violations
    finally:
        world.stop()
        await asyncio.sleep(0)
    return world.violations


def _job(rng: random.Random, name: str, big: int) -> jobs.Job:
    """Mostly small; a large one of the same priority now and then, which would starve."""
    large = rng.random() < 0.08
    return jobs.Job(
        name=name,
        namespace="team",
        share=rng.choice([100, 100 * min(big, 2)]) if large else rng.choice([20, 30, 40]),
        notes={},
        priority=0,
        size=1,
        run_seconds=round(rng.uniform(3.0, RUN_SECONDS), 1),
        tracked=False,
    )


class _Waits:
    """When each pod came, and when it was bound."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = asyncio.get_running_loop()
        self._came: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        world.objects.listeners.append(self._heard)

    def judge(self) -> None:
        """Every pod that came early enough was bound in time."""
        now = self._loop.time()
        for uid, came in self._came.items():
            until = self._bound.get(uid, now)
            older = [
                other for other, since in self._came.items() if since < came and self._bound.get(other, now) > came
            ]
            bound = MAX_WAIT_SECONDS + (len(older) + 1) * RUN_SECONDS + SLACK_SECONDS
            if until - came > bound:
                self._world.fail(f"{uid} waited {until - came:.0f} s, the bound is {bound:.0f} s")

    def _heard(self, change: store.Change) -> None:
        if change.collection != pods.PODS:
            return
        uid, name = change.value["metadata"]["uid"], change.value["metadata"]["name"]
        # Others of the world can start nowhere, or are there from the beginning.
        if change.kind == "ADDED" and name.startswith("j"):
            self._came[uid] = self._loop.time()
        elif change.value["spec"].get("nodeName"):
            self._bound.setdefault(uid, self._loop.time())
