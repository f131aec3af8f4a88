"""Which tokens kubelet was given names for, and what their pods were granted: a value and its transitions.

Pure. Every ledger that exists is consistent: one that is not cannot be made (InconsistentError).
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NewType

from cotenant_api import errors
from cotenant_api.names import GPUUID, HUNDREDTHS, PodUID
from cotenant_deviceplugin.binding.grants import Evidence, Grant
from cotenant_deviceplugin.kubelet.owners import Recorded
from cotenant_deviceplugin.kubelet.plugin import CDIName, Token, Tokens

Nonce = NewType("Nonce", str)
"""The name of one answer to Allocate; never used twice."""

KIND = "cotenant.dev/share"
FORGET_AFTER = timedelta(minutes=10)
"""An answer that kubelet has not recorded by then was never used: it records an answer at once or fails the pod."""


class InconsistentError(errors.CotenantError):
    """A transition that would break what must always hold; what it was built on has changed meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """One answer to Allocate, and the grant of the pod whose it turned out to be."""

    nonce: Nonce
    tokens: Tokens
    minted_at: datetime
    grant: Grant | None = None


@dataclass(frozen=True)
class Ledger:
    """All allocations, in the order in which they were minted."""

    allocations: tuple[Allocation, ...] = ()

    def __post_init__(self) -> None:
        _check(self.allocations)

    def of(self, nonce: Nonce) -> Allocation | None:
        """Return the allocation with that nonce."""
        return next((each for each in self.allocations if each.nonce == nonce), None)

    def of_pod(self, pod_uid: PodUID) -> Allocation | None:
        """Return the granted allocation of a pod."""
        return next((each for each in self.granted if each.grant and each.grant.pod_uid == pod_uid), None)

    @property
    def granted(self) -> tuple[Allocation, ...]:
        """The allocations whose pod has a grant."""
        return tuple(each for each in self.allocations if each.grant is not None)

    @functools.cached_property
    def grants(self) -> tuple[Grant, ...]:
        """The grants that stand."""
        return tuple(each.grant for each in self.allocations if each.grant is not None)

    @functools.cached_property
    def tenants(self) -> Mapping[GPUUID, tuple[Grant, ...]]:
        """The grants that stand, by GPU: every GPU's are asked for every second, and a ledger never changes."""
        found: dict[GPUUID, list[Grant]] = {}
        for grant in self.grants:
            for gpu in {booking.uuid for booking in grant.booked.gpus}:
                found.setdefault(gpu, []).append(grant)
        return {gpu: tuple(grants) for gpu, grants in found.items()}

    @property
    def held(self) -> Tokens:
        """All tokens that a pod may hold."""
        return frozenset[Token]().union(*(each.tokens for each in self.allocations))

    def allocate(self, nonce: Nonce, tokens: Tokens, *, now: datetime) -> "Ledger":
        """With one more answer to Allocate. It ends no older one: calls of kubelet may arrive late and out of order."""
        return Ledger((*self.allocations, Allocation(nonce=nonce, tokens=tokens, minted_at=now)))

    def grant(self, new: Allocation) -> "Ledger":
        """With a granted allocation in the place of the one with its nonce, and of what its pod was granted before.

        One that is not known is added: the ledger was lost, and kubelet remembers it. No other pod loses anything here:
        whoever had these tokens before keeps its grant until its end is proven.
        """
        known, earlier = self.of(new.nonce), self.of_pod(new.grant.pod_uid) if new.grant else None
        if known is not None:
            new = dataclasses.replace(new, minted_at=known.minted_at)
        if known == new:
            return self
        replaced = {new.nonce} | ({earlier.nonce} if earlier else set())
        return Ledger((*(each for each in self.allocations if each.nonce not in replaced), new))

    def without(self, nonces: Collection[Nonce]) -> "Ledger":
        """Without allocations that have ended."""
        return Ledger(tuple(each for each in self.allocations if each.nonce not in nonces))

    def not_after(self, now: datetime) -> "Ledger":
        """With no allocation minted in the future: after a clock was set back, each is as old as the present."""
        return Ledger(tuple(dataclasses.replace(each, minted_at=min(each.minted_at, now)) for each in self.allocations))

    def garbage(self, evidence: Evidence, *, now: datetime) -> tuple[Allocation, ...]:
        """Allocations of which it is proven that no container has them or ever will.

        That kubelet does not list them, or has not recorded them, is not enough by itself: it lists nobody while it
        starts, and its checkpoint may have been deleted under running pods.
        """
        recorded = {nonce for each in evidence.recorded for nonce in nonces_of(each)}
        return tuple(
            each
            for each in self.allocations
            if (each.grant is not None and _ended(each, each.grant, evidence, recorded=each.nonce in recorded))
            or (each.grant is None and each.nonce not in recorded and now - each.minted_at > FORGET_AFTER)
        )


def shares(grants: Collection[Grant]) -> Mapping[GPUUID, int]:
    """Hundredths that are given away, per GPU; a pod counts once."""
    total: Counter[GPUUID] = Counter()
    for grant in {each.pod_uid: each for each in grants}.values():
        for gpu in grant.booked.gpus:
            total[gpu.uuid] += gpu.share
    return total


def cdi_name(nonce: Nonce) -> CDIName:
    """Return what Allocate answers."""
    return CDIName(f"{KIND}={nonce}")


def nonces_of(recorded: Recorded) -> tuple[Nonce, ...]:
    """Return the nonces in kubelet's memory of an answer to Allocate."""
    prefix = f"{KIND}="
    return tuple(Nonce(name.removeprefix(prefix)) for name in recorded.cdi_names if name.startswith(prefix))


def _ended(allocation: Allocation, grant: Grant, evidence: Evidence, *, recorded: bool) -> bool:
    """By the API server, by the host, and by kubelet: it has forgotten the pod, or the checkpoint is merely old."""
    mine = (grant.namespace, grant.pod, allocation.tokens)
    listed = any((each.namespace, each.pod, each.tokens) == mine for each in evidence.listed)
    return grant.pod_uid in evidence.ended and grant.pod_uid not in evidence.alive and not (recorded and listed)


def _check(allocations: tuple[Allocation, ...]) -> None:
    granted = [(each, each.grant) for each in allocations if each.grant is not None]
    if len({each.nonce for each in allocations}) < len(allocations):
        raise InconsistentError("one nonce names two allocations")
    if not all(each.tokens for each in allocations):
        raise InconsistentError("an allocation has no tokens")
    if len({grant.pod_uid for _, grant in granted}) < len(granted):
        raise InconsistentError("a pod has two grants")
    for each, grant in granted:
        if len(each.tokens) > sum(gpu.share for gpu in grant.booked.gpus):
            raise InconsistentError(f"pod {grant.pod_uid} has more tokens than its placement has hundredths")
    for gpu, share in shares([grant for _, grant in granted]).items():
        if share > HUNDREDTHS:
            raise InconsistentError(f"{share} hundredths of GPU {gpu} would be given away")
