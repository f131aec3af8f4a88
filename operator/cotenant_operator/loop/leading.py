"""Which of several operators acts: the one that holds the Lease of the release.

As in client-go's leader election, with one difference: another's Lease is believed for as long as it says itself. How
long that is gone by is read on our own clock, from when the Lease was seen to change; no time that another wrote is
read. Who holds it stops acting well before another may begin, counted from before the renewal was sent. The Lease comes
with the release and is never made here: of one that was deleted nobody knows who held it.
"""

import asyncio
import contextlib
import logging
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cotenant_api import conditions, errors
from cotenant_operator.kube import api
from cotenant_operator.loop import patience
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.views import Key

_LOGGER = logging.getLogger(__name__)

NAME: Final = "cotenant-operator"
DURATION_SECONDS: Final = 15
"""After which others take a Lease that does not change."""
LONGEST_SECONDS: Final = 120
"""No Lease counts for longer, whatever it says of itself: admission lets in no more either."""
MOST_TRANSITIONS: Final = 2**31
"""The API server keeps 32 bits: after that many changes of leaders they are counted anew."""
RENEW_SECONDS: Final = 10.0
"""How long a renewal allows to act."""
RETRY_SECONDS: Final = 2.0
RELEASE_SECONDS: Final = 3.0
GIVEN_BACK_SECONDS: Final = 1
"""Duration of a Lease that was given back. One that lost its holder otherwise may have one that does not know yet."""


class LostError(errors.CotenantError):
    """The Lease could not be renewed in time: another may hold it."""


@dataclass(frozen=True, kw_only=True)
class _Lease:
    """As the API server has it. `version` is its resourceVersion; `holder` is empty where it was given back."""

    version: str
    holder: str
    duration: float
    transitions: int


class Leader:
    """Takes the Lease, renews it and gives it back.

    Args:
        client: asks the API server; not through `guarded`.
        namespace: of the release.
        now: the time of day, for whoever reads the Lease.
        monotonic: seconds that only grow.
        identity: of this process; another has it only when this one is gone. Empty: one that no other ever has.
    """

    def __init__(
        self,
        client: api.API,
        *,
        namespace: str,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        identity: str = "",
    ) -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._client, self._now, self._monotonic = client, now, monotonic
        self._key = Key(namespace, NAME)
        self._until = float("-inf")
        self._held: _Lease | None = None
        self._asked = float("-inf")
        self._seen, self._seen_since, self._saw_holder = "", 0.0, False
        self._told = ""

    def leads(self) -> bool:
        """Return whether it may act now."""
        return self._monotonic() < self._until

    async def lead(self, *, pause: patience.Pause = asyncio.sleep) -> None:
        """Return when it may act."""
        while not await self.try_once():
            await pause(RETRY_SECONDS)
        _LOGGER.info("%s leads", self.identity)

    async def keep(self, *, pause: patience.Pause = asyncio.sleep) -> None:
        """Renew the Lease for ever.

        Raises:
            LostError: it was not renewed in time.
        """
        while True:
            await pause(max(self._asked + RETRY_SECONDS - self._monotonic(), 0.0))
            # A request may take longer than there is to act.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(self._until - self._monotonic(), 0.0)):
                    await self.try_once()
            if not self.leads():
                raise LostError(f"the Lease {NAME} could not be renewed for {RENEW_SECONDS:g} s: {self._told}")

    async def release(self) -> None:
        """Give it back, so that the next one need not wait; nothing is written by this process any more."""
        self._until, self._held = float("-inf"), None
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # A renewal that was broken off may arrive in between.
                with contextlib.suppress(api.ConflictError):
                    return await self._give_back()
                await self._give_back()
        except (errors.CotenantError, TimeoutError) as error:
            _LOGGER.info("the Lease %s was not given back: %s", NAME, error)

    async def _give_back(self) -> None:
        found = await self._read()
        if found.holder == self.identity:
            await self._write(found, holder="", duration=GIVEN_BACK_SECONDS)

    async def try_once(self) -> bool:
        """Take or renew the Lease where that is possible; whether it may act now."""
        self._asked = self._monotonic()
        try:
            with contextlib.suppress(api.ConflictError):
                return await self._taken()
            # What somebody else wrote is looked at without delay.
            self._held = None
            return await self._taken()
        except api.NotFoundError:
            # Whoever makes it again may let another take it.
            self._held, self._until = None, float("-inf")
            self._tell(f"the Lease {NAME} is not there: `helm upgrade` makes it again")
        except errors.CotenantError as error:
            self._held = None
            self._tell(f"the Lease {NAME}: {error}")
        return self.leads()

    async def _taken(self) -> bool:
        asked = self._monotonic()
        found = self._held or await self._read()
        if self._is_anothers(found):
            self._until = float("-inf")
            self._tell(f"{found.holder or 'nobody'} leads", level=logging.INFO)
            return False
        self._held = await self._write(found, holder=self.identity, duration=DURATION_SECONDS)
        self._saw_holder = True
        self._until = asked + RENEW_SECONDS
        self._told = ""
        return self.leads()

    def _is_anothers(self, found: _Lease) -> bool:
        """Return whether another may act by this Lease, or by the one that was there before it."""
        if found.version != self._seen:
            self._seen, self._seen_since = found.version, self._monotonic()
        if found.holder == self.identity:
            return False
        self._saw_holder = self._saw_holder or found.holder != ""
        is_free = found.duration == GIVEN_BACK_SECONDS or not self._saw_holder or self.leads()
        if found.holder == "" and is_free:
            return False
        return self._monotonic() <= self._seen_since + found.duration

    async def _read(self) -> _Lease:
        return _lease(await self._client.get(Kind.LEASE, self._key))

    async def _write(self, over: _Lease, *, holder: str, duration: int) -> _Lease:
        """Write over what was read. Raises ConflictError where somebody wrote meanwhile."""
        now = conditions.micro_timestamp(self._now())
        taken = holder not in {"", over.holder}
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "renewTime": now,
            "leaseTransitions": (over.transitions + taken) % MOST_TRANSITIONS,
            **({"acquireTime": now} if taken else {}),
        }
        patch = {"metadata": {"resourceVersion": over.version}, "spec": spec}
        return _lease(await self._client.merge(Kind.LEASE, self._key, patch))

    def _tell(self, text: str, *, level: int = logging.WARNING) -> None:
        """Log what is new."""
        if text != self._told:
            self._told = text
            _LOGGER.log(level, "%s", text)


def guarded(send: api.Send, leader: Leader) -> api.Send:
    """Return what sends as `send` does, but writes nothing while another may act."""

    async def sent(request: api.Request) -> tuple[int, Any]:
        if request.method != "GET" and not leader.leads():
            raise errors.TemporaryError("another operator may lead: nothing is written", delay_seconds=RETRY_SECONDS)
        return await send(request)

    return sent


def _lease(found: api.Json) -> _Lease:
    spec = found.get("spec") or {}
    return _Lease(
        version=found["metadata"]["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        duration=min(float(spec.get("leaseDurationSeconds") or DURATION_SECONDS), LONGEST_SECONDS),
        transitions=int(spec.get("leaseTransitions") or 0),
    )
