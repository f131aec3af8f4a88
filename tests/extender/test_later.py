"""Writes that can wait: they let urgent ones go first, and are not forgotten."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from cotenant_extender import later
from extender import virtual


class _Desk:
    """Remembers what was written."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    def put(self, to: later.Later, number: int) -> None:
        self.tasks.append(asyncio.ensure_future(self._write(to, number)))

    async def _write(self, to: later.Later, number: int) -> None:
        async with to.turn("team") as begins:
            if begins:
                self.written.append(number)


@contextmanager
def _crowded(urgency: later.Urgency) -> Iterator[ExitStack]:
    """As many urgent writes are under way as keep the others waiting."""
    with ExitStack() as stack:
        for _ in range(later.MANY):
            stack.enter_context(urgency.urgent())
        yield stack


@virtual.time
async def test_without_urgent_writes_they_are_written_at_once_and_in_order() -> None:
    clock, desk = asyncio.get_running_loop().time, _Desk()
    waiting = later.Later(later.Urgency(lambda: clock() + 1000), clock)
    for number in range(100):
        desk.put(waiting, number)
    await asyncio.sleep(0.01)
    assert desk.written == list(range(100))


@virtual.time
async def test_they_wait_while_many_urgent_writes_are_under_way_and_a_moment_longer() -> None:
    clock, desk = asyncio.get_running_loop().time, _Desk()
    urgency = later.Urgency(clock)
    waiting = later.Later(urgency, clock)
    found = []
    with _crowded(urgency):
        desk.put(waiting, 1)
        await asyncio.sleep(2.0)
        found.append(len(desk.written))
    await asyncio.sleep(later.CALM_SECONDS + 2 * later.PAUSE_SECONDS)
    found.append(len(desk.written))
    assert found == [0, 1]


@virtual.time
async def test_few_urgent_writes_keep_nobody_waiting() -> None:
    clock, desk = asyncio.get_running_loop().time, _Desk()
    urgency = later.Urgency(clock)
    await asyncio.sleep(1)
    with urgency.urgent():
        desk.put(later.Later(urgency, clock), 1)
        await asyncio.sleep(later.PAUSE_SECONDS / 2)
        assert desk.written == [1]


@virtual.time
async def test_after_a_while_they_are_written_however_much_is_urgent() -> None:
    clock, desk = asyncio.get_running_loop().time, _Desk()
    urgency = later.Urgency(clock)
    with _crowded(urgency):
        desk.put(later.Later(urgency, clock), 1)
        await asyncio.sleep(later.MAX_DELAY_SECONDS + 2 * later.PAUSE_SECONDS)
        assert desk.written == [1]


@virtual.time
async def test_what_has_not_begun_is_forgotten_at_the_end() -> None:
    clock, desk = asyncio.get_running_loop().time, _Desk()
    urgency = later.Urgency(clock)
    waiting = later.Later(urgency, clock)
    with _crowded(urgency):
        desk.put(waiting, 1)
        waiting.stop()
    await asyncio.sleep(later.MAX_DELAY_SECONDS + 1)
    assert all(task.done() for task in desk.tasks)
    assert desk.written == []


@virtual.time
async def test_urgent_writes_that_hang_keep_nobody_waiting() -> None:
    clock, desk = asyncio.get_running_loop().time, _Desk()
    urgency = later.Urgency(clock)
    waiting = later.Later(urgency, clock)
    with _crowded(urgency) as stack:
        await asyncio.sleep(later.HANGS_SECONDS + later.CALM_SECONDS)
        stack.enter_context(urgency.urgent())
        desk.put(waiting, 1)
        await asyncio.sleep(later.PAUSE_SECONDS / 2)
        assert desk.written == [1]
