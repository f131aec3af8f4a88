"""Gangs: all of their pods or none."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records, verbs
from cotenant_extender.packing import placing
from cotenant_extender.queue import seating
from extender import builders
from extender.builders import NOW
from extender.queueing import booked, end, full, held, lift, lifted, member, ordered, queue, run, told


def test_a_gang_waits_until_all_of_it_is_there() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a"), member("b"))
    assert told(source, "a") == (
        PackedReason.WAITING_FOR_GANG,
        "2 of the gang's 3 pods are here; 1st in the queue",
    )


def test_a_pod_may_leave_its_gang_and_come_back_while_it_waits() -> None:
    source = builders.cluster(nodes=0)
    alone = [builders.pod(name) for name in "abcdefgh"]
    joined = [builders.pod(name, annotations=builders.gang(f"of-{name}", 2)) for name in "abcdefgh"]
    for pods in (alone, joined, alone, joined):
        for pod in pods:
            builders.put(source, pod)
            run(source)
    assert [entry.members[0].name for entry in queue(source).line.entries] == ordered(source)


def test_a_gang_is_lifted_whole() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a"), member("b"), member("c"))
    assert lifted(source) == ["a", "b", "c"]


def test_a_gang_that_fits_in_part_is_not_lifted_and_leaves_its_gpus_to_others() -> None:
    source = builders.cluster(gpus=3)
    builders.put(source, builders.bound("b", 50, "n0", "GPU-n0-0"))
    builders.put(source, member("a"), member("b1"), member("c"), builders.pod("other", 30))
    assert lifted(source) == ["other"]
    assert told(source, "a") == (
        PackedReason.INSUFFICIENT_SHARE,
        "2 of the gang's 3 waiting pods fit; for the next 3 GPUs lack at least 20 hundredths; 1st in the queue",
    )


def test_a_gang_that_is_larger_than_the_cluster_says_so_and_blocks_nobody() -> None:
    source = builders.cluster(gpus=2, queue={"maxWaitSeconds": 60})
    gang = [member(name, created=NOW - 99) for name in "abc"]
    builders.put(source, *gang, builders.pod("other", 90))
    assert lifted(source) == ["other"]
    assert held(source) == []
    assert told(source, "a")[1] == (
        "all GPUs together, if empty, have room for 2 of the gang's 3 waiting pods; 1st in the queue"
    )


def test_a_gang_is_lifted_although_a_pod_that_avoids_a_node_would_take_the_only_place_of_another() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    source.node(records.node_record(builders.node("n1", gpus=1, labels={"zone": "b"})))
    gang = [member("a", 80, size=2), member("b", 80, size=2, nodeSelector={"zone": "b"})]
    builders.put(source, *gang)
    assert lifted(source) == ["a", "b"]
    for name, node in (("a", "n0"), ("b", "n1")):
        standing = source.earmarks.get(PodUID(f"uid-{name}"))
        assert standing is not None
        assert standing.placed.node == node
        source.end_earmark(PodUID(f"uid-{name}"), now=NOW)
    assert lifted(source, now=NOW + 60) == ["a", "b"]


def test_of_two_gangs_that_fit_alone_but_not_together_one_goes_and_the_other_waits_whole() -> None:
    source = builders.cluster(gpus=2)
    first = [member(name, 60, size=2, created=NOW - 5) for name in ("a1", "a2")]
    second = [builders.pod(name, 60, annotations=builders.gang("h", 2)) for name in ("b1", "b2")]
    builders.put(source, *first, *second)
    assert lifted(source) == ["a1", "a2"]
    assert lifted(source) == []
    for name, slot in {"a1": 0, "a2": 1}.items():
        uuid = f"GPU-n0-{slot}"
        builders.put(source, builders.bound(name, 60, "n0", uuid, version=2, annotations=builders.gang("g", 2)))
        end(source, name)
    assert lifted(source) == ["b1", "b2"]


def test_a_gang_without_gates_is_earmarked_whole_or_not_at_all() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, builders.bound("b", 50, "n0", "GPU-n0-0"))
    builders.put(source, *(member(name, size=2, gates=(), created=NOW - 60) for name in ("a1", "a2")))
    assert lifted(source) == []
    end(source, "b")
    assert lifted(source) == ["a1", "a2"]


def test_a_member_that_comes_again_is_lifted_beside_those_that_are_bound() -> None:
    source = builders.cluster()
    for name, index in {"a": 0, "b": 1}.items():
        uuid = f"GPU-n0-{index}"
        builders.put(source, builders.bound(name, 30, "n0", uuid, annotations=builders.gang("g", 3)))
    builders.put(source, member("c", 30))
    assert lifted(source) == ["c"]


def test_a_gang_of_another_namespace_is_another_gang() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a", size=2), member("b", size=2, namespace="others"))
    assert lifted(source) == []


def test_a_member_with_a_gate_of_somebody_else_is_not_there_yet() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a", size=2), member("b", size=2, gates=("cotenant.dev/packing", "other")))
    assert told(source, "a")[0] is PackedReason.WAITING_FOR_GANG


def test_a_gang_counts_with_the_sum_of_its_shares() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a", 30), member("b", 30), member("c", 30), builders.pod("single", 80))
    assert ordered(source) == ["a", "b", "c", "single"]


def test_a_gang_that_never_had_our_gate_is_not_left_to_kube_scheduler() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, *(member(name, size=2, gates=()) for name in ("a", "b")))
    assert lifted(source) == ["a", "b"]


def test_a_member_that_kube_scheduler_refused_waits_beside_those_that_are_promised() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, *(member(name, size=2) for name in ("a", "b")))
    assert lifted(source) == ["a", "b"]
    lift(source, "a", annotations=builders.gang("g", 2))
    lift(source, "b", annotations=builders.gang("g", 2), unschedulable="no port is free")
    assert lifted(source) == []
    assert lifted(source, now=NOW + 2.1) == ["b"]


def test_a_pod_that_names_anothers_gang_with_another_size_changes_nothing_for_that_gang() -> None:
    source = builders.cluster()
    builders.put(source, member("forged", 10, size=200), member("a", 10, size=2), member("b", 10, size=2))
    assert lifted(source) == ["a", "b"]
    assert told(source, "forged")[1] == "1 of the gang's 200 pods are here; 1st in the queue"


def test_pods_of_two_controllers_are_two_gangs_whatever_they_are_called() -> None:
    source = builders.cluster()
    builders.put(source, member("a", 10, size=2, controller="job-1"), member("x", 10, size=2, controller="job-2"))
    builders.put(source, member("y", 10, size=2))
    assert lifted(source) == []
    builders.put(source, member("b", 10, size=2, controller="job-1"))
    assert lifted(source) == ["a", "b"]


def test_a_pod_that_names_anothers_uid_under_a_kind_or_name_of_its_own_is_of_another_gang() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "colleagues", "uid": "uid-job", "controller": True}
    source = builders.cluster()
    for name, owner in (("a", job), ("x", {**job, "kind": "Mine"}), ("y", {**job, "name": "mine"}), ("b", job)):
        raw = member(name, 10, size=2)
        raw["metadata"]["ownerReferences"] = [owner]
        builders.put(source, raw)
    assert lifted(source) == ["a", "b"]


def test_a_pod_of_higher_priority_lends_its_place_to_no_pod_of_another() -> None:
    source = full(nodes=1, shares=(100, 100))
    builders.put(source, member("rider", 100, size=2), member("ticket", 1, size=2, priority=1000))
    builders.put(source, builders.pod("honest", 100, priority=500))
    assert ordered(source) == ["ticket", "honest", "rider"]
    end(source, "b00")
    assert lifted(source) == ["honest"]


@pytest.mark.parametrize("name", ["rider", "ticket"])
def test_pods_that_miss_mates_because_of_their_priority_are_told_the_remedy(name: str) -> None:
    source = builders.cluster()
    builders.put(source, member("rider", 10, size=2), member("ticket", 1, size=2, priority=1000))
    reason, message = told(source, name)
    assert reason is PackedReason.INVALID_REQUEST
    assert message.startswith(
        "1 of the gang's 2 pods are here, and 1 of another priority: the pods of a gang have one priority; create all "
        "with the same spec.priorityClassName"
    )
    builders.put(source, member("third", 10, size=2))
    assert lifted(source) == ["rider", "third"]


def test_nobody_is_told_of_a_pod_of_another_priority_that_is_gone() -> None:
    source = builders.cluster()
    builders.put(source, member("a", size=2), member("b", size=2, priority=1000))
    source.pod_gone(PodUID("uid-b"))
    assert told(source, "a") == (PackedReason.WAITING_FOR_GANG, "1 of the gang's 2 pods are here; 1st in the queue")


def test_a_gang_has_waited_as_long_as_its_youngest_pod() -> None:
    source = full(nodes=1, shares=(60, 60))
    placeholder = member("placeholder", 1, created=NOW - 7200)
    builders.put(source, placeholder, builders.pod("honest", 100, created=NOW - 100))
    assert lifted(source) == []
    assert held(source) == ["GPU-n0-0"]
    builders.put(source, member("x1", 100), member("x2", 50))
    assert ordered(source) == ["honest", "placeholder", "x1", "x2"]
    assert lifted(source) == []
    assert [sorted(hold.holders) for hold in source.holds] == [["uid-honest"]]


def test_a_pod_that_came_long_before_its_mates_uses_nothing_that_is_held_for_a_job_older_than_they() -> None:
    source = full(nodes=1, shares=(60, 99))
    builders.put(source, builders.pod("honest", 100, created=NOW - 100))
    assert lifted(source) == []
    assert held(source) == ["GPU-n0-0"]
    builders.put(source, member("placeholder", 40, size=2, created=NOW - 7200), member("late", 1, size=2))
    assert lifted(source) == []


def test_a_pod_of_a_gang_is_bound_to_nothing_that_is_held_for_an_older_job() -> None:
    source = full(nodes=2, shares=(60,))
    builders.put(source, builders.pod("honest", 100, created=NOW - 100))
    assert lifted(source) == []
    assert held(source) == ["GPU-n0-0"]
    builders.put(source, member("placeholder", 30, size=2, created=NOW - 7200), member("late", 1, size=2))
    assert lifted(source) == ["placeholder", "late"]
    offered = verbs.filter_nodes(source, source.pods[PodUID("uid-placeholder")], [NodeName("n0")])
    assert offered.chosen == ()


def test_pods_that_replace_those_of_a_running_gang_have_waited_as_long_as_the_youngest_of_them() -> None:
    source = full(nodes=1, shares=(60, 60))
    builders.put(source, builders.bound("a", 10, "n0", "GPU-n0-0", annotations=builders.gang("g", 3)))
    builders.put(source, member("b", 50, created=NOW - 99), builders.pod("honest", 100, created=NOW - 80))
    assert ordered(source) == ["b", "honest"]
    builders.put(source, member("c", 50, created=NOW - 70))
    assert ordered(source) == ["honest", "b", "c"]


def test_a_gang_that_says_so_spans_controllers() -> None:
    source = builders.cluster()
    notes = builders.gang("g", 2, across=True)
    builders.put(source, *(builders.pod(name, 10, annotations=notes, controller=f"job-{name}") for name in "ab"))
    assert lifted(source) == ["a", "b"]


def test_a_gang_above_the_policys_size_says_so_until_the_policy_allows_it() -> None:
    source = builders.cluster(nodes=2, queue={"maxGangSize": 2})
    builders.put(source, *(member(name, 10) for name in "abc"))
    reason, message = told(source, "a")
    assert reason is PackedReason.INVALID_REQUEST
    assert message.startswith(
        "metadata.annotations[cotenant.dev/gang]: size 3 is above queue.maxGangSize of the PackingPolicy; set at most 2"
    )
    assert lifted(source) == []
    source.policy_changed(builders.in_force(queue={"maxGangSize": 3}))
    assert lifted(source) == ["a", "b", "c"]


def test_a_gang_of_which_one_pod_gets_no_place_in_the_end_is_promised_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("a"), member("b"), member("c"))
    chosen, places = placing.chosen, [True, False]

    def found(*arguments: Any) -> placing.Choice | None:
        return chosen(*arguments) if places.pop(0) else None

    monkeypatch.setattr(placing, "chosen", found)
    found_seats = [seating.Seat(0, (0,)), seating.Seat(1, (0,)), seating.Seat(1, (0,))]
    monkeypatch.setattr(seating, "seats", lambda *_, **__: found_seats)
    assert lifted(source) == []
    assert booked(source) == {}


@pytest.mark.parametrize(("gpus", "placed"), [(3, ["a", "b", "c"]), (2, [])])
def test_where_a_gang_fits_is_worked_out_once(monkeypatch: pytest.MonkeyPatch, gpus: int, placed: list[str]) -> None:
    source = builders.cluster(gpus=gpus)
    builders.put(source, member("a", 100), member("b", 100), member("c", 100))
    seats, asked = seating.seats, list[int]()

    def counted(*arguments: Any, **named: Any) -> list[seating.Seat] | None:
        asked.append(1)
        return seats(*arguments, **named)

    monkeypatch.setattr(seating, "seats", counted)
    assert lifted(source) == placed
    assert len(asked) == 1


SURPLUS = "the gang has its 2 pods without this one: give the pods of another job a gang of another name"


@pytest.mark.parametrize("most", [2, 256])
def test_a_pod_too_many_neither_blocks_the_gang_nor_goes_with_it(most: int) -> None:
    source = builders.cluster(nodes=2, queue={"maxGangSize": most})
    builders.put(source, member("late", 10, size=2, created=NOW - 1))
    builders.put(source, *(member(name, 10, size=2, created=NOW - 9) for name in "ba"))
    assert lifted(source) == ["a", "b"]
    assert told(source, "late") == (PackedReason.WAITING_FOR_GANG, f"{SURPLUS}; 1st in the queue")


def test_a_pod_too_many_takes_the_place_of_one_that_is_gone() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, *(member(name, 10, size=2) for name in "abc"))
    state = queue(source)
    state.plan(source, builders.in_force(), now=NOW)
    source.end_all_earmarks()
    version = source.version
    source.pod_gone(PodUID("uid-a"))
    assert source.version > version
    assert lifted(source) == ["b", "c"]


def test_a_bound_pod_keeps_its_place_in_a_gang_whoever_is_older() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, member("old", 10, size=2, created=NOW - 9999))
    for name, index in {"a": 0, "b": 1}.items():
        builders.put(source, builders.bound(name, 30, "n0", f"GPU-n0-{index}", annotations=builders.gang("g", 2)))
    assert told(source, "old")[1].startswith(SURPLUS)
    assert lifted(source) == []


def test_a_job_that_needs_more_pods_than_its_gang_has_goes_on_when_the_first_have_succeeded() -> None:
    source = builders.cluster(nodes=2)
    for name, index in {"a": 0, "b": 1}.items():
        done = builders.bound(name, 30, "n0", f"GPU-n0-{index}", annotations=builders.gang("g", 2), phase="Succeeded")
        builders.put(source, done)
    builders.put(source, member("c", 30, size=2), member("d", 30, size=2))
    assert lifted(source) == ["c", "d"]


def test_a_pod_that_is_made_again_beside_one_that_has_succeeded_completes_the_gang() -> None:
    source = builders.cluster(nodes=2)
    done = builders.bound("a", 30, "n0", "GPU-n0-0", annotations=builders.gang("g", 2), phase="Succeeded")
    builders.put(source, done, member("b", 30, size=2))
    assert lifted(source) == ["b"]


def test_an_older_pod_with_a_gate_of_somebody_else_does_not_block_a_gang_that_has_its_pods() -> None:
    source = builders.cluster(nodes=2)
    gates = (names.PACKING_GATE, "others/gate")
    builders.put(source, member("old", 10, size=2, created=NOW - 99, gates=gates))
    builders.put(source, *(member(name, 10, size=2) for name in "ab"))
    assert lifted(source) == ["a", "b"]


def test_a_pod_that_replaces_one_that_is_being_deleted_counts_at_once() -> None:
    source = builders.cluster(nodes=2)
    for name, index in {"a": 0, "b": 1}.items():
        notes = builders.gang("g", 2)
        gone = builders.bound(name, 30, "n0", f"GPU-n0-{index}", annotations=notes, deleting=name == "b")
        builders.put(source, gone)
    builders.put(source, member("c", 30, size=2))
    assert lifted(source) == ["c"]


def test_a_pod_that_does_not_say_that_its_gang_spans_controllers_joins_none_that_does() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", 10, annotations=builders.gang("g", 2, across=True), controller="job-a"))
    builders.put(source, builders.pod("x", 10, annotations=builders.gang("g", 2)))
    assert lifted(source) == []
    assert told(source, "a") == (PackedReason.WAITING_FOR_GANG, "1 of the gang's 2 pods are here; 1st in the queue")
