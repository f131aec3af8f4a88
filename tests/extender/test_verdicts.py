"""Nodes that kube-scheduler refused for a pod: how the queue learns them, what follows, and when they are forgotten."""

from typing import Any

import numpy as np
import pytest

from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import podreports, records
from cotenant_extender.ledger import ledger, tries, verdicts
from cotenant_extender.packing import nodeset
from cotenant_extender.queue import searches, showing
from extender import builders
from extender.builders import NOW
from extender.queueing import evicted, held, run, told, words

Object = dict[str, Any]

NEAR = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
APART: Object = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}}


def following(*, nodes: int = 3, gpus: int = 1, **spec: Any) -> ledger.Ledger:
    """A ledger of an extender that answers kube-scheduler."""
    source = builders.cluster(nodes=nodes, gpus=gpus, **spec)
    source.hosts.tries.start()
    return source


def shows(source: ledger.Ledger, name: str, share: int = 40, *, now: float = NOW, **changes: Any) -> None:
    """A pod as the API server shows it after its gate was lifted."""
    known = source.pods.get(PodUID(f"uid-{name}"))
    version = 2 if known is None else known.version + 1
    builders.put(source, builders.pod(name, share, gates=(), version=version, **changes), now=now)


def tried(source: ledger.Ledger, name: str, *accepted: str, share: int = 40, now: float = NOW, **changes: Any) -> None:
    """kube-scheduler tries a pod, names the nodes that its plugins accept, if any, and reports that none was left."""
    if accepted:
        named = [NodeName(node) for node in accepted]
        verdicts.asked(source, PodUID(f"uid-{name}"), named, left=False, now=now)
    reasons = f"{PackedReason.INSUFFICIENT_SHARE}: 1 GPU lacks share" if accepted else "node(s) had no free ports"
    report = f"0/3 nodes are available: 3 {reasons}; try {source.version} at {now}"
    shows(source, name, share, now=now, unschedulable=report, **changes)


def pending(source: ledger.Ledger, name: str, share: int = 40, **changes: Any) -> None:
    """A pod whose gate has been lifted; kube-scheduler has not tried it yet."""
    builders.put(source, builders.pod(name, share, **changes))
    shows(source, name, share, **changes)


def places(source: ledger.Ledger, *, now: float = NOW) -> dict[str, str]:
    """A pass; the nodes of the pods that were earmarked."""
    made = run(source, now=now).lifts
    return {lift.record.name: lift.earmark.placed.node for lift in made if lift.earmark is not None}


