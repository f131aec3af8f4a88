"""What the queue knows of those who hold GPUs follows every event, also one that writes no row."""

from dataclasses import replace

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import roster
from extender import builders, forgetful
from extender.builders import NOW
from extender.queueing import evicted, queue, words

LEAST = {names.MINIMUM_RUN_SECONDS: "30"}


def started(source: ledger.Ledger, name: str, *, seconds: float) -> None:
    """Kubelet took up a pod."""
    source.pod(replace(source.pods[PodUID(f"uid-{name}")], started=NOW + seconds), now=NOW)


def test_a_pod_that_started_after_it_was_looked_at_leaves_when_it_has_run_for_its_least_time() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("low", 80, "n0", "GPU-n0-0", annotations=LEAST))
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    started(source, "low", seconds=3)
    assert evicted(source, now=NOW + 30) == []
    assert evicted(source, now=NOW + 33) == ["low"]


def bound_gang(source: ledger.Ledger, *, least: tuple[str, str] = ("30", "30")) -> None:
    """The pods a and b, each on a node of its own."""
    for index, name in enumerate("ab"):
        note = {names.MINIMUM_RUN_SECONDS: least[index]} | builders.gang("g", 2)
        builders.put(source, builders.bound(name, 80, f"n{index}", f"GPU-n{index}-0", annotations=note))


def test_a_gang_leaves_when_it_has_run_since_its_first_pod_for_the_longest_of_its_least_times() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    bound_gang(source, least=("0", "30"))
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source, now=NOW) == []
    started(source, "a", seconds=0)
    assert evicted(source, now=NOW + 29) == []
    started(source, "b", seconds=29)
    assert evicted(source, now=NOW + 31) == ["a", "b"]


def test_a_gang_is_looked_at_once_for_all_of_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    source, gpus = builders.cluster(gpus=8), range(8)
    notes = builders.gang("g", 8)
    builders.put(source, *(builders.bound(f"m{gpu}", 80, "n0", f"GPU-n0-{gpu}", annotations=notes) for gpu in gpus))
    held, standing, asked = roster.Roster(), roster.standing_of, list[PodUID]()

    def counted(of: ledger.Ledger, uid: PodUID) -> roster.Standing:
        asked.append(uid)
        return standing(of, uid)

    monkeypatch.setattr(roster, "standing_of", counted)
    assert held.update(source, source.seen())
    assert held.pods[held.pods > 0].tolist() == [8] * 8
    # Each for itself, and once all for the gang.
    assert len(asked) == 2 * 8


def test_a_young_pod_of_an_old_gang_protects_nobody() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    bound_gang(source)
    started(source, "a", seconds=0)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source, now=NOW + 29) == []
    started(source, "b", seconds=31)
    assert evicted(source, now=NOW + 32) == ["a", "b"]


def test_a_pod_that_comes_for_a_lost_one_protects_nobody_before_it_starts_either() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    bound_gang(source)
    started(source, "a", seconds=0)
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source, now=NOW + 31) == ["a", "b"]


def test_a_pod_that_changes_on_a_node_that_nobody_lists_any_more_is_no_obstacle() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    for index, name in enumerate(("low", "lost")):
        builders.put(source, builders.bound(name, 80, f"n{index}", f"GPU-n{index}-0", annotations=LEAST))
    builders.put(source, builders.pod("high", 60, priority=5))
    assert evicted(source) == []
    source.gpunode_gone(NodeName("n1"))
    started(source, "lost", seconds=0)
    started(source, "low", seconds=0)
    assert evicted(source, now=NOW + 30) == ["low"]


@pytest.mark.parametrize("leaves", ["deleting", "deleted"])
def test_a_pod_that_leaves_after_it_was_looked_at_is_waited_for(leaves: str) -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("equal", 80, "n0", "GPU-n0-0", priority=5))
    builders.put(source, builders.bound("low", 10, "n0", "GPU-n0-0"))
    builders.put(source, builders.pod("high", 60, priority=5))
    listed = builders.gpunode("n0", gpus=1, tenants={0: ["equal", "low"]})
    source.gpunode(records.gpunode_record(listed), now=NOW)
    assert evicted(source) == []
    if leaves == "deleting":
        source.pod(replace(source.pods[PodUID("uid-equal")], deleting=True), now=NOW)
    else:
        source.pod_gone(PodUID("uid-equal"))
    assert evicted(source, now=NOW + 3) == []
    assert words(source, "high", now=NOW + 3)[1] == "waits for team/equal to leave; 1st in the queue"
    assert forgetful.held_back(source, queue(source), now=NOW + 3) == []
