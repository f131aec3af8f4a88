"""Preemption and scale-up lifts on a real control plane: real priorities, budgets, Evictions and the real scheduler."""

import http.client
import re
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


def count_gpus(workspace: Workspace) -> int:
    """Return how many GPUs the node has."""
    node = workspace.client.get(clients.path_of("nodes", name=NODE["kubernetes.io/hostname"]))
    return int(node["status"]["allocatable"][names.GPU_SHARE]) // names.HUNDREDTHS


def fill(workspace: Workspace, *, priority: str = "", **labels: str) -> list[str]:
    """Pods that take all GPUs of one node."""
    made = [f"low-{number}" for number in range(count_gpus(workspace))]
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


def guarded(workspace: Workspace, name: str, share: int, *, app: str) -> None:
    """A pod of a node, protected by the budget of its app, which is made with the first one and keeps one pod."""
    budgets = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace)
    if app not in {budget["metadata"]["name"] for budget in workspace.client.items(budgets)}:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        workspace.client.create(budgets, {"metadata": {"name": app}, "spec": spec})
    raw = pod_object(name, share, nodeSelector=NODE, annotations=LONG)
    raw["metadata"]["labels"] = {"app": app}
    workspace.client.create(workspace.pods(), raw)
    workspace.bound_pod(name)


def keeping(workspace: Workspace) -> list[str]:
    """The budgets that a job is told of."""
    return re.findall(rf"{workspace.namespace}/((?:own|app)\d)\b", str(workspace.packed("high").get("message", "")))


def test_nobody_is_evicted_beside_a_pod_that_a_budget_of_its_own_keeps(workspace: Workspace, high: str) -> None:
    pairs = range(count_gpus(workspace))
    for number in pairs:
        guarded(workspace, f"own{number}", 45, app=f"own{number}")
        workspace.pod(f"honest{number}", 55, nodeSelector=NODE, annotations=LONG)
        workspace.bound_pod(f"honest{number}")
    everybody = sorted([*(f"own{number}" for number in pairs), *(f"honest{number}" for number in pairs), "high"])
    workspace.pod("high", 100, nodeSelector=NODE, priorityClassName=high)
    waiting.wait_until(lambda: len(keeping(workspace)) == len(pairs), "word of all budgets", SECONDS)
    assert sorted(left(workspace)) == everybody
    budget = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace, name="own0")
    workspace.client.delete(budget)
    workspace.bound_pod("high")
    assert len(left(workspace)) == len(everybody) - 2


def test_of_victims_of_one_budget_none_is_evicted_where_it_does_not_allow_them_all(
    workspace: Workspace, high: str
) -> None:
    pairs = range(count_gpus(workspace))
    for number in pairs:
        for half in "ab":
            guarded(workspace, f"{half}{number}", 50, app=f"app{number}")
    everybody = sorted([*(f"{half}{number}" for number in pairs for half in "ab"), "high"])
    workspace.pod("high", 100, nodeSelector=NODE, priorityClassName=high)
    waiting.wait_until(lambda: len(keeping(workspace)) == len(pairs), "word of all budgets", SECONDS)
    assert sorted(left(workspace)) == everybody


def test_a_dry_run_of_an_eviction_asks_the_budget_and_changes_nothing(workspace: Workspace) -> None:
    guarded(workspace, "kept", 50, app="web")
    path = f"{workspace.pods('kept')}/eviction"

    def eviction() -> Json:
        return pods.eviction(records.pod_record(workspace.client.get(workspace.pods("kept"))), dry_run=True)

    def answer() -> str:
        try:
            workspace.client.create(path, eviction())
        except clients.APIError as error:
            return str(error)
        return ""

    waiting.wait_until(lambda: "disruption budget" in answer(), "refused", SECONDS)
    guarded(workspace, "other", 50, app="web")

    def unchanged() -> bool:
        """Whether two dry runs are allowed and leave the pod as it was; if others change it meanwhile, they are not."""
        before = workspace.client.get(workspace.pods("kept"))["metadata"]["resourceVersion"]
        answers = (answer(), answer())
        after = workspace.client.get(workspace.pods("kept"))["metadata"]["resourceVersion"]
        return answers == ("", "") and after == before

    waiting.wait_until(unchanged, "allowed, and nothing changed", SECONDS)
    budget = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace, name="web")
    assert not workspace.client.get(budget)["status"].get("disruptedPods")


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


def test_a_replica_that_waits_for_a_gpu_makes_room_for_no_disruption_of_those_that_run(
    workspace: Workspace, high: str
) -> None:
    raw = pod_object("any", 50, annotations=LONG, nodeSelector=NODE)
    labels, replicas = {"app": "web"}, 2 * count_gpus(workspace) + 1
    metadata = {"labels": labels, "annotations": raw["metadata"]["annotations"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}}
    body = {**spec, "template": {"metadata": metadata, "spec": raw["spec"]}}
    workspace.client.create(workspace.deployments(), {"metadata": {"name": "web"}, "spec": body})
    budgets = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace)
    budget = {"minAvailable": replicas - 2, "selector": {"matchLabels": labels}}
    workspace.client.create(budgets, {"metadata": {"name": "web"}, "spec": budget})

    def allows_one() -> bool:
        return bool(workspace.client.get(f"{budgets}/web").get("status", {}).get("disruptionsAllowed") == 1)

    waiting.wait_until(allows_one, "all but one run", SECONDS)
    workspace.pod("high", 100, nodeSelector=NODE, priorityClassName=high)
    kept = f"kept by PodDisruptionBudget {workspace.namespace}/web"
    waiting.wait_until(lambda: kept in str(workspace.packed("high").get("message", "")), "told", SECONDS)
    assert not [event for event in workspace.events() if event["reason"] == "Preempted"]
