"""What the leader removes, and when."""

from typing import Any

from cotenant_extender.ledger import ledger
from cotenant_extender.queue import cleanup
from extender import builders
from extender.builders import NOW

Object = dict[str, Any]


def due(cleaner: cleanup.Cleaner, source: ledger.Ledger, *, now: float) -> list[tuple[str, bool]]:
    return [(removal.record.name, removal.evict) for removal in cleaner.due(source, now=now)]


def test_a_bound_pod_without_placement_is_deleted_after_a_minute_and_again_if_it_is_still_there() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.pod("a", node="n0"))
    assert due(cleaner, source, now=NOW) == []
    assert due(cleaner, source, now=NOW + 59) == []
    assert due(cleaner, source, now=NOW + 60) == [("a", False)]
    assert due(cleaner, source, now=NOW + 61) == []
    assert due(cleaner, source, now=NOW + 90) == [("a", False)]


def test_a_running_pod_without_placement_is_left_to_a_person() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.pod("a", node="n0", phase="Running"))
    assert due(cleaner, source, now=NOW) + due(cleaner, source, now=NOW + 600) == []


def test_a_pod_that_is_being_deleted_is_not_deleted_again() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.pod("a", node="n0", deleting=True))
    assert due(cleaner, source, now=NOW) + due(cleaner, source, now=NOW + 600) == []


def part(name: str, **changes: Any) -> Object:
    return builders.pod(name, gates=(), annotations=builders.gang("g", 2), **changes)


def bound_part(name: str, **changes: Any) -> Object:
    return builders.bound(name, 40, "n0", "GPU-n0-0", annotations=builders.gang("g", 2), **changes)


def test_a_gang_that_is_bound_in_part_is_evicted_whole_after_a_minute() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), part("b"))
    assert due(cleaner, source, now=NOW) == []
    assert due(cleaner, source, now=NOW + 60) == [("a", True), ("b", True)]


def test_a_gang_that_became_whole_in_time_stays() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), part("b"))
    due(cleaner, source, now=NOW)
    builders.put(source, bound_part("b", version=2))
    due(cleaner, source, now=NOW + 59)
    builders.put(source, bound_part("a", phase="Succeeded", version=3))
    assert due(cleaner, source, now=NOW + 120) == []


def test_a_member_that_waits_behind_its_gate_splits_no_gang() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), builders.pod("b", annotations=builders.gang("g", 2)))
    assert due(cleaner, source, now=NOW) + due(cleaner, source, now=NOW + 600) == []
