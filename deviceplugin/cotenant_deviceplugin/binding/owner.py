"""Whose tokens these are: what kubelet lists and what it has recorded must name the same one container. Pure."""

from dataclasses import dataclass
from typing import TypeVar

from cotenant_api import errors
from cotenant_api.names import Namespace, PodUID
from cotenant_deviceplugin.binding import ledger
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import Tokens

T = TypeVar("T", Listed, Recorded)

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


def of(tokens: Tokens, listed: tuple[Listed, ...], recorded: tuple[Recorded, ...]) -> Owner:
    """The owner of exactly these tokens.

    Raises:
        TemporaryError: kubelet names none, several, or two different ones.
    """
    shown = _only([each for each in listed if each.tokens & tokens], "PodResources")
    kept = _only([each for each in recorded if each.tokens & tokens], "kubelet's checkpoint")
    if shown.tokens != tokens or kept.tokens != tokens:
        raise _disagreement("the container that holds them holds others too, or not all of them")
    if shown.container != kept.container:
        raise _disagreement(f"PodResources names container {shown.container!r}, the checkpoint {kept.container!r}")
    nonces = ledger.nonces_of(kept)
    if len(nonces) != 1:
        raise _disagreement(f"the checkpoint has {len(nonces)} answers of this agent for them")
    return Owner(
        pod_uid=kept.pod_uid, namespace=shown.namespace, pod=shown.pod, container=shown.container, nonce=nonces[0]
    )


def _only(found: list[T], where: str) -> T:
    if len(found) != 1:
        raise _disagreement(f"{where} names {len(found)} containers that hold them")
    return found[0]


def _disagreement(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(f"whose tokens these are is not proven: {why}", delay_seconds=DELAY_SECONDS)
