"""Writes in bursts: nobody who is alone waits, and nobody waits for long."""

import asyncio

from cotenant_extender import bursts
from extender import virtual


class _Writers:
    """Write down when each was let go, in seconds since the start."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._clock, self._began = loop.time, loop.time()
        self._bursts = bursts.Bursts(self._clock, asyncio.sleep)
        self.times: list[float] = []

    async def write(self, at: float) -> None:
        await asyncio.sleep(at)
        await self._bursts.turn()
        self.times.append(round(self._clock() - self._began, 6))


async def _times(*arrivals: float) -> list[float]:
    writers = _Writers()
    await asyncio.gather(*map(writers.write, arrivals))
    return writers.times


@virtual.time
async def test_who_comes_alone_begins_at_once() -> None:
    assert await _times(0.0, 0.1, 0.5, 2.0) == [0.0, 0.1, 0.5, 2.0]


@virtual.time
async def test_those_that_come_after_it_begin_together() -> None:
    assert await _times(0.0, 0.01, 0.05, 0.09) == [0.0, 0.1, 0.1, 0.1]


@virtual.time
async def test_a_steady_stream_goes_in_bursts_of_equal_distance() -> None:
    found = await _times(*(number / 100 for number in range(50)))
    assert sorted(set(found)) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


@virtual.time
async def test_nobody_waits_for_longer_than_one_distance() -> None:
    arrivals = [number * 0.037 for number in range(100)]
    waited = [time - arrival for arrival, time in zip(arrivals, await _times(*arrivals), strict=True)]
    assert min(waited) >= 0.0
    assert max(waited) <= bursts.SECONDS + 1e-6


@virtual.time
async def test_who_comes_as_a_burst_begins_waits_for_the_next() -> None:
    """Or a burst would have no end."""
    assert await _times(0.0, 0.05, 0.1 + 1e-9) == [0.0, 0.1, 0.2]
