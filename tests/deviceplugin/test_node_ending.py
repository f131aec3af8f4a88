"""Clients of pods that are being deleted are ended in time, whatever becomes of another GPU's daemon."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from cotenant_api import errors
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.node.ending import Ending
from cotenant_deviceplugin.node.machines import Machines
from cotenant_deviceplugin.node.usage import Sampled
from node_kit import bookings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 20
"""Far above what it takes: a bound against what does not end."""
FIRST, SECOND = GPUUID("GPU-a"), GPUUID("GPU-b")
CLIENTS = {FIRST: 51, SECOND: 52}
PODS = {51: PodUID("u1"), 52: PodUID("u2")}


class _Daemons:
    """Two GPUs with a client each; the daemon of the first answers when the second's client was ended, or fails."""

    def __init__(self, failure: Exception | None) -> None:
        self.ended: list[int] = []
        self._failure, self._told = failure, asyncio.Event()

    async def clients(self, gpu: GPUUID) -> frozenset[int]:
        if gpu == FIRST:
            if self._failure is not None:
                raise self._failure
            await self._told.wait()
        return frozenset({CLIENTS[gpu]})

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        assert CLIENTS[gpu] == pid
        self.ended.append(pid)
        self._told.set()


class _Owners:
    async def pods_of(self, pids: Iterable[int]) -> dict[int, PodUID]:
        return {pid: PODS[pid] for pid in pids}


def _ending(daemons: _Daemons, monotonic: Callable[[], float] = lambda: 0.0) -> Ending:
    grants = [bookings.grant("u1", (FIRST, 30)), bookings.grant("u2", (SECOND, 30))]
    ends: Any = {"ends_at": NOW + timedelta(seconds=1), "grace_seconds": 30, "running": True}
    watched = [bookings.pod(uid, **ends) for uid in ("u1", "u2")]
    return Ending(
        lambda: watched,
        lambda: grants,
        machines=cast("Machines", daemons),
        owners=cast("Sampled", _Owners()),
        monotonic=monotonic,
    )


async def _step(ending: Ending) -> None:
    """What the agent's tasks do, each of a GPU by itself."""
    works = [ending.end_on(gpu, lambda: NOW) for gpu in ending.near(NOW)]
    for failure in await asyncio.gather(*works, return_exceptions=True):
        if failure is not None:
            raise failure


async def test_a_daemon_that_does_not_answer_delays_no_other_gpu() -> None:
    daemons = _Daemons(None)
    async with asyncio.timeout(SECONDS):
        await _step(_ending(daemons))
    assert daemons.ended == [52, 51]


async def test_a_gpu_that_cannot_be_asked_is_told_after_the_others_were_served() -> None:
    daemons = _Daemons(errors.TemporaryError("no answer", delay_seconds=1))
    with pytest.raises(errors.TemporaryError, match="no answer"):
        await _step(_ending(daemons))
    assert daemons.ended == [52]


async def test_a_client_that_stays_in_the_list_after_its_end_is_ended_once() -> None:
    daemons = _Daemons(None)
    ending = _ending(daemons)
    async with asyncio.timeout(SECONDS):
        await _step(ending)
        await _step(ending)
    assert daemons.ended == [52, 51]


async def test_a_client_whose_end_was_refused_is_ended_again() -> None:
    daemons = _Refusing(None)
    ending = _ending(daemons)
    async with asyncio.timeout(SECONDS):
        await _step(ending)
        await _step(ending)
    assert daemons.ended == [52, 51, 51]


class _Refusing(_Daemons):
    """The first client's end is refused once."""

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        await super().terminate(gpu, pid)
        if self.ended.count(pid) == 1 and gpu == FIRST:
            raise errors.TemporaryError("refused", delay_seconds=1)


async def test_a_pod_is_weighed_by_what_is_known_when_its_daemon_has_answered() -> None:
    daemons = _Daemons(None)
    ending = _ending(daemons)
    early = NOW - timedelta(seconds=60)
    assert ending.near(early) == ()
    await ending.end_on(SECOND, lambda: early)
    assert daemons.ended == []
    await ending.end_on(SECOND, lambda: NOW)
    assert daemons.ended == [52]


async def test_a_node_whose_clock_stands_still_ends_clients_when_their_grace_period_is_nearly_over() -> None:
    daemons, passed = _Daemons(None), [0.0]
    ending = _ending(daemons, lambda: passed[0])
    early = NOW - timedelta(hours=1)
    assert ending.near(early) == ()
    passed[0] = 24.0
    assert ending.near(early) == ()
    passed[0] = 25.0
    assert ending.near(early) == (FIRST, SECOND)
    await ending.end_on(SECOND, lambda: early)
    assert daemons.ended == [52]
