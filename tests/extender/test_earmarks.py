"""Earmarks and every way they end."""

import itertools
from collections.abc import Callable

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records, verbs
from cotenant_extender.ledger import earmarks, ledger, verdicts
from cotenant_extender.queue import earmarking, order
from extender import builders
from extender.builders import NOW
from extender.queueing import booked, end, evicted, lift, lifted, member, run, runs, told


def test_an_earmark_ends_when_its_gpu_closes_and_the_pod_is_earmarked_elsewhere() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, builders.pod("a"))
    run(source)
    lift(source, "a")
    sick = builders.gpunode("n0")
    sick["status"]["gpus"][0]["health"] = "Unhealthy"
    source.gpunode(records.gpunode_record(sick), now=NOW)
    again = run(source).lifts
    assert [item.record.gates for item in again] == [()]
    assert [item.earmark and item.earmark.attempt for item in again] == [2]
    assert booked(source) == {"GPU-n0-1": 40}


def test_an_earmark_ends_when_its_node_is_cordoned() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.pod("a"))
    run(source)
    lift(source, "a")
    source.node(records.node_record(builders.node("n0", unschedulable=True)))
    run(source)
    assert booked(source) == {"GPU-n1-0": 40}


def _closes(source: ledger.Ledger) -> None:
    sick = builders.gpunode("n0")
    sick["status"]["gpus"][0]["health"] = "Unhealthy"
    source.gpunode(records.gpunode_record(sick), now=NOW)


def _is_cordoned(source: ledger.Ledger) -> None:
    source.node(records.node_record(builders.node("n0", unschedulable=True)))


def _has_another_gpu(source: ledger.Ledger) -> None:
    other = builders.gpunode("n0")
    other["status"]["gpus"][0]["uuid"] = "GPU-n0-other"
    source.gpunode(records.gpunode_record(other), now=NOW)


@pytest.mark.parametrize(
    "happens", [_closes, _is_cordoned, _has_another_gpu, lambda source: source.gpunode_gone(NodeName("n0"))]
)
def test_an_earmark_ends_at_the_next_look_after_its_gpu_closed_or_went_and_others_stay(
    happens: Callable[[ledger.Ledger], None],
) -> None:
    source = builders.cluster(nodes=2, gpus=1)
    builders.put(source, builders.pod("a", 100), builders.pod("b", 100))
    run(source)
    lost = earmarking.Lost()
    lost.end(source)
    lost.end(source)
    assert [earmark.placed.node for _, earmark in source.earmarks.items()] == ["n0", "n1"]
    happens(source)
    lost.end(source)
    assert [earmark.placed.node for _, earmark in source.earmarks.items()] == ["n1"]


def test_after_kube_schedulers_refusal_the_pod_keeps_its_place_waits_and_then_tries_another_node() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.pod("a"))
    run(source)
    lift(source, "a", unschedulable="no port is free")
    assert told(source, "a") == (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "kube-scheduler found no node: no port is free; 1st in the queue",
    )
    assert lifted(source, now=NOW + 2.1) == ["a"]
    assert booked(source) == {"GPU-n1-0": 40}


def test_after_a_refused_binding_the_pod_waits_then_tries_another_node_and_no_node_counts_as_refused() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", 80), builders.pod("b", 80, created=NOW + 1))
    assert lifted(source) == ["a", "b"]
    lift(source, "a", errored="binding rejected: 403")
    assert told(source, "a") == (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "kube-scheduler could not place it: binding rejected: 403; 1st in the queue",
    )
    assert source.hosts.tries.silent(most=99) == []
    builders.put(source, builders.pod("c", 80, created=NOW + 1))
    assert lifted(source, now=NOW + 1) == ["c"]


def test_victims_are_found_on_the_only_node_although_a_binding_failed_there() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.pod("a", 80, priority=5))
    assert lifted(source) == ["a"]
    lift(source, "a", priority=5, errored="binding rejected: 403")
    runs(source, "low", 60)
    assert evicted(source, now=NOW + 10) == ["low"]


def test_a_pod_that_kube_scheduler_leaves_alone_gives_its_gpu_to_others_and_gets_one_when_it_is_tried() -> None:
    source = builders.cluster(gpus=1)
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", 80), builders.pod("b", 80))
    assert lifted(source) == ["a"]
    lift(source, "a")
    assert lifted(source, now=NOW + earmarks.UNTRIED_SECONDS - 1) == []
    assert lifted(source, now=NOW + earmarks.UNTRIED_SECONDS) == ["b"]
    assert told(source, "a")[1].startswith("kube-scheduler did not try the pod when it was promised a GPU")
    builders.put(source, builders.bound("b", 80, "n0", "GPU-n0-0", version=3))
    end(source, "b")
    assert lifted(source, now=NOW + 5000) == []
    verdicts.asked(source, PodUID("uid-a"), [NodeName("n0")], left=False, now=NOW + 5001)
    assert lifted(source, now=NOW + 5002) == ["a"]