def questions(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    """A pass; the pods that are shown to kube-scheduler so that it says which nodes it accepts."""
    return [lift.record.name for lift in run(source, now=now).lifts if lift.asks]


def runs(source: ledger.Ledger, name: str, node: str, share: int = 100, **changes: Any) -> None:
    """A pod that runs on a node's only GPU since an hour."""
    raw = builders.bound(name, share, node, f"GPU-{node}-0", **changes)
    raw["status"]["startTime"] = builders.timestamp(NOW - 3600)
    builders.put(source, raw)


def test_a_pod_is_earmarked_on_a_node_that_kube_scheduler_named() -> None:
    source = following()
    pending(source, "a")
    tried(source, "a", "n2")
    assert places(source) == {"a": "n2"}


def test_a_try_in_which_filter_was_not_asked_says_that_no_node_is_accepted() -> None:
    source = following()
    pending(source, "a")
    tried(source, "a")
    assert places(source) == {}
    reason, message = told(source, "a")
    assert reason is PackedReason.INSUFFICIENT_HOST_RESOURCES
    assert message.startswith("3 GPUs are on nodes that kube-scheduler refused for the pod (affinity, spread, ports")


def test_the_next_try_replaces_the_verdict_of_the_last() -> None:
    source = following()
    pending(source, "a")
    tried(source, "a")
    tried(source, "a", "n1")
    assert places(source) == {"a": "n1"}


def test_a_verdict_on_one_pod_says_nothing_about_another_like_it() -> None:
    source = following()
    pending(source, "a")
    builders.put(source, builders.pod("b"))
    tried(source, "a")
    assert places(source) == {"b": "n0"}


def test_a_verdict_that_named_nodes_and_was_never_renewed_is_forgotten() -> None:
    source = following()
    runs(source, "b", "n2")
    pending(source, "a")
    tried(source, "a", "n2")
    late = NOW + tries.EXPIRES_SECONDS
    assert places(source, now=late - 1) == {}
    assert places(source, now=late) == {"a": "n0"}


def test_a_verdict_on_all_nodes_stands_until_kube_scheduler_says_something_else() -> None:
    """kube-scheduler writes no report that equals the standing one: tries like it are not seen."""
    source = following()
    pending(source, "a")
    tried(source, "a")
    late = NOW + 10 * tries.EXPIRES_SECONDS
    assert places(source, now=late) == {}
    tried(source, "a", "n1", now=late)
    assert places(source, now=late) == {"a": "n1"}


def test_a_node_that_came_after_the_try_is_not_refused() -> None:
    source = following()
    pending(source, "a")
    tried(source, "a")
    assert places(source) == {}
    builders.add_node(source, "m-new", gpus=1)
    assert places(source) == {"a": "m-new"}


def test_a_node_that_goes_and_comes_again_is_known_by_its_name() -> None:
    source = following()
    pending(source, "a")
    tried(source, "a", "n2")
    source.gpunode_gone(NodeName("n0"))
    source.seen()
    builders.add_node(source, "n0", gpus=1)
    assert places(source) == {"a": "n2"}


def test_an_earmark_that_ends_unheard_in_time_tells_that_no_node_is_accepted() -> None:
    source = following()
    pending(source, "a", unschedulable="the same as ever")
    assert places(source) == {"a": "n0"}
    assert places(source, now=NOW + 20) == {}
    assert places(source, now=NOW + 30) == {}


def test_a_node_that_is_short_of_what_the_queue_counts_is_not_refused() -> None:
    source = following(nodes=2)
    source.node(records.node_record(builders.node("n0", gpus=1, allocatable={"cpu": "50m"})))
    pending(source, "a")
    tried(source, "a", "n1")
    request = source.pods[PodUID("uid-a")].request
    assert request is not None
    assert request.constraints.refused is None


def test_full_nodes_that_are_not_named_are_refused() -> None:
    source = following(nodes=3)
    for node in ("n0", "n1", "n2"):
        runs(source, f"low-{node}", node)
    pending(source, "high", 100, priority=5)
    tried(source, "high", "n1", share=100, priority=5)
    assert evicted(source) == ["low-n1"]


def test_nobody_is_evicted_where_kube_scheduler_accepts_no_node() -> None:
    source = following(nodes=2)
    for node in ("n0", "n1"):
        runs(source, f"low-{node}", node)
    pending(source, "high", 100, priority=5)
    tried(source, "high", share=100, priority=5)
    assert evicted(source) == []
    assert held(source) == []


HUGE: Object = {"hugepages-2Mi": "1Gi", "memory": "1Gi", "cpu": "1"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        APART,
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        {"resourceClaims": [{"name": "nic"}]},
        {"initContainers": [{"name": "first", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}]},
        {"initContainers": [{"name": "first", "resources": {"requests": {"example.com/nic": "1"}}}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "unknown"}}]},
        {"volumes": [{"name": "disk", "gcePersistentDisk": {"pdName": "used-elsewhere"}}]},
        {"resources": {"requests": HUGE, "limits": HUGE}},
        {"overhead": {"example.com/nic": "1"}},
    ],
)
def test_before_anybody_is_evicted_kube_scheduler_is_asked_which_nodes_it_accepts(changes: Object) -> None:
    source = following(nodes=2)
    for node in ("n0", "n1"):
        runs(source, f"low-{node}", node)
    builders.put(source, builders.pod("high", 100, priority=5, **changes))
    plan = run(source)
    assert [(lift.record.name, lift.earmark, lift.kind) for lift in plan.lifts] == [("high", None, "question")]
    assert plan.evictions == ()
    assert held(source) == []
    assert questions(source, now=NOW + 3) == []
    shows(source, "high", 100, priority=5, now=NOW + 3, **changes)
    tried(source, "high", "n1", share=100, priority=5, now=NOW + 3, **changes)
    assert evicted(source, now=NOW + 9) == ["low-n1"]


