"""One run: chaos by a seed, then calm, until everything that can be done is done; and what must hold at the end."""

import asyncio
import gc
import logging
import time
from dataclasses import dataclass

from cotenant_extender import service
from cotenant_extender.queue import sparing, vain
from simulation import besides, chaos, hosts, jobs, processes, verdicts
from simulation.world import BrokenError, Errors, World

LOG = logging.getLogger("cotenant_extender")

CHAOS_SECONDS = 45.0
REST_SECONDS = 65.0
SLICE_SECONDS = 2.0
STALE_SECONDS = 240.0
"""Beside run times: setbacks and backoffs of the time of chaos that still run."""
PER_POD_SECONDS = 25.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one run.

    Attributes:
        violations: rules that were broken; empty: none.
        digest: equal iff the histories are.
        virtual_seconds: how long it was in virtual time.
        seconds: of a core.
    """

    seed: int
    violations: tuple[str, ...]
    digest: str
    lines: tuple[str, ...]
    virtual_seconds: float
    seconds: float


def untouched(_: service.Extender) -> None:
    """The extender as it is."""


def run(seed: int, *, echo: bool = False, prepare: hosts.Prepare = untouched) -> Result:
    """Run one world to its end."""
    began = time.process_time()
    level, patience, pause = LOG.level, vain.IDLE_SECONDS, sparing.PAUSE_SECONDS
    LOG.setLevel(logging.ERROR)
    vain.IDLE_SECONDS = sparing.PAUSE_SECONDS = besides.IDLE_SECONDS
    # Collected between runs: within one, what is collected when must not matter, and costs time.
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=processes.Loop) as runner:
            world, lasted = runner.run(_world(seed, echo=echo, prepare=prepare))
    finally:
        gc.enable()
        vain.IDLE_SECONDS, sparing.PAUSE_SECONDS = patience, pause
        LOG.setLevel(level)
    return Result(
        seed=seed,
        violations=tuple(world.violations),
        digest=world.history.digest,
        lines=tuple(world.history.lines),
        virtual_seconds=lasted,
        seconds=time.process_time() - began,
    )


async def _world(seed: int, *, echo: bool, prepare: hosts.Prepare) -> tuple[World, float]:
    world = World(seed, echo=echo, prepare=prepare)
    errors = Errors(world)
    LOG.addHandler(errors)
    try:
        await _live(world)
    except BrokenError:
        world.say("the run ends")
    finally:
        LOG.removeHandler(errors)
        world.stop()
        await asyncio.sleep(0)
    return world, asyncio.get_running_loop().time()


async def _live(world: World) -> None:
    rng = world.rng("run")
    bad = chaos.Chaos(world)
    world.start()
    world.webhook.start()
    keeper = asyncio.create_task(_restart(world))
    try:
        await world.rest(3.0)
        bad.begin(
            trouble=rng.choice([0.0, 0.1, 0.4, 0.8]), late=rng.choice([0.0, 0.1, 0.3]), jobs_first=rng.choice([2, 5])
        )
        await world.rest(CHAOS_SECONDS)
        bad.heal()
        await _work_off(world)
        await world.rest(REST_SECONDS)
        verdicts.at_the_end(world)
    finally:
        keeper.cancel()


async def _work_off(world: World) -> None:
    """Until all jobs are done; each that fits must be, in bounded time. Those that outrank services need not wait."""
    await _done(world, above=jobs.LOWEST)
    for name in world.jobs.services():
        world.say(f"user deletes service {name}")
        world.jobs.delete(name)
    await _done(world, above=jobs.LOWEST - 1)
    world.webhook.stop()


async def _done(world: World, *, above: int) -> None:
    """Wait for all jobs above a priority."""
    left = [job for job in world.jobs.unfinished() if job.priority > above]
    pods = sum(job.size for job in left)
    work = sum(job.size * job.run_seconds for job in left)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 2 * work + pods * PER_POD_SECONDS + STALE_SECONDS
    while names := [job.name for job in world.jobs.unfinished() if job.priority > above]:
        if loop.time() > deadline:
            world.fail(f"jobs that fit are not done: {names}")
        await world.rest(SLICE_SECONDS)


async def _restart(world: World) -> None:
    """The container runtime looks after its containers once in a while."""
    rng = world.rng("restarts")
    while True:
        await asyncio.sleep(rng.uniform(0.2, 4.0))
        chaos.restart_what_is_down(world)
