"""Many requests at once, by the extender's own client: what fills the queue, lifts gates and clears up."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

import uvloop

from cotenant_api import errors
from cotenant_e2e.client import Json
from cotenant_extender.kube import client, http, transport

IN_FLIGHT: Final = 64

Send = Callable[[client.Client], Awaitable[object]]


class Traffic:
    """Sends requests as the user of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = str(kubeconfig)

    def create(self, path: str, bodies: Iterable[Json]) -> None:
        """POST each to a collection."""
        self.create_each((path, body) for body in bodies)

    def create_each(self, created: Iterable[tuple[str, Json]]) -> None:
        """POST each to its collection."""
        self._all([_posting(path, body) for path, body in created])

    def merge(self, changes: Iterable[tuple[str, Json]]) -> None:
        """PATCH each object, by path, with its merge patch."""
        self._all([_merging(path, change) for path, change in changes])

    def _all(self, sends: list[Send]) -> None:
        """So many at a time; the first failure ends all."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_sent(self._kubeconfig, sends))


def _posting(path: str, body: Json) -> Send:
    return lambda api: api.post(path, body)


def _merging(path: str, change: Json) -> Send:
    return lambda api: api.patch(path, change, content_type=transport.MERGE_PATCH)


async def _sent(kubeconfig: str, sends: list[Send]) -> None:
    async with http.HTTP(kubeconfig, clock=time.monotonic) as carrier:
        api = client.Client(carrier)
        waiting = iter(sends)

        async def work() -> None:
            for send in waiting:
                await send(api)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(IN_FLIGHT):
                    group.create_task(work())
        except ExceptionGroup as failures:
            raise errors.TemporaryError(f"a request failed: {failures.exceptions[0]}", delay_seconds=1) from failures
