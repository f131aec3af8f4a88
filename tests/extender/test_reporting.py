"""When the condition `cotenant.dev/Packed` is written."""

from typing import Any

import pytest

from cotenant_api import names, places
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import budgets, reporting, telling
from extender import builders
from extender.builders import NOW
from extender.queueing import queue, run, teller

Object = dict[str, Any]


def due(reporter: reporting.Reporter, source: ledger.Ledger, *, now: float) -> list[tuple[str, str]]:
    run(source, now=now)
    waits = [report for report in reporter.waiting(source, teller(source), now=now) if report]
    reports = [*reporter.placed(source, now=now), *waits]
    return [(report.record.name, report.reason) for report in reports]


def waiting(*names: str) -> ledger.Ledger:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("big", 100, "n0", "GPU-n0-0", packed="Placed"))
    builders.put(source, *(builders.pod(name) for name in names))
    return source


def test_a_placed_pod_is_told_at_once_and_once() -> None:
    source, reporter = builders.cluster(), reporting.Reporter()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    assert due(reporter, source, now=NOW) == [("a", PackedReason.PLACED)]
    assert due(reporter, source, now=NOW + 1) == []


def test_a_placed_pod_that_was_told_before_a_restart_is_not_told_again() -> None:
    source = waiting()
    assert due(reporting.Reporter(), source, now=NOW) == []


def test_a_pod_that_waits_is_told_after_a_moment_and_not_again_for_the_same_reason() -> None:
    source, reporter = waiting("a"), reporting.Reporter()
    assert due(reporter, source, now=NOW) == []
    assert due(reporter, source, now=NOW + 1) == [("a", PackedReason.INSUFFICIENT_SHARE)]
    assert due(reporter, source, now=NOW + 9) == []


def reports(reporter: reporting.Reporter, source: ledger.Ledger, *, now: float) -> list[tuple[str, int, int]]:
    """Name, place that is told, and how often an event told this reason."""
    run(source, now=now)
    found = reporter.waiting(source, teller(source), now=now)
    return [(report.record.name, places.position(report.message) or 0, report.times) for report in found if report]


def test_a_pod_that_waits_longer_is_told_by_an_event_once() -> None:
    source, reporter = waiting("a"), reporting.Reporter()
    assert reports(reporter, source, now=NOW) == []
    assert reports(reporter, source, now=NOW + 1) == [("a", 1, 0)]
    assert reports(reporter, source, now=NOW + 31) == [("a", 1, 1)]
    assert reports(reporter, source, now=NOW + 300) == []


def test_so_many_pods_are_told_by_an_event_at_a_time_and_the_others_soon() -> None:
    source, reporter = waiting(*(f"a{number:03}" for number in range(reporting.EVENTS + 5))), reporting.Reporter()
    for now in (NOW, NOW + 1):
        reports(reporter, source, now=now)
    first = [name for name, _, times in reports(reporter, source, now=NOW + 31) if times]
    second = [name for name, _, times in reports(reporter, source, now=NOW + 36) if times]
    assert len(first) == reporting.EVENTS
    assert len({*first, *second}) == reporting.EVENTS + 5


def test_a_new_place_at_the_front_is_told_again() -> None:
    source, reporter = waiting("a", "b", "c"), reporting.Reporter()
    for now in (NOW, NOW + 1, NOW + 31):
        found = reports(reporter, source, now=now)
    assert found == [("a", 1, 1), ("b", 2, 1), ("c", 3, 1)]
    source.pod_gone(PodUID("uid-a"))
    assert reports(reporter, source, now=NOW + 60) == []
    assert reports(reporter, source, now=NOW + 61) == [("b", 1, 2), ("c", 2, 2)]


def test_a_new_place_far_back_is_told_when_it_is_half_of_the_old_one() -> None:
    source, reporter = waiting(*(f"a{number:02}" for number in range(40))), reporting.Reporter()
    for now in (NOW, NOW + 1, NOW + 31, NOW + 61):
        reports(reporter, source, now=now)
    for number in range(19):
        source.pod_gone(PodUID(f"uid-a{number:02}"))
    assert "a39" not in [name for name, _, _ in reports(reporter, source, now=NOW + 100)]
    source.pod_gone(PodUID("uid-a19"))
    assert ("a39", 20, 2) in reports(reporter, source, now=NOW + 130)


