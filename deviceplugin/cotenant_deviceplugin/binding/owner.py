"""Whose tokens these are: what kubelet lists and what it has recorded must name the same one container. Pure."""

from dataclasses import dataclass

from cotenant_api import errors
from cotenant_api.names import Namespace, PodUID
from cotenant_deviceplugin.binding import ledger
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import Tokens

DELAY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The one container that holds some tokens, and what it will ask the container runtime for.

    PodResources knows namespace and name, the checkpoint the UID: only a fresh read of the pod joins them.
    """

    pod_uid: PodUID
    namespace: Namespace
    pod: str
    container: str
    nonce: Nonce


def shown(tokens: Tokens, listed: tuple[Listed, ...]) -> Listed:
    """Return the one container that PodResources lists with exactly these tokens. Raises TemporaryError."""
    found = [each for each in listed if each.tokens == tokens]
    if len(found) != 1:
        raise _disagreement(f"PodResources names {len(found)} containers that hold them")
    return found[0]


def ambiguous(tokens: Tokens, recorded: tuple[Recorded, ...]) -> bool:
    """Return whether the checkpoint names several holders.

    Kubelet writes it when a pod is added, not when one has ended.
    """
    return sum(each.tokens == tokens for each in recorded) > 1


def of(tokens: Tokens, listed: Listed, recorded: tuple[Recorded, ...], *, pod_uid: PodUID | None = None) -> Owner:
    """Return the owner of exactly these tokens.

    That another container holds some of them too changes nothing: kubelet forgets what it is about to allocate when
    PodResources is asked meanwhile (UpdateAllocatedDevices), and may give it twice. Each has an answer of its own.

    Args:
        tokens: all that the container holds.
        listed: what PodResources shows for them.
        recorded: the checkpoint.
        pod_uid: of the listed pod by a fresh read; needed where the checkpoint is `ambiguous`.

    Raises:
        TemporaryError: kubelet names none, several, or two different ones.
    """
    found = [each for each in recorded if each.tokens == tokens and pod_uid in {None, each.pod_uid}]
    if len(found) != 1:
        raise _disagreement(f"kubelet's checkpoint names {len(found)} containers that hold them")
    kept = found[0]
    if listed.container != kept.container:
        raise _disagreement(f"PodResources names container {listed.container!r}, the checkpoint {kept.container!r}")
    nonces = ledger.nonces_of(kept)
    if len(nonces) != 1:
        raise _disagreement(f"the checkpoint has {len(nonces)} answers of this agent for them")
    return Owner(
        pod_uid=kept.pod_uid, namespace=listed.namespace, pod=listed.pod, container=listed.container, nonce=nonces[0]
    )


def _disagreement(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(f"whose tokens these are is not proven: {why}", delay_seconds=DELAY_SECONDS)
