"""What kubelet remembers of a ledger that was lost. Pure.

A container may run whose grant nobody knows any more. Until each is known again, no GPU is given away.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cotenant_api import errors
from cotenant_api.names import NodeName, PodUID
from cotenant_deviceplugin.binding import decision, ledger
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.binding.ledger import Ledger, Nonce
from cotenant_deviceplugin.binding.owner import Owner
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import Tokens
from cotenant_deviceplugin.pods import BoundPod

DELAY_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """An allocation that kubelet remembers; `grant` is None where its pod cannot have been given anything."""

    nonce: Nonce
    tokens: Tokens
    grant: Grant | None


def unknown(known: Ledger, recorded: Collection[Recorded], *, besides: Tokens) -> tuple[Recorded, ...]:
    """Answers of this agent that kubelet has and the ledger has not; not those for the tokens of who starts now."""
    return tuple(
        each
        for each in recorded
        if not each.tokens & besides and any(known.of(nonce) is None for nonce in ledger.nonces_of(each))
    )


def of(
    lost: Recorded, listed: Collection[Listed], bound: Mapping[PodUID, BoundPod], *, node: NodeName
) -> Recovered | None:
    """What is to be put into the ledger for one that is lost; None: its pod has ended.

    Raises TemporaryError while that cannot be told.
    """
    pod = bound.get(lost.pod_uid)
    if pod is None or pod.finished:
        if any(each.tokens & lost.tokens for each in listed):
            raise _not_now(f"what pod {lost.pod_uid} has is lost, and kubelet still lists it")
        return None
    nonces = ledger.nonces_of(lost)
    if len(nonces) > 1:
        raise _not_now(f"kubelet's checkpoint has {len(nonces)} answers of this agent for pod {lost.pod_uid}")
    return Recovered(nonce=nonces[0], tokens=lost.tokens, grant=_grant(nonces[0], lost, pod, node))


def _grant(nonce: Nonce, lost: Recorded, pod: BoundPod, node: NodeName) -> Grant | None:
    """What it was given when it started: a placement never changes. One that is no good has never been granted."""
    owner = Owner(pod_uid=lost.pod_uid, namespace=pod.namespace, pod=pod.name, container=lost.container, nonce=nonce)
    try:
        # A GPU that is not listed now may have been there then.
        return decision.proven(owner, pod, tokens=len(lost.tokens), node=node, known=())
    except errors.PermanentError:
        return None


def _not_now(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(why, delay_seconds=DELAY_SECONDS)