def test_kube_scheduler_is_not_asked_where_nobody_could_be_evicted() -> None:
    source = following(nodes=1)
    runs(source, "equal", "n0", priority=5)
    builders.put(source, builders.pod("high", 100, priority=5, **APART))
    assert questions(source) == []


def busy(nodes: int = 1) -> ledger.Ledger:
    """Nodes with one GPU each, which a pod of priority 0 holds whole."""
    source = following(nodes=nodes)
    for number in range(nodes):
        runs(source, f"low-n{number}", f"n{number}")
    return source


def wants(source: ledger.Ledger, name: str = "high", *, now: float = NOW, **changes: Any) -> None:
    """A pod of priority 5 that requires what only kube-scheduler evaluates; `gates=()`: its gate was lifted."""
    known = source.pods.get(PodUID(f"uid-{name}"))
    version = 1 if known is None else known.version + 1
    builders.put(source, builders.pod(name, 100, priority=5, version=version, **APART, **changes), now=now)


def test_nobody_is_evicted_where_the_first_try_that_is_seen_refuses_all() -> None:
    source = busy()
    wants(source)
    assert questions(source) == ["high"]
    wants(source, gates=())
    wants(source, gates=(), unschedulable="0/1 nodes are available")
    for later in (4, 700, 7000):
        assert evicted(source, now=NOW + later) == []


def test_nobody_is_evicted_for_a_pod_whose_tries_a_former_leader_saw() -> None:
    source = busy()
    wants(source, gates=(), unschedulable="0/1 nodes are available")
    assert evicted(source) == []
    tried(source, "high", "n0", share=100, priority=5, now=NOW + 3, **APART)
    assert evicted(source, now=NOW + 6) == ["low-n0"]


def test_a_job_that_waits_to_be_tried_before_it_evicts_says_so() -> None:
    source, why = busy(), "evicts nobody before kube-scheduler has said which nodes it accepts"
    wants(source, gates=(), unschedulable="0/1 nodes are available")
    assert why in told(source, "high")[1]
    tried(source, "high", share=100, priority=5, now=NOW + 3, **APART)
    assert why not in told(source, "high", now=NOW + 6)[1]


def test_a_new_leader_learns_of_a_job_that_its_victims_leave_no_cpu() -> None:
    source = busy()
    source.node(records.node_record(builders.node("n0", gpus=1, allocatable={"cpu": "150m"})))
    wants(source, gates=(), unschedulable="0/1 nodes are available")
    assert evicted(source, now=NOW + 3) == []
    tried(source, "high", share=100, priority=5, now=NOW + 3, **APART)
    assert evicted(source, now=NOW + 6) == ["low-n0"]


def test_nobody_is_evicted_on_a_node_that_came_after_the_try() -> None:
    source = busy()
    wants(source, gates=())
    tried(source, "high", share=100, priority=5, **APART)
    builders.add_node(source, "m-new", gpus=1)
    runs(source, "low-new", "m-new")
    assert evicted(source) == []
    tried(source, "high", "m-new", share=100, priority=5, now=NOW + 3, **APART)
    assert evicted(source, now=NOW + 6) == ["low-new"]


def unheard(source: ledger.Ledger, *, now: float = NOW) -> list[str]:
    """A pass in which nobody is evicted; the pods whose report is to be taken back."""
    plan = run(source, now=now)
    assert plan.evictions == ()
    return [record.name for record in plan.unheard]


