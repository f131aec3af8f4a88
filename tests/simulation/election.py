"""Leader election as client-go does it: kube-scheduler's, over one Lease.

A holder that cannot renew for `RENEW_DEADLINE_SECONDS` exits; another takes over when it has seen no renewal for the
duration of the Lease by its own clock, or at once where the Lease was given back.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cotenant_api import names
from cotenant_extender.kube import pods, transport
from simulation import network, requests

Object = dict[str, Any]

LEASES = pods.leases_path(names.RELEASE_NAMESPACE)
PATH = f"{LEASES}/{names.SCHEDULER_LEASE}"
LEASES_ALL = "/apis/coordination.k8s.io/v1/leases"
KEY = (names.RELEASE_NAMESPACE, names.SCHEDULER_LEASE)
DURATION_SECONDS = 15
RENEW_DEADLINE_SECONDS = 10.0
RETRY_SECONDS = 2.0


def micro(seconds: float) -> str:
    """metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Election:
    """One candidate.

    Args:
        identity: its holder identity.
        clock: seconds since the epoch, as its host has it: what it writes.
        stopwatch: seconds, by a clock that is never set: what it judges by.

    Attributes:
        leading: whether it holds the Lease, as far as it knows.
        changed: is called when it takes it.
    """

    def __init__(
        self, link: network.Link, identity: str, clock: Callable[[], float], stopwatch: Callable[[], float]
    ) -> None:
        self._link, self.identity, self._clock, self._stopwatch = link, identity, clock, stopwatch
        self._seen: Object = {}
        self._seen_at = 0.0
        self.leading = False
        self.changed: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Take the Lease when it can be had, renew it, and return when it is lost."""
        while True:
            if await self._try():
                break
            await asyncio.sleep(RETRY_SECONDS * self._link.rng.uniform(0.8, 1.2))
        self.leading = True
        self.changed()
        renewed = self._stopwatch()
        while self._stopwatch() - renewed < RENEW_DEADLINE_SECONDS:
            await asyncio.sleep(RETRY_SECONDS)
            if await self._try():
                renewed = self._stopwatch()
        self.leading = False

    async def give_back(self) -> None:
        """As on SIGTERM."""
        self.leading = False
        if (self._seen.get("spec") or {}).get("holderIdentity") == self.identity:
            spec = {**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            now = micro(self._clock())
            await self._put({**self._seen, "spec": {**spec, "renewTime": now, "acquireTime": now}})

    async def _try(self) -> bool:
        try:
            code, lease = await requests.once(self._link, "GET", PATH)
        except transport.UnansweredError:
            return False
        if code == 404:
            return await self._create()
        if code != 200:
            return False
        spec = lease["spec"]
        if spec != self._seen.get("spec"):
            self._seen_at = self._stopwatch()
        self._seen = lease
        holder = spec.get("holderIdentity")
        held_until = self._seen_at + spec.get("leaseDurationSeconds", DURATION_SECONDS)
        if holder and holder != self.identity and held_until > self._stopwatch():
            return False
        return await self._put({**lease, "spec": self._spec(spec, mine=holder == self.identity)})

    async def _create(self) -> bool:
        metadata = {"name": names.SCHEDULER_LEASE, "namespace": names.RELEASE_NAMESPACE}
        body = {"metadata": metadata, "spec": self._spec({}, mine=False)}
        try:
            code, lease = await requests.once(self._link, "POST", LEASES, body)
        except transport.UnansweredError:
            return False
        if code == 201:
            self._seen, self._seen_at = lease, self._stopwatch()
        return code == 201

    async def _put(self, lease: Object) -> bool:
        try:
            code, stored = await requests.once(self._link, "PUT", PATH, lease)
        except transport.UnansweredError:
            return False
        if code == 200:
            self._seen, self._seen_at = stored, self._stopwatch()
        return code == 200

    def _spec(self, old: Object, *, mine: bool) -> Object:
        now = micro(self._clock())
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": old.get("acquireTime", now) if mine else now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions", 0)) + (0 if mine else 1),
        }
