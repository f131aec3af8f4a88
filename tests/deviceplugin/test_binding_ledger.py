"""The ledger is consistent whatever happens to it, and drops only what is proven to have ended."""

from datetime import timedelta

import pytest

from cotenant_api.names import PodUID
from cotenant_deviceplugin.binding import ledger
from cotenant_deviceplugin.binding.grants import Evidence, Grant
from cotenant_deviceplugin.binding.ledger import Allocation, InconsistentError, Ledger, Nonce
from cotenant_deviceplugin.kubelet.owners import Listed, Recorded
from cotenant_deviceplugin.kubelet.plugin import CDIName
from node_kit.bookings import NOW, TEAM, A, B, allocation, grant, tokens

GRANTED = Ledger().allocate(Nonce("n1"), tokens(1, 2), now=NOW).grant(allocation("n1", tokens(1, 2), grant("u1")))


def seen(*, ended: bool = True, listed: bool = False, recorded: bool = False, alive: bool = False) -> Evidence:
    """Evidence about pod u1 of GRANTED."""
    uid = PodUID("u1")
    entry = Recorded(pod_uid=uid, container="main", tokens=tokens(1, 2), cdi_names=(ledger.cdi_name(Nonce("n1")),))
    return Evidence(
        ended=frozenset({uid} if ended else ()),
        listed=(Listed(namespace=TEAM, pod="p-u1", container="main", tokens=tokens(1, 2)),) if listed else (),
        recorded=(entry,) if recorded else (),
        alive=frozenset({uid} if alive else ()),
    )


def test_an_allocation_holds_its_tokens_and_gives_nothing_away() -> None:
    book = Ledger().allocate(Nonce("n1"), tokens(1, 2), now=NOW)
    assert book.held == tokens(1, 2)
    assert book.grants == ()


def test_a_grant_takes_the_place_of_its_allocation_and_keeps_its_time() -> None:
    later = Allocation(nonce=Nonce("n1"), tokens=tokens(1, 2), minted_at=NOW + timedelta(hours=1), grant=grant("u1"))
    book = Ledger().allocate(Nonce("n1"), tokens(1, 2), now=NOW).grant(later)
    assert book.allocations == (allocation("n1", tokens(1, 2), grant("u1")),)


def test_granting_the_same_again_changes_nothing() -> None:
    assert GRANTED.grant(allocation("n1", tokens(1, 2), grant("u1"))) is GRANTED


def test_a_grant_of_an_allocation_that_was_lost_is_added() -> None:
    assert Ledger().grant(allocation("n9", None, grant("u1"))).of(Nonce("n9")) is not None


def test_a_pod_that_got_other_tokens_has_one_grant() -> None:
    book = GRANTED.grant(allocation("n2", tokens(3, 4), grant("u1")))
    assert [each.nonce for each in book.granted] == ["n2"]


def test_an_allocation_of_tokens_that_a_tenant_had_does_not_end_its_grant() -> None:
    book = GRANTED.allocate(Nonce("n2"), tokens(1, 2), now=NOW).grant(allocation("n2", tokens(1, 2), grant("u2")))
    assert ledger.shares(book.grants) == {A: 60}


@pytest.mark.parametrize(
    ("allocations", "message"),
    [
        ((allocation("n1"), allocation("n1", tokens(3))), "one nonce names two allocations"),
        ((Allocation(nonce=Nonce("n1"), tokens=frozenset(), minted_at=NOW),), "has no tokens"),
        ((allocation("n1", None, grant("u1")), allocation("n2", tokens(3), grant("u1"))), "two grants"),
        ((allocation("n1", tokens(*range(31)), grant("u1")),), "more tokens than its placement has hundredths"),
        (
            (allocation("n1", None, grant("u1", (A, 60))), allocation("n2", tokens(3), grant("u2", (A, 41)))),
            "101 hundredths of GPU GPU-a would be given away",
        ),
    ],
)
def test_a_ledger_that_is_inconsistent_cannot_be_made(allocations: tuple[Allocation, ...], message: str) -> None:
    with pytest.raises(InconsistentError, match=message):
        Ledger(allocations)


def test_shares_are_counted_per_gpu_and_once_per_pod() -> None:
    whole: Grant = grant("u2", (A, 100), (B, 100), backend="Whole")
    assert ledger.shares([whole, whole]) == {A: 100, B: 100}


@pytest.mark.parametrize(
    ("evidence", "dropped"),
    [
        (seen(), True),
        (seen(recorded=True), True),
        (seen(listed=True), True),
        (seen(recorded=True, listed=True), False),
        (seen(alive=True), False),
        (seen(ended=False), False),
    ],
    ids=["all agree", "old checkpoint", "lost checkpoint", "kubelet has it", "a process lives", "API server has it"],
)
def test_a_grant_ends_when_api_server_host_and_kubelet_agree(evidence: Evidence, dropped: bool) -> None:
    assert bool(GRANTED.garbage(evidence, now=NOW)) is dropped


def test_an_allocation_without_a_grant_is_forgotten_when_kubelet_never_recorded_it() -> None:
    book, soon = Ledger().allocate(Nonce("n1"), tokens(1, 2), now=NOW), NOW + ledger.FORGET_AFTER
    late = soon + timedelta(seconds=1)
    assert book.garbage(seen(), now=soon) == ()
    assert book.garbage(seen(recorded=True), now=late) == ()
    assert book.garbage(seen(), now=late) == book.allocations


def test_an_answer_that_was_minted_before_the_clock_was_set_back_ages_from_then_on() -> None:
    book, back = Ledger().allocate(Nonce("n1"), tokens(1, 2), now=NOW), NOW - timedelta(days=1)
    aged = book.not_after(back)
    late = back + ledger.FORGET_AFTER + timedelta(seconds=1)
    assert (aged.garbage(seen(), now=back), aged.garbage(seen(), now=late)) == ((), aged.allocations)
    assert book.not_after(NOW) == book
    assert book.without({Nonce("n1")}) == Ledger()


def test_only_names_of_ours_are_nonces() -> None:
    names = (CDIName("nvidia.com/gpu=0"), ledger.cdi_name(Nonce("n1")))
    assert ledger.nonces_of(Recorded(pod_uid=PodUID("u"), container="c", tokens=tokens(1), cdi_names=names)) == ("n1",)
