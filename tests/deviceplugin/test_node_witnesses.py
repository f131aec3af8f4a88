"""Who is named for a fault: whoever held the GPU when it happened, whatever has become of the pods since."""

import pytest

from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.node.witnesses import Holders, Witnesses
from node_kit import bookings

CANARY = 77


class Bench:
    """One GPU: its grants, its strangers and its canaries."""

    def __init__(self) -> None:
        self.grants: tuple[Grant, ...] = ()
        self.stranger, self.canary = False, None
        self.pids: frozenset[int] = frozenset()
        self.witnesses = Witnesses(lambda _: self.grants, strange=lambda _: self.stranger, canaries=self)

    canary: int | None

    def last(self, _: GPUUID) -> int | None:
        """Return the last canary."""
        return self.canary

    def hold(self, *uids: str) -> None:
        """Have these pods hold the GPU, and no others."""
        self.grants = tuple(bookings.grant(uid) for uid in uids)

    def look(self, *, well: bool = True) -> None:
        """Look at MPS."""
        self.witnesses.looked(bookings.A, well=well)

    def fault(self, *, late: bool = False) -> None:
        """See a fault."""
        self.witnesses.saw(bookings.A, late=late)

    def taken(self) -> Holders:
        """Weigh it."""
        return self.witnesses.taken(bookings.A)


def holders(*uids: str, others: bool = False) -> Holders:
    return Holders(tenants=frozenset(map(PodUID, uids)), others=others)


def test_a_tenant_that_ended_before_the_fault_is_weighed_is_still_named() -> None:
    bench = Bench()
    bench.hold("a", "b")
    bench.fault()
    bench.hold("b")
    assert (bench.taken(), bench.taken()) == (holders("a", "b"), holders("b"))


def test_a_tenant_that_came_after_the_fault_is_not_named() -> None:
    bench = Bench()
    bench.hold("a")
    bench.look()
    bench.fault()
    bench.hold("a", "b")
    assert bench.taken() == holders("a")


def test_a_tenant_that_ended_between_the_last_look_and_the_fault_is_named() -> None:
    bench = Bench()
    bench.hold("a", "b")
    bench.look()
    bench.hold("b")
    for _ in range(3):
        bench.look(well=False)
    bench.hold("b", "c")
    bench.fault()
    assert bench.taken() == holders("a", "b", "c")
    bench.look()
    bench.fault()
    assert bench.taken() == holders("b", "c")


def test_a_stranger_at_the_time_of_the_fault_counts_when_it_has_gone() -> None:
    bench = Bench()
    bench.hold("a")
    bench.stranger = True
    bench.fault()
    bench.stranger = False
    assert bench.taken() == holders("a", others=True)


def test_a_tenant_that_is_alone_when_a_late_event_is_told_need_not_have_caused_it() -> None:
    bench = Bench()
    bench.hold("a")
    bench.look()
    bench.fault(late=True)
    assert (bench.taken(), bench.taken()) == (holders("a", others=True), holders("a"))


@pytest.mark.parametrize("lives", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_a_canary_since_the_last_look_may_have_caused_the_fault_itself(*, lives: bool, seen: bool) -> None:
    bench = Bench()
    bench.hold("a")
    bench.look()
    bench.canary, bench.pids = CANARY, frozenset({CANARY})
    if seen:
        bench.look()
    bench.pids = bench.pids if lives else frozenset()
    bench.fault()
    assert bench.taken() == holders("a", others=True)


def test_a_canary_that_had_ended_before_the_last_look_did_not_cause_the_fault() -> None:
    bench = Bench()
    bench.hold("a")
    bench.canary = CANARY
    bench.look()
    bench.fault()
    assert bench.taken() == holders("a")
