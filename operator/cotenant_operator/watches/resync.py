"""Reading whole kinds: at the start, and every few minutes.

At the start, so that nothing is decided on half of the state; every few minutes, so that a deletion which no watch
reported is noticed.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable
from typing import Final

from cotenant_api import backoff, errors
from cotenant_operator.kube import api
from cotenant_operator.loop import patience
from cotenant_operator.state.kinds import LABELLED, WATCHED, Kind
from cotenant_operator.state.store import Keys, Store
from cotenant_operator.state.views import Key

_LOGGER = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 1800.0
SETTLE_SECONDS: Final = 3.0
"""How long the listing that a new watch begins with may go on before the kind is swept."""
START_RETRY_SECONDS: Final = 2.0
RETRY_SECONDS: Final = (2.0, 300.0)
"""First and longest time before a sweep that failed is tried again; doubled each time."""


async def read_all(client: api.API, store: Store, *, pause: patience.Pause = asyncio.sleep) -> None:
    """Take in every object of every kind; waits until the kinds are there and may be read."""
    for kind in WATCHED:
        what, read = f"reading every {kind.value}", functools.partial(_read, client, store, kind)
        await patience.persist(read, what=what, retry_seconds=START_RETRY_SECONDS, pause=pause)


async def _read(client: api.API, store: Store, kind: Kind) -> None:
    async for page in client.pages(kind):
        page.reverse()
        while page:
            # Nothing of a page is left when the next one comes.
            store.put(kind, page.pop())


async def sweep(client: api.API, store: Store, kind: Kind) -> Keys:
    """Forget what is not there any more; the DLJobs that it concerned."""
    known = store.uids(kind)
    if await client.count(kind) == len(known):
        # As many as are known: listing ten thousand takes the API server seconds.
        return frozenset()
    # What is listed by a label may be there without it.
    version = await client.version(kind) if kind in LABELLED else None
    there = {item["metadata"]["uid"] async for page in client.pages(kind, metadata_only=True) for item in page}
    concerned: Keys = frozenset()
    for uid in known - there:
        name = store.name_of(kind, uid)
        if kind in LABELLED and name is not None:
            concerned |= await _read_again(client, store, kind, name=name, uid=uid)
        else:
            concerned |= store.remove(kind, uid, version=version)
    return concerned


async def _read_again(client: api.API, store: Store, kind: Kind, *, name: Key, uid: str) -> Keys:
    """Read what is not listed by our label: somebody may have taken that away."""
    with contextlib.suppress(api.NotFoundError):
        found = await client.get(kind, name)
        if found["metadata"]["uid"] == uid:
            return store.put(kind, found)
    return store.remove(kind, uid)


class Sweeper:
    """Sweeps every kind now and then, and a kind soon after its watch had to begin anew."""

    def __init__(self, client: api.API, store: Store, *, enqueue: Callable[[Keys], None]) -> None:
        self._api, self._store, self._enqueue = client, store, enqueue
        self._wanted: set[Kind] = set()
        self._wake = asyncio.Event()

    def want(self, kind: Kind) -> None:
        """Sweep a kind soon."""
        self._wanted.add(kind)
        self._wake.set()

    async def run(self) -> None:
        """Sweep for ever."""
        time = asyncio.get_running_loop().time
        due, failures = time() + SWEEP_SECONDS, 0
        while True:
            first, longest = RETRY_SECONDS
            again = time() + backoff.doubled(first, failures - 1, most=longest) if failures else due
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), timeout=max(min(due, again) - time(), 0.0))
                await asyncio.sleep(SETTLE_SECONDS)
            if time() >= due:
                self._wanted.update(WATCHED)
                due = time() + SWEEP_SECONDS
            self._wake.clear()
            failures = 0 if await self.sweep_wanted() else failures + 1

    async def sweep_wanted(self) -> bool:
        """Sweep the kinds that are due; what fails is due again.

        Returns:
            Whether none failed.
        """
        wanted, self._wanted = self._wanted, set()
        failed = False
        for kind in sorted(wanted, key=lambda kind: kind.value):
            try:
                self._enqueue(await sweep(self._api, self._store, kind))
            except (api.APIError, errors.TemporaryError) as error:
                _LOGGER.warning("%s could not be listed, tried again later: %s", kind.value, error)
                self._wanted.add(kind)
                failed = True
        return not failed