def test_what_was_told_before_a_restart_is_not_told_again() -> None:
    source = waiting()
    told = builders.pod("a", packed="InsufficientShare")
    told["status"]["conditions"][0]["message"] = places.told("1 GPU lacks 10 hundredths", 1)
    builders.put(source, told)
    reporter = reporting.Reporter()
    assert reports(reporter, source, now=NOW) == []
    assert reports(reporter, source, now=NOW + 31) == []


def test_another_reason_is_told_after_the_interval_at_the_earliest() -> None:
    source, reporter = waiting("a"), reporting.Reporter()
    due(reporter, source, now=NOW)
    due(reporter, source, now=NOW + 1)
    source.policy_changed(builders.in_force(generation=2, paused=True))
    assert due(reporter, source, now=NOW + 30) == []
    assert due(reporter, source, now=NOW + 31) == [("a", PackedReason.WAITING_FOR_TURN)]


def test_a_budget_that_keeps_pods_of_lower_priority_is_told_when_it_becomes_known() -> None:
    source, reporter = builders.cluster(gpus=1), reporting.Reporter()
    stays = {names.MINIMUM_RUN_SECONDS: "30"}
    builders.put(source, builders.bound("low", 100, "n0", "GPU-n0-0", packed="Placed", annotations=stays))
    builders.put(source, builders.pod("a", priority=5))
    due(reporter, source, now=NOW)
    assert due(reporter, source, now=NOW + 1) == [("a", PackedReason.INSUFFICIENT_SHARE)]
    budget = budgets.read({"metadata": {"namespace": "team", "name": "b"}, "spec": {"selector": {}}})
    queue(source).refused(source, source.pods[PodUID("uid-low")], budget, now=NOW + 2)
    later = NOW + 2 + reporting.INTERVAL_SECONDS
    assert due(reporter, source, now=later) == [("a", PackedReason.INSUFFICIENT_SHARE)]


def reworded(*names: str) -> tuple[ledger.Ledger, reporting.Reporter]:
    """Pods that were told why they wait; then a node comes that has another cause, and the reason is the same."""
    source, reporter = builders.cluster(gpus=2), reporting.Reporter()
    for gpu in ("0", "1"):
        builders.put(source, builders.bound(f"big-{gpu}", 100, "n0", f"GPU-n0-{gpu}", packed="Placed"))
    builders.put(source, *(builders.pod(name) for name in names))
    for now in (NOW, NOW + 1, NOW + 31):
        due(reporter, source, now=now)
    source.node(records.node_record(builders.node("n1", gpus=1, unschedulable=True)))
    source.lease(NodeName("n1"), NOW, now=NOW)
    source.gpunode(records.gpunode_record(builders.gpunode("n1", gpus=1)), now=NOW)
    return source, reporter


def test_another_cause_beside_the_same_reason_is_told_after_the_interval() -> None:
    source, reporter = reworded("a")
    assert due(reporter, source, now=NOW + 60) == []
    assert due(reporter, source, now=NOW + 61) == [("a", PackedReason.INSUFFICIENT_SHARE)]


def test_another_cause_is_told_far_back_in_the_queue_when_some_minutes_have_passed() -> None:
    source, reporter = reworded(*(f"a{number:02}" for number in range(reporting.FRONT + 1)))
    last = (f"a{reporting.FRONT}", PackedReason.INSUFFICIENT_SHARE)
    assert last not in due(reporter, source, now=NOW + 61)
    assert last in due(reporter, source, now=NOW + 31 + reporting.WORDS_SECONDS)


