"""Writes are begun, and end with the extender."""

import asyncio
import inspect

from extender import running, virtual


async def nothing() -> None:
    """A write."""


@virtual.time
async def test_a_write_that_is_cancelled_before_it_begins_leaves_nothing_behind() -> None:
    writes = running.Rig(running.server(), holder="", assume_leader=True, wall=running.clock).extender.writer
    work, before = nothing(), asyncio.all_tasks()
    writes.start(work)
    writes.start_once("key", nothing)
    begun = asyncio.all_tasks() - before
    for task in begun:
        task.cancel()
    await asyncio.wait(begun)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    assert all(task.cancelled() for task in begun)
