"""Victims that a PodDisruptionBudget keeps: one refusal counts for all of its pods, and others leave."""

import math
from typing import Any

import pytest

from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.packing import constraints
from cotenant_extender.queue import budgets
from extender import builders
from extender.builders import NOW
from extender.queueing import end, evicted, member, queue, run, runs, words


def guard(name: str = "guard", **labels: str) -> budgets.Budget:
    """A PodDisruptionBudget."""
    spec = {"selector": {"matchLabels": labels}}
    return budgets.read({"metadata": {"namespace": "team", "name": name}, "spec": spec})


def test_one_refusal_of_a_budget_is_enough_for_all_pods_that_it_selects() -> None:
    source = builders.cluster(nodes=2, gpus=4)
    for index in range(7):
        uuid = f"GPU-n{index // 4}-{index % 4}"
        runs(source, f"guarded{index}", 80, uuid, labels={"app": "kept"})
    runs(source, "low", 80, "GPU-n1-3", started=NOW - 7200)
    builders.put(source, builders.pod("high", 60, priority=5))
    (first,) = evicted(source)
    assert first.startswith("guarded")
    queue(source).refused(source, source.pods[PodUID(f"uid-{first}")], guard(app="kept"), now=NOW)
    assert evicted(source) == ["low"]


def test_who_is_kept_by_a_budget_is_named_to_whom_it_keeps_waiting_and_asked_again_later() -> None:
    source = builders.cluster(gpus=2)
    for index in range(2):
        runs(source, f"guarded{index}", 80, f"GPU-n0-{index}", labels={"app": "kept"})
    builders.put(source, builders.pod("high", 60, priority=5), builders.pod("equal", 60))
    (first,) = evicted(source)
    queue(source).refused(source, source.pods[PodUID(f"uid-{first}")], guard(app="kept"), now=NOW)
    told_it = "2 GPUs lack 40 hundredths; pods of lower priority are kept by PodDisruptionBudget team/guard"
    assert words(source, "high")[1] == f"{told_it}; 1st in the queue"
    assert "PodDisruptionBudget" not in words(source, "equal")[1]
    assert evicted(source, now=NOW + budgets.BACKOFF_SECONDS - 1) == []
    assert evicted(source, now=NOW + budgets.BACKOFF_SECONDS + 2) != []


def test_a_budget_of_another_namespace_is_not_named() -> None:
    source = builders.cluster(gpus=1)
    runs(source, "guarded", 80, labels={"app": "kept"})
    builders.put(source, builders.pod("high", 60, priority=5, namespace="others"))
    queue(source).refused(source, source.pods[PodUID("uid-guarded")], guard(app="kept"), now=NOW)
    run(source)
    told = words(source, "high")[1]
    assert "; pods of lower priority are kept by PodDisruptionBudgets of other namespaces;" in told
    assert "guard" not in told


def test_each_refusal_is_waited_for_twice_as_long_as_the_last() -> None:
    assert [budgets.delay(count) for count in (1, 2, 3, 5, 6, 99)] == [10, 20, 40, 160, 300, 300]


def test_a_budget_of_more_expressions_than_can_be_judged_in_time_stands_for_its_whole_namespace() -> None:
    many = [{"key": f"k{index}", "operator": "DoesNotExist"} for index in range(constraints.MAX_PARTS + 1)]
    spec = {"selector": {"matchExpressions": many}}
    found = budgets.read({"metadata": {"namespace": "team", "name": "huge"}, "spec": spec})
    assert found.selects == ()
    assert found.covers(records.pod_record(builders.pod("any", 60, labels={"k0": "there"})))


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"expectedPods": 3, "currentHealthy": 3, "disruptionsAllowed": 1}, 1),
        ({"expectedPods": 3, "currentHealthy": 1, "disruptionsAllowed": 0}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_a_budget_allows_its_disruptions_however_many_of_its_pods_are_not_ready(status: Any, allowed: int) -> None:
    raw = {"metadata": {"namespace": "team", "name": "b"}, "spec": {"selector": {}}, "status": status}
    assert budgets.allowed(raw) == allowed


def test_of_a_budget_that_cannot_be_judged_in_time_it_is_not_known_whom_it_keeps() -> None:
    many = [{"key": f"k{index}", "operator": "Exists"} for index in range(constraints.MAX_PARTS + 1)]
    assert budgets.allowed({"spec": {"selector": {"matchExpressions": many}}, "status": {}}) == math.inf


@pytest.mark.parametrize(("priority", "named"), [(4, True), (3, False)])
def test_a_gang_is_told_of_budgets_below_its_priority(priority: int, named: bool) -> None:
    source = builders.cluster(gpus=1)
    runs(source, "guarded", 80, priority=3, labels={"app": "kept"})
    builders.put(source, *(member(name, 60, size=2, priority=priority) for name in "ab"))
    queue(source).refused(source, source.pods[PodUID("uid-guarded")], guard(app="kept"), now=NOW)
    run(source)
    assert ("PodDisruptionBudget team/guard" in words(source, "a")[1]) is named


def test_a_budget_whose_pods_have_all_gone_is_named_no_longer() -> None:
    source = builders.cluster(gpus=2)
    for index in range(2):
        runs(source, f"guarded{index}", 80, f"GPU-n0-{index}", labels={"app": "kept"})
    builders.put(source, builders.pod("high", 60, priority=5))
    (first,) = evicted(source)
    queue(source).refused(source, source.pods[PodUID(f"uid-{first}")], guard(app="kept"), now=NOW)
    assert "PodDisruptionBudget team/guard" in words(source, "high")[1]
    for index in range(2):
        end(source, f"guarded{index}")
        runs(source, f"another{index}", 80, f"GPU-n0-{index}", priority=5)
    assert "PodDisruptionBudget" not in words(source, "high")[1]


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "kept"}}, True),
        ({"matchLabels": {"app": "other"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["kept"]}]}, False),
    ],
)
def test_a_budget_covers_the_pods_of_its_namespace_that_its_selector_matches(selector: Any, covers: bool) -> None:
    budget = budgets.read({"metadata": {"namespace": "team", "name": "b"}, "spec": {"selector": selector}})
    mine = records.pod_record(builders.pod("a", labels={"app": "kept"}))
    assert budget.covers(mine) is covers
    others = records.pod_record(builders.pod("a", labels={"app": "kept"}, namespace="others"))
    assert not budget.covers(others)