def test_the_time_that_kube_scheduler_has_to_try_a_pod_begins_when_its_gate_was_lifted() -> None:
    source = builders.cluster(gpus=1)
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", 80), builders.pod("b", 80))
    assert lifted(source) == ["a"]
    late = NOW + earmarks.UNTRIED_SECONDS - 10
    lift(source, "a", now=late)
    assert lifted(source, now=late + earmarks.UNTRIED_SECONDS - 1) == []
    assert lifted(source, now=late + earmarks.UNTRIED_SECONDS) == ["b"]


def test_a_pod_whose_gate_is_lifted_late_is_not_said_to_be_left_alone_before() -> None:
    source = builders.cluster(gpus=1)
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", 80))
    assert lifted(source) == ["a"]
    # Our own condition was written meanwhile.
    builders.put(source, builders.pod("a", 80, version=2))
    run(source, now=NOW + 2 * earmarks.UNTRIED_SECONDS)
    source.end_earmark(PodUID("uid-a"), now=NOW + 2 * earmarks.UNTRIED_SECONDS)
    reason, message = told(source, "a", now=NOW + 2 * earmarks.UNTRIED_SECONDS)
    assert reason is PackedReason.WAITING_FOR_TURN
    assert message.startswith("the API server did not carry out the write that promises the pod a GPU")
    assert lifted(source, now=NOW + 2 * earmarks.UNTRIED_SECONDS + earmarks.BACKOFF_SECONDS) == ["a"]


def test_a_pod_without_gate_whose_promise_is_renewed_late_is_not_said_to_be_left_alone_before() -> None:
    source = builders.cluster(gpus=1)
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", 80, gates=()))
    made = NOW + order.LOOSE_SECONDS + 1
    assert lifted(source, now=made) == ["a"]
    run(source, now=made + earmarks.UNTRIED_SECONDS)
    assert booked(source) == {"GPU-n0-0": 80}


def test_a_pod_about_which_filter_was_asked_keeps_its_gpu_however_long_its_binding_takes() -> None:
    source = builders.cluster(gpus=1)
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", 80), builders.pod("b", 80))
    assert lifted(source) == ["a"]
    lift(source, "a")
    verdicts.asked(source, PodUID("uid-a"), [NodeName("n0")], left=True, now=NOW + 1)
    assert lifted(source, now=NOW + 10 * earmarks.UNTRIED_SECONDS) == []


def test_another_report_also_says_that_a_pod_was_tried() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.pod("a", 80))
    assert lifted(source) == ["a"]
    lift(source, "a")
    assert lifted(source, now=NOW + earmarks.UNTRIED_SECONDS) == []
    builders.put(source, builders.pod("a", 80, gates=(), version=3, unschedulable="0/1 nodes are available: no port"))
    assert lifted(source, now=NOW + earmarks.UNTRIED_SECONDS + 1) == ["a"]


def test_a_report_that_filter_had_no_earmark_ends_none_and_refuses_no_node() -> None:
    source = builders.cluster(gpus=1)
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", gates=(), unschedulable="0/1 nodes are available: 1 GPU lacks share"))
    assert lifted(source) == ["a"]
    early = f"0/1 nodes are available: {': '.join(verbs.NOT_PROMISED)}"
    lift(source, "a", unschedulable=early)
    run(source, now=NOW + 1)
    assert booked(source) == {"GPU-n0-0": 40}
    assert source.hosts.tries.silent(most=99) == []


def test_a_report_that_filter_had_no_earmark_for_a_gang_ends_none() -> None:
    source = builders.cluster(gpus=2)
    for name in "ab":
        builders.put(source, member(name, size=2, gates=(), unschedulable="0/1 nodes are available: no port"))
    found = verbs.filter_nodes(source, source.pods[PodUID("uid-a")], [NodeName("n0")])
    assert lifted(source) == ["a", "b"]
    for name in "ab":
        report = f"0/1 nodes are available: 1 {found.failed[NodeName('n0')]}."
        lift(source, name, annotations=builders.gang("g", 2), unschedulable=report)
    run(source, now=NOW + 1)
    assert sorted(booked(source)) == ["GPU-n0-0", "GPU-n0-1"]


