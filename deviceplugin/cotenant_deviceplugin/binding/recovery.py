"""What kubelet remembers of a ledger that was lost. Pure.

A container may run whose grant nobody knows any more. Until each is known again, no GPU is given away.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from cotenant_api import errors
from cotenant_api.names import NodeName, PodUID
from cotenant_deviceplugin.binding import decision, ledger
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.binding.ledger import Allocation, Ledger, Nonce
from cotenant_deviceplugin.binding.owner import Owner
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.pods import BoundPod

DELAY_SECONDS = 2.0


def unknown(known: Ledger, recorded: Collection[Recorded], *, besides: Nonce | None) -> tuple[Recorded, ...]:
    """Answers of this agent that kubelet has and the ledger has not; not that of the container that starts now."""
    return tuple(
        each
        for each in recorded
        if any(known.of(nonce) is None and nonce != besides for nonce in ledger.nonces_of(each))
    )


@dataclass(frozen=True, kw_only=True)
class Known:
    """What others know of what was lost.

    Attributes:
        listed: by kubelet.
        bound: pods by the API server.
        resolvable: names that a container could have been started with.
    """

    listed: tuple[Listed, ...]
    bound: Mapping[PodUID, BoundPod]
    resolvable: Collection[Nonce]


def of(lost: Recorded, known: Known, *, node: NodeName, now: datetime) -> Allocation | None:
    """Return the allocation that is lost, with its grant if its container may run; None: its pod has ended.

    Raises TemporaryError while that cannot be told.
    """
    pod = known.bound.get(lost.pod_uid)
    if pod is None or pod.finished:
        if any(each.tokens == lost.tokens for each in known.listed):
            raise _not_now(f"what pod {lost.pod_uid} has is lost, and kubelet still lists it")
        return None
    nonces = ledger.nonces_of(lost)
    if len(nonces) > 1:
        raise _not_now(f"kubelet's checkpoint has {len(nonces)} answers of this agent for pod {lost.pod_uid}")
    may_run = pod.running or nonces[0] in known.resolvable
    grant = _grant(nonces[0], lost, pod, node) if may_run else None
    return Allocation(nonce=nonces[0], tokens=lost.tokens, minted_at=now, grant=grant)


def adopted(before: Ledger, found: Collection[Allocation]) -> Ledger:
    """Return the ledger with all of them at once.

    With some of them it would look as if there were room for the others.
    """
    for each in found:
        if each.grant is not None:
            before = before.grant(each)
        elif before.of(each.nonce) is None:
            before = before.allocate(each.nonce, each.tokens, now=each.minted_at)
    return before


def _grant(nonce: Nonce, lost: Recorded, pod: BoundPod, node: NodeName) -> Grant | None:
    """Return what it was given when it started: a placement never changes.

    One that is no good has never been granted.
    """
    owner = Owner(pod_uid=lost.pod_uid, namespace=pod.namespace, pod=pod.name, container=lost.container, nonce=nonce)
    try:
        # A GPU that is not listed now may have been there then.
        return decision.proven(owner, pod, tokens=len(lost.tokens), node=node, known=())
    except errors.PermanentError:
        return None


def _not_now(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(why, delay_seconds=DELAY_SECONDS)
