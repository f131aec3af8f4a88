"""The owner of tokens is whom PodResources and the checkpoint agree on."""

import dataclasses

import pytest

from cotenant_api import errors
from cotenant_api.names import PodUID
from cotenant_deviceplugin.binding import ledger, owner
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from node_kit.bookings import TEAM, tokens
from node_kit.bookings import owner as expected

HELD = tokens(1, 2)
SHOWN = Listed(namespace=TEAM, pod="p-u1", container="main", tokens=HELD)
KEPT = Recorded(pod_uid=PodUID("u1"), container="main", tokens=HELD, cdi_names=(ledger.cdi_name(Nonce("n1")),))
OTHER = dataclasses.replace(KEPT, pod_uid=PodUID("u2"), cdi_names=(ledger.cdi_name(Nonce("n2")),))


def test_both_agree() -> None:
    assert owner.of(HELD, owner.shown(HELD, (SHOWN,)), (KEPT,)) == expected()


def test_others_change_nothing_even_with_some_of_the_tokens() -> None:
    partly = dataclasses.replace(SHOWN, pod="p-u2", tokens=tokens(2, 3))
    also = dataclasses.replace(OTHER, tokens=tokens(2, 3))
    assert owner.of(HELD, owner.shown(HELD, (partly, SHOWN)), (also, KEPT)) == expected()
    assert not owner.ambiguous(HELD, (also, KEPT))


def test_a_pod_that_has_ended_and_is_still_recorded_is_told_apart_by_the_uid() -> None:
    assert owner.ambiguous(HELD, (OTHER, KEPT))
    assert owner.of(HELD, SHOWN, (OTHER, KEPT), pod_uid=PodUID("u1")) == expected()


@pytest.mark.parametrize("listed", [(), (SHOWN, dataclasses.replace(SHOWN, pod="p-u2"))], ids=["nobody", "two"])
def test_who_is_listed_not_once_is_no_owner(listed: tuple[Listed, ...]) -> None:
    with pytest.raises(errors.TemporaryError, match=f"PodResources names {len(listed)} containers"):
        owner.shown(HELD, listed)


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ((), "checkpoint names 0 containers"),
        ((KEPT, OTHER), "checkpoint names 2 containers"),
        ((dataclasses.replace(KEPT, tokens=tokens(1)),), "checkpoint names 0 containers"),
        ((dataclasses.replace(KEPT, container="side"),), "PodResources names container 'main', the checkpoint 'side'"),
        ((dataclasses.replace(KEPT, cdi_names=()),), "has 0 answers of this agent"),
        ((dataclasses.replace(KEPT, cdi_names=KEPT.cdi_names + OTHER.cdi_names),), "has 2 answers of this agent"),
    ],
)
def test_a_checkpoint_that_disagrees_proves_nothing(recorded: tuple[Recorded, ...], message: str) -> None:
    with pytest.raises(errors.TemporaryError, match=message):
        owner.of(HELD, SHOWN, recorded)
