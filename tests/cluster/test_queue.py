"""Preemption and scale-up lifts on a real control plane: real priorities, budgets, Evictions and the real scheduler."""

import http.client
from collections.abc import Iterator

import pytest

from cluster.workloads import SECONDS, Workspace, pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_extender import records
from cotenant_extender.kube import pods

HIGH = "test-high"
NODE = {"kubernetes.io/hostname": "t4-0"}
LONG = {"demo.cotenant.dev/run-for": "3600s"}
POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
CLASSES = clients.path_of("priorityclasses", group="scheduling.k8s.io")


@pytest.fixture
def high(workspace: Workspace) -> Iterator[str]:
    """A PriorityClass above the others."""
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": HIGH}, "value": 1000}
    workspace.client.create(CLASSES, body)
    yield HIGH
    workspace.client.delete(clients.path_of("priorityclasses", group="scheduling.k8s.io", name=HIGH))


@pytest.fixture
def soon(workspace: Workspace) -> Iterator[None]:
    """What fits nowhere is shown to the autoscaler after two seconds."""
    before = workspace.client.get(POLICY)["spec"]["queue"]["scaleUpAfterSeconds"]
    workspace.client.patch(POLICY, {"spec": {"queue": {"scaleUpAfterSeconds": 2}}})
    yield
    workspace.client.patch(POLICY, {"spec": {"queue": {"scaleUpAfterSeconds": before}}})


def fill(workspace: Workspace, *, priority: str = "", **labels: str) -> list[str]:
    """Pods that take all GPUs of one node."""
    node = workspace.client.get(clients.path_of("nodes", name=NODE["kubernetes.io/hostname"]))
    count = int(node["status"]["allocatable"][names.GPU_SHARE]) // names.HUNDREDTHS
    made = [f"low-{number}" for number in range(count)]
    for name in made:
        raw = pod_object(name, 100, nodeSelector=NODE, annotations=LONG)
        raw["metadata"]["labels"] = labels
        raw["spec"] |= {"priorityClassName": priority} if priority else {}
        workspace.client.create(workspace.pods(), raw)
    for name in made:
        workspace.bound_pod(name)
    return made


def is_shown(workspace: Workspace, name: str) -> bool:
    """Whether kube-scheduler has found no node for a pod, which so has no gate."""
    reports = workspace.client.get(workspace.pods(name))["status"].get("conditions") or []
    return any(item["type"] == "PodScheduled" and item["reason"] == "Unschedulable" for item in reports)


def left(workspace: Workspace) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in workspace.client.items(workspace.pods())
        if "deletionTimestamp" not in pod["metadata"]
    ]


def test_one_pod_of_lower_priority_is_evicted_for_one_of_higher_which_gets_its_gpu(
    workspace: Workspace, high: str
) -> None:
    low = fill(workspace)
    workspace.pod("high", 100, nodeSelector=NODE, priorityClassName=high)
    workspace.bound_pod("high")
    assert len([name for name in left(workspace) if name in low]) == len(low) - 1
    reasons = {event["reason"] for event in workspace.events()}
    assert {"Preempted", "Preempting"} <= reasons


def test_where_a_budget_refuses_nobody_leaves_until_it_allows(workspace: Workspace, high: str) -> None:
    low = fill(workspace, app="guarded")
    budgets = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace)
    selector = {"matchLabels": {"app": "guarded"}}
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": len(low), "selector": selector},
    }
    workspace.client.create(budgets, body)
    workspace.pod("high", 100, nodeSelector=NODE, priorityClassName=high)
    waiting.wait_until(lambda: bool(workspace.packed("high")), "told", SECONDS)
    assert sorted(left(workspace)) == sorted([*low, "high"])
    workspace.client.delete(budgets)
    workspace.bound_pod("high")


def test_an_authors_budget_keeps_his_pods_and_another_leaves_for_a_higher_priority(
    workspace: Workspace, high: str
) -> None:
    low = fill(workspace, app="guarded")
    budgets = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace)
    selector = {"matchLabels": {"app": "guarded"}}
    body = {"metadata": {"name": "guarded"}, "spec": {"maxUnavailable": 0, "selector": selector}}
    workspace.client.create(budgets, body)
    workspace.pod("high", 100, nodeSelector=NODE, priorityClassName=high)

    def words() -> str:
        return str(workspace.packed("high").get("message", ""))

    kept = f"pods of lower priority are kept by PodDisruptionBudget {workspace.namespace}/guarded"
    waiting.wait_until(lambda: kept in words(), "told", SECONDS)
    assert sorted(left(workspace)) == sorted([*low, "high"])
    # It has run longest: all others cost less, and are looked at first.
    workspace.client.patch(workspace.pods(low[0]), {"metadata": {"labels": {"app": "free"}}})
    workspace.bound_pod("high")
    assert sorted(left(workspace)) == sorted([*low[1:], "high"])


def test_an_eviction_meant_for_a_pod_that_runs_does_not_take_one_that_has_succeeded(workspace: Workspace) -> None:
    workspace.pod("done", annotations={"demo.cotenant.dev/run-for": "3s"})

    def phase() -> str:
        return str(workspace.client.get(workspace.pods("done"))["status"].get("phase"))

    def eviction() -> Json:
        return pods.eviction(records.pod_record(workspace.client.get(workspace.pods("done"))))

    waiting.wait_until(lambda: phase() == "Running", "running", SECONDS)
    meant = eviction()
    waiting.wait_until(lambda: phase() == "Succeeded", "succeeded", SECONDS)
    path = f"{workspace.pods('done')}/eviction"
    with pytest.raises(clients.APIError) as refused:
        workspace.client.create(path, meant)
    assert refused.value.code == http.client.CONFLICT
    assert "done" in left(workspace)
    workspace.client.create(path, eviction())
    waiting.wait_until(lambda: "done" not in left(workspace), "deleted", SECONDS)


@pytest.mark.usefixtures("soon")
def test_what_fits_nowhere_is_shown_to_the_autoscaler_and_placed_when_it_fits(workspace: Workspace) -> None:
    low = fill(workspace)
    workspace.pod("more", 100 * len(low), annotations={names.GPU_MODELS: "Tesla-T4"})

    waiting.wait_until(lambda: is_shown(workspace, "more"), "shown", SECONDS)
    waiting.wait_until(lambda: workspace.packed("more").get("reason") == "WaitingForScaleUp", "told", SECONDS)
    for name in low:
        workspace.client.delete(workspace.pods(name))
    workspace.bound_pod("more")


@pytest.mark.usefixtures("soon")
def test_pods_without_a_gate_overtake_nobody_of_a_higher_priority(workspace: Workspace, high: str) -> None:
    placed = fill(workspace, priority=high)
    only = {names.GPU_MODELS: "Tesla-T4", **LONG}
    loose = [f"loose-{number}" for number in range(8)]
    for name in loose:
        workspace.pod(name, 100, annotations=only)
    for name in loose:
        waiting.wait_until(lambda name=name: is_shown(workspace, name), f"{name} shown", SECONDS)  # type: ignore[misc]
    for number, leaves in enumerate(placed):
        name = f"high-{number}"
        workspace.pod(name, 100, annotations=only, priorityClassName=high)
        waiting.wait_until(lambda name=name: bool(workspace.packed(name)), "told", SECONDS)  # type: ignore[misc]
        workspace.client.delete(workspace.pods(leaves))
        workspace.bound_pod(name)
    bound = {pod["metadata"]["name"] for pod in workspace.client.items(workspace.pods()) if pod["spec"].get("nodeName")}
    assert bound.isdisjoint(loose)