def taken_back(source: ledger.Ledger, name: str, *, now: float, **changes: Any) -> None:
    shows(source, name, 100, priority=5, now=now, unschedulable=podreports.TAKEN_BACK, **changes)


def test_a_report_from_before_this_process_led_is_taken_back_and_the_next_one_is_an_answer() -> None:
    source = busy(nodes=2)
    wants(source, gates=(), unschedulable="0/2 nodes are available: 2 have no free ports")
    assert unheard(source) == ["high"]
    assert unheard(source, now=NOW + 3) == [], "it is being written"
    taken_back(source, "high", now=NOW + 4, **APART)
    assert unheard(source, now=NOW + 40) == [], "kube-scheduler has yet to try it"
    shows(source, "high", 100, priority=5, now=NOW + 300, unschedulable="0/2 nodes are available: 2 have no free ports")
    assert unheard(source, now=NOW + 303) == []
    request = source.pods[PodUID("uid-high")].request
    assert request is not None
    assert request.constraints.refused is not None


def test_a_report_that_could_not_be_taken_back_is_taken_back_later() -> None:
    source = busy()
    wants(source, gates=(), unschedulable="0/1 nodes are available")
    assert unheard(source) == ["high"]
    assert unheard(source, now=NOW + showing.LIFT_SECONDS + 1) == ["high"]


def test_a_report_that_is_taken_back_in_the_middle_of_a_try_hides_no_question() -> None:
    source = busy()
    wants(source, gates=(), unschedulable="0/1 nodes are available")
    assert unheard(source) == ["high"]
    verdicts.asked(source, PodUID("uid-high"), [NodeName("n0")], left=False, now=NOW + 1)
    taken_back(source, "high", now=NOW + 2)
    report = "0/1 nodes are available: 1 InsufficientShare: 1 GPU lacks share"
    shows(source, "high", 100, priority=5, now=NOW + 3, unschedulable=report)
    assert evicted(source, now=NOW + 6) == ["low-n0"]


def test_what_was_said_of_nodes_that_are_gone_is_said_again_of_those_that_came() -> None:
    source = busy()
    wants(source, gates=())
    tried(source, "high", share=100, priority=5, **APART)
    assert evicted(source) == []
    source.node_gone(NodeName("n0"))
    source.gpunode_gone(NodeName("n0"))
    builders.add_node(source, "m0", gpus=1)
    runs(source, "low-m0", "m0")
    assert unheard(source, now=NOW + 3) == ["high"]
    taken_back(source, "high", now=NOW + 4)
    tried(source, "high", "m0", share=100, priority=5, now=NOW + 5)
    assert evicted(source, now=NOW + 8) == ["low-m0"]


def test_nobody_is_evicted_when_the_answer_was_forgotten_as_nodes_came() -> None:
    source = busy()
    wants(source, gates=())
    tried(source, "high", share=100, priority=5, **APART)
    for number in range(tries.FLEETS + 2):
        builders.add_node(source, f"m{number}", gpus=1)
        runs(source, f"busy{number}", f"m{number}", priority=2000)
        pending(source, f"other{number}", 100)
        tried(source, f"other{number}", "m0", share=100)
        assert evicted(source, now=NOW + 3 * number) == []


