"""When tenants are expected to end, by what is known of them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotenant_api import names
from cotenant_api.names import Namespace, PodUID
from cotenant_extender import records, tenures
from cotenant_extender.ledger import ledger, runs
from cotenant_extender.queue import ends, roster
from extender import builders
from extender.builders import NOW

OWNER = [{"kind": "Job", "controller": True}]
LIKE = tenures.Likeness(Namespace("team"), ("Job", 40))


def finished(name: str, seconds: float, **changes: Any) -> dict[str, Any]:
    """A pod of a Job that ran so long."""
    raw = builders.bound(name, 40, "n0", "GPU-n0-0", phase=changes.pop("phase", "Succeeded"), version=3)
    raw["metadata"]["ownerReferences"] = changes.pop("owners", OWNER)
    raw["status"]["startTime"] = builders.timestamp(NOW - 9000)
    state = {"terminated": {"finishedAt": builders.timestamp(NOW - 9000 + seconds)}}
    raw["status"]["containerStatuses"] = [{"state": state}]
    return raw


def knowing(*seconds: float) -> ledger.Ledger:
    """A cluster in which pods of a Job ran so long."""
    source = builders.cluster()
    builders.put(source, *(finished(f"old{number}", run) for number, run in enumerate(seconds)))
    return source


def expected(source: ledger.Ledger, raw: dict[str, Any], *, now: float = NOW) -> float:
    """In how many seconds a bound pod is expected to end."""
    builders.put(source, raw)
    held = roster.Roster()
    assert held.update(source, source.seen())
    return float(ends.expected(held, source.runs, now=now).min()) - now


def running(seconds: float | None, *, share: int = 40, owners: Any = None, **changes: Any) -> dict[str, Any]:
    """A bound pod that has run so long."""
    raw = builders.bound("it", share, "n0", "GPU-n0-1", **changes)
    raw["metadata"]["ownerReferences"] = OWNER if owners is None else owners
    if seconds is not None:
        raw["status"]["startTime"] = builders.timestamp(NOW - seconds)
    return raw


@pytest.mark.parametrize(
    ("ran", "rest"), [(0, 200), (50, 150), (199, 1), (200, 700), (899, 1), (900, 900), (2000, 2000), (None, 200)]
)
def test_a_pod_runs_as_long_as_half_of_its_like_then_as_the_longest_then_as_long_again(ran: float, rest: float) -> None:
    assert expected(knowing(100, 200, 900), running(ran)) == rest


def test_pods_of_another_share_or_owner_or_namespace_are_not_alike() -> None:
    for changes in ({"share": 50}, {"owners": [{"kind": "MPIJob", "controller": True}]}, {"namespace": "others"}):
        assert expected(knowing(100, 200, 900), running(50, **changes)) == 50 + 200


def test_pods_of_one_graph_are_alike_whatever_owns_them_and_whatever_they_ask_for() -> None:
    source, notes = builders.cluster(), {names.PREDICTION: builders.prediction(h200=(35.0, 30_000, 50))}
    for number in range(3):
        raw = finished(f"old{number}", 100, owners=[])
        raw["metadata"]["annotations"].update(notes)
        builders.put(source, raw)
    assert expected(source, running(20, share=70, owners=[], annotations=notes)) == 80


def test_of_whom_nothing_is_known_runs_as_long_again_and_as_half_of_all() -> None:
    assert expected(builders.cluster(), running(50)) == 50 + runs.UNKNOWN_SECONDS
    assert expected(knowing(100, 200, 900), running(50, owners=[])) == 50 + 200


@pytest.mark.parametrize(
    "changes",
    [
        {"restartPolicy": "Always"},
        {"owners": [{"kind": "StatefulSet", "controller": True}]},
    ],
)
def test_who_runs_until_somebody_deletes_it_never_ends_but_at_its_deadline(changes: dict[str, Any]) -> None:
    assert expected(builders.cluster(), running(50, **changes)) == math.inf
    assert expected(builders.cluster(), running(50, activeDeadlineSeconds=80, **changes)) == 30


def test_an_owner_that_does_not_control_it_says_nothing() -> None:
    assert expected(builders.cluster(), running(50, owners=[{"kind": "StatefulSet"}])) < math.inf


def test_a_deadline_is_an_upper_bound_and_one_that_has_passed_is_now() -> None:
    assert expected(knowing(100, 200, 900), running(50, activeDeadlineSeconds=120)) == 70
    assert expected(knowing(100, 200, 900), running(50, activeDeadlineSeconds=7000)) == 150
    assert expected(knowing(100, 200, 900), running(50, activeDeadlineSeconds=20)) == 0


def test_who_is_being_deleted_ends_when_its_grace_does_and_who_does_not_go_is_expected_later_and_later() -> None:
    raw = running(5000)
    raw["metadata"]["deletionTimestamp"] = builders.timestamp(NOW + 25)
    assert expected(builders.cluster(), raw) == 25
    assert expected(builders.cluster(), raw, now=NOW + 25 + 60) == 60 + ends.LEAVING_SECONDS


def test_a_waiting_pod_ends_at_the_latest_at_its_deadline_or_after_the_longest_run_of_its_like() -> None:
    source = knowing(100, 200, 900)

    def latest(**changes: Any) -> float:
        raw = builders.pod("new", 40, **changes)
        raw["metadata"]["ownerReferences"] = OWNER
        return ends.at_the_latest(records.pod_record(raw), source.runs, now=NOW) - NOW

    assert latest() == 900
    assert latest(activeDeadlineSeconds=300) == 300
    assert latest(activeDeadlineSeconds=3000) == 900
    assert latest(namespace="others") == math.inf
    assert latest(namespace="others", activeDeadlineSeconds=3000) == 3000


def test_only_who_succeeded_teaches_and_each_once() -> None:
    source = knowing(100, 200)
    builders.put(source, finished("failed", 500, phase="Failed"))
    again = finished("old0", 100)
    again["metadata"]["resourceVersion"] = "9"
    builders.put(source, again)
    source.pod_gone(PodUID("uid-old0"), last=records.pod_record(again))
    assert source.runs.of(LIKE) is None
    builders.put(source, finished("old2", 300))
    assert source.runs.of(LIKE) == runs.Known(typical=200, longest=300)


def test_who_is_gone_before_its_end_was_seen_teaches_too() -> None:
    source = knowing(100, 200)
    builders.put(source, running(9000))
    source.pod_gone(PodUID("uid-it"), last=records.pod_record(finished("it", 400)))
    assert source.runs.of(LIKE) == runs.Known(typical=200, longest=400)


def test_the_latest_run_times_count_and_the_oldest_kinds_are_forgotten() -> None:
    source = knowing(*[5000] * 3, *[100] * runs.KEPT)
    assert source.runs.of(LIKE) == runs.Known(typical=100, longest=100)
    epoch = source.runs.epoch
    for number in range(runs.KINDS):
        raw = finished(f"other-{number}", 100)
        raw["metadata"]["namespace"] = f"team-{number}"
        source.runs.learn(records.pod_record(raw), None)
    assert source.runs.of(LIKE) is None
    assert source.runs.epoch == epoch + 1


def test_kinds_of_which_nothing_is_learned_take_no_number_from_others() -> None:
    source = knowing(*[100] * 3)
    epoch = source.runs.epoch
    kinds = [tenures.Likeness(Namespace(f"team-{number}"), "graph") for number in range(2 * runs.KINDS)]
    numbers = {source.runs.number(kind) for kind in kinds}
    assert runs.NO_KIND in numbers
    assert len(numbers) <= runs.KINDS // 2 + 1
    assert source.runs.epoch == epoch
    assert source.runs.of(LIKE) is not None


def test_containers_that_still_run_or_do_not_say_when_they_ended_tell_no_end() -> None:
    raw = finished("it", 100)
    raw["status"]["containerStatuses"].append({"state": {"running": {}}})
    assert records.pod_record(raw).tenure.ended is None
    assert records.pod_record(builders.pod("no-status")).tenure == tenures.UNKNOWN


def test_kinds_of_one_namespace_make_room_for_each_other_alone() -> None:
    source = knowing(*[100] * 3)
    for number in range(2 * runs.KINDS_OF_NAMESPACE):
        for owner in range(runs.FEWEST):
            raw = finished(f"x{number}-{owner}", 100)
            raw["metadata"]["namespace"] = "many"
            raw["metadata"]["ownerReferences"] = [{"kind": f"Kind{number}", "controller": True}]
            builders.put(source, raw)
    kinds = [tenures.Likeness(Namespace("many"), (f"Kind{n}", 40)) for n in range(2 * runs.KINDS_OF_NAMESPACE)]
    known = [number for number, kind in enumerate(kinds) if source.runs.of(kind) is not None]
    assert known == list(range(runs.KINDS_OF_NAMESPACE, 2 * runs.KINDS_OF_NAMESPACE))
    assert source.runs.of(LIKE) is not None


def test_as_many_kinds_as_there_are_numbers_have_one_each_and_of_no_kind_nothing_is_known() -> None:
    found, table = runs.Runs(), []
    last = records.pod_record(finished("last", 500))
    for number in range(runs.KINDS):
        likeness = replace(last, namespace=Namespace(f"team-{number}"))
        for _ in range(runs.FEWEST if number >= runs.KINDS - 2 else 1):
            found.learn(likeness, None)
        table.append(found.number(likeness.likeness))
    assert sorted(table) == list(range(runs.KINDS))
    assert found.of(likeness.likeness) == runs.Known(typical=500, longest=500)
    assert found.of(None) is None
    assert np.isnan(found.tables(np.array([runs.NO_KIND]))).all()


def test_a_namespace_of_many_kinds_gets_no_number_for_another_that_only_runs() -> None:
    found = runs.Runs()
    kinds = [tenures.Likeness(Namespace("many"), f"graph-{number}") for number in range(runs.KINDS_OF_NAMESPACE + 1)]
    assert sorted(map(found.number, kinds[:-1])) == list(range(runs.KINDS_OF_NAMESPACE))
    assert found.number(kinds[-1]) == runs.NO_KIND
    assert found.number(LIKE) == runs.KINDS_OF_NAMESPACE


def test_a_pod_that_kubelet_does_not_take_up_is_expected_to_stay_as_long_again() -> None:
    raw = running(None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": builders.timestamp(NOW - 5000)}
    raw["status"]["conditions"] = [scheduled]
    assert expected(builders.cluster(), raw) == 5000 + 600


def test_what_is_reserved_for_a_pod_that_cannot_be_marked_may_be_so_for_ever() -> None:
    source = knowing(100, 200, 900)
    raw, uid = builders.pod("it", gates=()), PodUID("uid-it")
    raw["metadata"]["ownerReferences"] = OWNER
    builders.put(source, raw)
    source.reserve(uid, builders.place(source, source.pods[uid]))
    assert expected(source, raw) < 1e9
    source.earmarks.unmarked.add(uid)
    assert expected(source, raw) > 1e9
