"""What the leader removes, and when."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import cleanup
from extender import builders
from extender.builders import NOW
from extender.queueing import lift

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


def part(name: str, *, size: int = 2, **changes: Any) -> Object:
    return builders.pod(name, gates=(), annotations=builders.gang("g", size), **changes)


def bound_part(name: str, *, size: int = 2, **changes: Any) -> Object:
    return builders.bound(name, 40, "n0", "GPU-n0-0", annotations=builders.gang("g", size), **changes)


def test_a_gang_that_is_bound_in_part_is_evicted_whole_after_a_minute() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), part("b"))
    assert due(cleaner, source, now=NOW) == []
    assert due(cleaner, source, now=NOW + 60) == [("a", True), ("b", True)]


def test_a_gang_whose_last_pod_waits_for_a_slow_volume_stays_until_kube_scheduler_gives_that_up() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), part("b"))
    (waiting,) = (record for record in source.pods.values() if record.name == "b")
    source.earmark(waiting.uid, builders.place(source, waiting), now=NOW)
    source.earmarks.tried(waiting.uid)
    assert [removed for second in range(0, 600, 10) for removed in due(cleaner, source, now=NOW + second)] == []
    source.earmarks.fail(waiting.uid, now=NOW + 600)
    assert due(cleaner, source, now=NOW + 610) == []
    assert due(cleaner, source, now=NOW + 670) == [("a", True), ("b", True)]


def test_a_gang_whose_last_pod_kube_scheduler_never_tries_is_evicted_after_a_minute() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), part("b"))
    (waiting,) = (record for record in source.pods.values() if record.name == "b")
    source.earmark(waiting.uid, builders.place(source, waiting), now=NOW)
    lift(source, "b", annotations=builders.gang("g", 2))
    assert due(cleaner, source, now=NOW) == []
    assert due(cleaner, source, now=NOW + 60) == [("a", True), ("b", True)]


def test_a_gang_whose_last_promise_is_still_being_written_stays() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), part("b"))
    (waiting,) = (record for record in source.pods.values() if record.name == "b")
    source.earmark(waiting.uid, builders.place(source, waiting), now=NOW)
    assert due(cleaner, source, now=NOW) + due(cleaner, source, now=NOW + 90) == []


def test_a_gang_that_became_whole_in_time_stays() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), part("b"))
    due(cleaner, source, now=NOW)
    builders.put(source, bound_part("b", version=2))
    due(cleaner, source, now=NOW + 59)
    builders.put(source, bound_part("a", phase="Succeeded", version=3))
    assert due(cleaner, source, now=NOW + 120) == []


def test_a_gang_of_which_a_pod_stays_behind_its_gate_is_evicted_and_that_pod_is_left_there() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("a"), builders.pod("b", annotations=builders.gang("g", 2)))
    assert due(cleaner, source, now=NOW) + due(cleaner, source, now=NOW + 59) == []
    assert due(cleaner, source, now=NOW + 60) == [("a", True)]


def test_a_gang_stays_whose_lost_pod_is_replaced_by_one_behind_its_gate() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    again = builders.pod("b", annotations=builders.gang("g", 2), created=NOW)
    builders.put(source, scheduled(bound_part("a"), NOW - cleanup.SETTLED_SECONDS - 1), again)
    assert due(cleaner, source, now=NOW) + due(cleaner, source, now=NOW + 600) == []


def scheduled(raw: Object, at: float) -> Object:
    """A bound pod, with the time at which it was."""
    when = {"type": "PodScheduled", "status": "True", "lastTransitionTime": builders.timestamp(at)}
    return raw | {"status": raw["status"] | {"conditions": [when]}}


def seen_whole(source: ledger.Ledger, cleaner: cleanup.Cleaner) -> None:
    """Both pods of the gang run, and the leader looks."""
    builders.put(source, bound_part("a"), bound_part("b"))
    assert due(cleaner, source, now=NOW) == []


@pytest.mark.parametrize("earmarked", [False, True])
def test_a_gang_that_was_whole_is_not_evicted_while_the_pod_that_replaces_a_lost_one_waits(earmarked: bool) -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    seen_whole(source, cleaner)
    source.pod_gone(PodUID("uid-b"))
    builders.put(source, part("b2", created=NOW + 5))
    if earmarked:
        record = source.pods[PodUID("uid-b2")]
        source.earmark(record.uid, builders.place(source, record), now=NOW + 5)
    assert [due(cleaner, source, now=NOW + seconds) for seconds in (10, 80, 3600)] == [[], [], []]


def test_what_replaces_a_lost_pod_may_be_lost_as_well() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    seen_whole(source, cleaner)
    source.pod_gone(PodUID("uid-b"))
    builders.put(source, bound_part("b2"))
    assert due(cleaner, source, now=NOW + 10) == []
    source.pod_gone(PodUID("uid-a"))
    builders.put(source, part("a2"))
    assert [due(cleaner, source, now=NOW + seconds) for seconds in (20, 90, 3600)] == [[], [], []]


def test_a_pod_that_has_succeeded_makes_its_gang_no_less_whole() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, bound_part("c", size=3, phase="Succeeded"), bound_part("a", size=3), bound_part("b", size=3))
    assert due(cleaner, source, now=NOW) == []
    source.pod_gone(PodUID("uid-b"))
    builders.put(source, part("b2", size=3))
    assert [due(cleaner, source, now=NOW + seconds) for seconds in (10, 80)] == [[], []]


def test_a_gang_that_begins_anew_is_judged_anew() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    seen_whole(source, cleaner)
    builders.put(source, bound_part("a", deleting=True, version=2), bound_part("b", deleting=True, version=2))
    builders.put(source, bound_part("a2"), part("b2"))
    assert due(cleaner, source, now=NOW + 10) == []
    assert due(cleaner, source, now=NOW + 70) == [("a2", True), ("b2", True)]


def test_gangs_that_are_gone_are_forgotten() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    seen_whole(source, cleaner)
    for name in "ab":
        source.pod_gone(PodUID(f"uid-{name}"))
    due(cleaner, source, now=NOW + 10)
    builders.put(source, bound_part("a2"), part("b2"))
    due(cleaner, source, now=NOW + 20)
    assert due(cleaner, source, now=NOW + 80) == [("a2", True), ("b2", True)]


@pytest.mark.parametrize(
    ("created", "evicted"),
    [
        ((cleanup.SETTLED_SECONDS + 1,), False),
        ((cleanup.SETTLED_SECONDS,), True),
        ((-5.0,), True),
        ((cleanup.SETTLED_SECONDS + 1, -5.0), True),
    ],
)
def test_a_new_leader_knows_a_pod_that_replaces_another_by_when_it_was_created(
    created: tuple[float, ...], evicted: bool
) -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    size = 2 + len(created)
    for name, when in {"a": NOW, "c": NOW + 200}.items():
        builders.put(source, scheduled(bound_part(name, size=size), when))
    for number, after in enumerate(created):
        builders.put(source, part(f"b{number}", size=size, created=NOW + after))
    due(cleaner, source, now=NOW + 1000)
    assert bool(due(cleaner, source, now=NOW + 1060)) is evicted


def test_when_it_was_queued_first_says_nothing_of_when_a_pod_was_created() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, scheduled(bound_part("a"), NOW))
    notes = builders.gang("g", 2) | {names.QUEUED_SINCE: builders.timestamp(NOW - 600)}
    builders.put(source, builders.pod("b", gates=(), created=NOW + 500, annotations=notes))
    due(cleaner, source, now=NOW + 1000)
    assert due(cleaner, source, now=NOW + 1060) == []


def asking(node: str, *pods: str, reason: str = "GPUMemoryOveruse", version: int = 2) -> records.GPUNode:
    """A GPUNode whose agent wants pods evicted."""
    raw = builders.gpunode(node, tenants={0: list(pods)}, version=version)
    for tenant in raw["status"]["gpus"][0]["tenants"]:
        tenant["evict"] = reason
    return records.gpunode_record(raw)


@pytest.mark.parametrize(
    ("reason", "why"),
    [("GPUMemoryOveruse", "more GPU memory than was booked"), ("BlocksGPURecovery", "keep a GPU from recovering")],
)
def test_whom_its_agent_wants_evicted_is_at_once_and_again_if_it_is_still_there(reason: str, why: str) -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.gpunode(asking("n0", "a", reason=reason), now=NOW)
    (removal,) = cleaner.due(source, now=NOW)
    assert (removal.record.name, removal.evict, removal.reason) == ("a", True, reason)
    assert why in removal.message
    assert due(cleaner, source, now=NOW + 29) == []
    assert due(cleaner, source, now=NOW + 30) == [("a", True)]


def test_an_agent_is_not_heard_of_pods_of_other_nodes() -> None:
    source, cleaner = builders.cluster(nodes=2), cleanup.Cleaner()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"), builders.pod("waits"))
    source.gpunode(asking("n1", "a", "waits", "nobody"), now=NOW)
    assert due(cleaner, source, now=NOW) + due(cleaner, source, now=NOW + 600) == []


def test_an_agent_that_asks_for_a_pod_of_another_node_is_heard_of_its_own() -> None:
    source, cleaner = builders.cluster(nodes=2), cleanup.Cleaner()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"), builders.bound("b", 40, "n1", "GPU-n1-0"))
    source.gpunode(asking("n1", "a", "b"), now=NOW)
    assert due(cleaner, source, now=NOW) == [("b", True)]


@pytest.mark.parametrize("changes", [{"deleting": True}, {"phase": "Succeeded"}])
def test_who_leaves_or_is_over_is_not_evicted(changes: dict[str, Any]) -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", **changes))
    source.gpunode(asking("n0", "a"), now=NOW)
    assert due(cleaner, source, now=NOW) == []


def test_what_an_agent_no_longer_asks_is_not_done() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.gpunode(asking("n0", "a"), now=NOW)
    source.gpunode(records.gpunode_record(builders.gpunode("n0", tenants={0: ["a"]}, version=3)), now=NOW)
    assert due(cleaner, source, now=NOW) == []
    source.gpunode(asking("n0", "a", version=4), now=NOW)
    source.gpunode_gone(NodeName("n0"))
    assert due(cleaner, source, now=NOW) == []


def test_of_an_agent_that_has_fallen_silent_it_is_not_known_who_blocks_a_gpu() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.gpunode(asking("n0", "a", reason="BlocksGPURecovery"), now=NOW)
    source.tick(now=NOW + 3600)
    assert due(cleaner, source, now=NOW + 3600) == []
    source.lease(NodeName("n0"), NOW + 3601, now=NOW + 3601)
    assert due(cleaner, source, now=NOW + 3601) == [("a", True)]


def test_a_removal_stands_as_long_as_the_agent_asks_for_it() -> None:
    source, cleaner = builders.cluster(), cleanup.Cleaner()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"), builders.pod("b", node="n0"))
    source.gpunode(asking("n0", "a", reason="BlocksGPURecovery"), now=NOW)
    (removal,) = cleaner.due(source, now=NOW)
    assert cleanup.stands(source, removal)
    other = cleanup.Removal(record=source.pods[PodUID("uid-b")], evict=False, reason="NotPlaced", message="")
    assert cleanup.stands(source, other)
    source.gpunode(asking("n0", "a", version=3), now=NOW)
    assert not cleanup.stands(source, removal)
    source.gpunode_gone(NodeName("n0"))
    assert not cleanup.stands(source, removal)