def test_those_who_are_visible_in_vain_keep_no_job_from_being_tried() -> None:
    source, never = busy(), {"preemptionPolicy": "Never", "unschedulable": "0/1 nodes"}
    for number in range(showing.LIMIT):
        builders.put(source, builders.pod(f"crowd{number}", 100, gates=(), priority=5, **never))
    wants(source)
    plans = [run(source, now=NOW + number / 10) for number in range(showing.LIMIT // searches.LOOKED_AT + 1)]
    assert [lift.record.name for plan in plans for lift in plan.lifts] == ["high"]
    assert [plan.evictions for plan in plans if plan.evictions] == []
    assert "evicts nobody before kube-scheduler has said which nodes it accepts" in words(source, "high")[1]


def test_pods_of_lower_priority_keep_no_job_from_being_tried() -> None:
    source = busy()
    for number in range(showing.LIMIT):
        builders.put(source, builders.pod(f"crowd{number}", 100, gates=(), unschedulable="0/1 nodes"))
    wants(source)
    assert questions(source) == ["high"]


def test_no_gpu_is_held_for_an_aged_job_on_a_node_that_was_refused() -> None:
    source = following(nodes=2, queue={"maxWaitSeconds": 60})
    for node in ("n0", "n1"):
        runs(source, f"b-{node}", node, 50)
    pending(source, "old", 90, created=NOW - 61)
    tried(source, "old", "n1", share=90, created=NOW - 61)
    run(source)
    assert held(source) == ["GPU-n1-0"]


def test_a_job_that_every_node_refuses_is_shown_to_the_autoscaler() -> None:
    source = following(nodes=1)
    pending(source, "a", created=NOW - 100)
    tried(source, "a", created=NOW - 100)
    run(source)
    assert words(source, "a")[0] is PackedReason.WAITING_FOR_SCALE_UP


def test_an_extender_that_does_not_answer_kube_scheduler_learns_nothing() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    pending(source, "a")
    tried(source, "a")
    assert places(source) == {"a": "n0"}


def test_what_was_learned_ends_with_the_leadership() -> None:
    source = following(nodes=2)
    pending(source, "a")
    tried(source, "a", "n1")
    source.reconsider(source.hosts.tries.stop())
    assert places(source) == {"a": "n0"}


def test_a_report_on_a_try_that_began_before_this_process_led_tells_as_much() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    pending(source, "a")
    source.hosts.tries.start()
    tried(source, "a")
    assert places(source) == {}


def test_a_pod_for_which_filter_left_a_node_is_refused_nothing() -> None:
    source = following(nodes=2)
    pending(source, "a")
    verdicts.asked(source, PodUID("uid-a"), [NodeName("n1")], left=True, now=NOW)
    request = source.pods[PodUID("uid-a")].request
    assert request is not None
    assert request.constraints.refused is None


def test_a_bound_pod_leaves_nothing_behind() -> None:
    source = following(nodes=2)
    pending(source, "a")
    tried(source, "a", "n1")
    builders.put(source, builders.bound("a", 40, "n1", "GPU-n1-0", version=9))
    assert source.hosts.tries.verdict(PodUID("uid-a")) is None


ROWS: nodeset.Rows = {NodeName("n0"): 0}


def answer(rows: nodeset.Rows = ROWS) -> tries.Answer:
    return tries.Answer.of(rows, np.array([True]), silent=False, now=NOW)


def test_at_most_so_many_verdicts_are_kept_and_the_oldest_goes_first() -> None:
    found = tries.Tries()
    uids = [PodUID(f"uid-{number}") for number in range(tries.LIMIT + 1)]
    forgotten = [found.learn(uid, answer()) for uid in uids]
    assert [uid for gone in forgotten for uid in gone] == uids[:1]


def test_verdicts_tell_of_at_most_so_many_sets_of_nodes() -> None:
    found = tries.Tries()
    uids = [PodUID(f"uid-{number}") for number in range(tries.FLEETS + 1)]
    forgotten = [found.learn(uid, answer({NodeName("n0"): 0})) for uid in uids]
    assert [uid for gone in forgotten for uid in gone] == uids[:1]
    assert found.verdict(uids[0]) is None
    assert found.verdict(uids[1]) is not None


def test_the_gpus_of_a_gang_are_not_given_where_one_of_its_pods_is_refused() -> None:
    source = following(nodes=3, gpus=1)
    notes = builders.gang("g", 2)
    for name in ("a", "b"):
        pending(source, name, 90, annotations=notes)
        tried(source, name, "n1", "n2", share=90, annotations=notes)
    assert sorted(places(source).values()) == ["n1", "n2"]