def test_a_kube_scheduler_that_is_later_than_a_promise_lasts_tries_a_pod_with_one_in_the_end() -> None:
    source, uid, promised, version = builders.cluster(gpus=1), PodUID("uid-a"), NOW, 1
    source.hosts.tries.start()
    builders.put(source, builders.pod("a", 80))
    for now in itertools.count(NOW, 10.0):
        assert now < NOW + 3 * 3600, "at 300, 600 and 1200 s a promise has ended"
        if run(source, now=now).lifts:
            promised, version = now, version + 1
            lift(source, "a", now=now, version=version)
        if now >= promised + 2.5 * earmarks.UNTRIED_SECONDS:
            if source.earmarks.get(uid) is not None:
                break
            verdicts.asked(source, uid, [NodeName("n0")], left=False, now=now)


def test_a_pod_without_gate_is_left_to_kube_scheduler_at_first() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", gates=()))
    assert lifted(source) == []
    assert lifted(source, now=NOW + order.LOOSE_SECONDS + 1) == ["a"]


def test_an_earmark_ends_when_its_pod_is_being_bound_elsewhere() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    builders.put(source, builders.pod("a", 80))
    (item,) = run(source).lifts
    assert item.earmark is not None
    lift(source, "a")
    elsewhere = item.earmark.placed.model_copy(update={"node": "n1"})
    source.reserve(item.record.uid, elsewhere)
    builders.put(source, builders.pod("b", 80))
    assert lifted(source) == ["b"]
    source.release(item.record.uid)
    assert booked(source) == {"GPU-n0-0": 80}


def test_a_pod_that_is_gone_leaves_neither_earmark_nor_setback() -> None:
    source = builders.cluster(nodes=2)
    builders.put(source, builders.pod("a"), builders.pod("b"))
    run(source)
    lift(source, "b", unschedulable="no port is free")
    for name in "ab":
        source.pod_gone(PodUID(f"uid-{name}"))
    assert (len(source.earmarks), source.earmarks.setback(PodUID("uid-b"))) == (0, None)


def test_of_what_kube_scheduler_says_256_characters_are_told() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a"))
    run(source)
    lift(source, "a", unschedulable="x" * 300)
    assert told(source, "a")[1] == f"kube-scheduler found no node: {'x' * 256}; 1st in the queue"


def test_a_pod_that_kube_scheduler_has_failed_for_days_waits_no_longer_than_others() -> None:
    """After 1,024 failures, three days and a half, the delay was larger than any float, and an error."""
    source, uid = builders.cluster(gpus=1), PodUID("uid-a")
    builders.put(source, builders.pod("a", 80))
    assert lifted(source) == ["a"]
    found = source.earmarks.get(uid)
    assert found is not None
    for _ in range(1100):
        source.earmarks.put(source.pods[uid], found.placed, now=NOW)
        source.earmarks.fail(uid, now=NOW)
    setback = source.earmarks.setback(uid)
    assert setback is not None
    assert setback.until == NOW + earmarks.BACKOFF_LIMIT_SECONDS


def test_a_pod_that_could_not_be_marked_may_be_bound_once_it_bears_a_promise_of_this_term() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a"))
    source.earmarks.leader = "this term"
    source.earmarks.unmarked.add(PodUID("uid-a"))
    run(source)
    lift(source, "a")
    assert not source.earmarks.unmarked


def test_a_pod_that_could_not_be_marked_and_is_bound_all_the_same_is_forgotten() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a"))
    source.earmarks.unmarked.add(PodUID("uid-a"))
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=2))
    assert not source.earmarks.unmarked


PREDICTED = {names.PREDICTION: builders.prediction(h200=(45.0, 9000, 50))}


def test_a_promise_that_counts_for_more_under_another_policy_is_taken_back_before_anybody_is_evicted() -> None:
    source = builders.cluster(gpus=2, maxUtilizationPercent=150)
    runs(source, "runs", 90, "GPU-n0-1")
    builders.put(source, builders.pod("promised", 30, annotations=PREDICTED))
    run(source)
    source.policy_changed(builders.in_force(maxUtilizationPercent=50))
    builders.put(source, builders.pod("high", 60, priority=5))
    assert run(source, now=NOW + 1).evictions == ()
    assert [uid for uid, _ in source.earmarks.items()] == ["uid-high"]


@pytest.mark.parametrize("spec", [{"maxUtilizationPercent": 50}, {"placement": "Exclusive"}])
def test_who_counts_for_more_under_another_policy_than_he_was_bound_with_can_be_evicted(spec: builders.Object) -> None:
    source = builders.cluster(gpus=1, maxUtilizationPercent=150)
    runs(source, "low", 30, annotations=PREDICTED)
    source.policy_changed(builders.in_force(**spec))
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == ["low"]