def test_among_thousands_another_cause_is_told_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report is up to three writes: those of seven thousand pods, each some minutes, kept the API server busy."""
    source, reporter = reworded(*(f"a{number:02}" for number in range(reporting.FRONT + 1)))
    monkeypatch.setattr(reporting, "POD_SECONDS", 50.0)
    last = (f"a{reporting.FRONT}", PackedReason.INSUFFICIENT_SHARE)
    waits = 50 * (reporting.FRONT + 1)
    assert last not in due(reporter, source, now=NOW + 31 + reporting.WORDS_SECONDS)
    assert last not in due(reporter, source, now=NOW + 25 + waits)
    assert last in due(reporter, source, now=NOW + 31 + waits)


def test_other_numbers_of_the_same_causes_are_not_told() -> None:
    source, reporter = waiting("a"), reporting.Reporter()
    for now in (NOW, NOW + 1, NOW + 31):
        due(reporter, source, now=now)
    builders.put(source, builders.bound("big", 90, "n0", "GPU-n0-0", packed="Placed"))
    assert due(reporter, source, now=NOW + 61) == []


def test_an_unreadable_request_is_told_at_once() -> None:
    source, reporter = builders.cluster(), reporting.Reporter()
    builders.put(source, builders.pod("a", annotations={"cotenant.dev/prediction": "{"}))
    assert due(reporter, source, now=NOW) == [("a", PackedReason.INVALID_REQUEST)]


def test_while_a_queue_is_worked_off_only_who_asks_wrongly_is_told() -> None:
    source, reporter = waiting("a"), reporting.Reporter()
    builders.put(source, builders.pod("b", annotations={"cotenant.dev/prediction": "{"}))
    run(source, now=NOW)
    told = []
    for now, calm in ((NOW, False), (NOW + 9, False), (NOW + 10, True), (NOW + 11, True)):
        found = reporter.waiting(source, teller(source), now=now, calm=calm)
        told.append([report.record.name for report in found if report is not None])
    assert told == [["b"], [], [], ["a"]]


def test_a_condition_that_could_not_be_written_is_written_soon_again() -> None:
    source, reporter = builders.cluster(), reporting.Reporter()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    (report,) = reporter.placed(source, now=NOW)
    reporter.failed(report, now=NOW)
    assert due(reporter, source, now=NOW + 5) == [("a", PackedReason.PLACED)]


def test_what_was_written_is_forgotten_with_the_pods() -> None:
    source, reporter = builders.cluster(gpus=8), reporting.Reporter()
    for number in range(300):
        builders.put(source, builders.bound(f"a{number}", 1, "n0", "GPU-n0-0"))
        due(reporter, source, now=NOW)
        source.pod_gone(source.pods[next(iter(source.pods))].uid)
    assert len(reporter._told) <= 101


def test_so_many_pods_are_told_at_a_time_and_the_others_next() -> None:
    source, reporter = waiting(), reporting.Reporter()
    names = [f"a{number}" for number in range(reporting.TALLIES + 3)]
    builders.put(source, *(builders.pod(name, 10 + number) for number, name in enumerate(names)))
    assert due(reporter, source, now=NOW) == []
    first = [name for name, _ in due(reporter, source, now=NOW + 1)]
    second = [name for name, _ in due(reporter, source, now=NOW + 1.5)]
    assert len(first) == reporting.TALLIES
    assert sorted(first + second) == sorted(names)


def test_placed_pods_that_cannot_be_told_come_after_those_that_were_not_tried() -> None:
    source, reporter = builders.cluster(nodes=2), reporting.Reporter()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    (failed,) = reporter.placed(source, now=NOW)
    reporter.failed(failed, now=NOW)
    builders.put(source, builders.bound("b", 40, "n1", "GPU-n1-0"))
    told = reporter.placed(source, now=NOW + reporting.RECHECK_SECONDS)
    assert [report.record.name for report in told] == ["b", "a"]


def test_looking_for_those_to_be_told_ends_when_it_is_late_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "ENTRIES_PER_STEP", 2)
    source, reporter = waiting(*"abcdefg"), reporting.Reporter()
    due(reporter, source, now=NOW)
    found = list(reporter.waiting(source, teller(source), now=NOW + 1, late=lambda _: True))
    first = next(place for place, report in enumerate(found) if report is not None)
    assert first >= 3
    assert len({report.record.name for report in found if report is not None}) == 7
