"""What the author of a pod cannot grant himself: tried by a tenant with the role `edit`, on a real API server."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.tenants import Tenant
from cluster.workloads import SECONDS, Workspace, pod_object, template
from cotenant_api import names, places
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from extender import builders

Refused = Callable[[Callable[[], Any]], str]

LONG_AGO = {names.QUEUED_SINCE: "2001-01-01T00:00:00Z"}
FORGED = {names.PREDICTION: builders.prediction(h200=(0.5, 100, 100))}
FOR_EVER = {names.MINIMUM_RUN_SECONDS: "999999999"}
HOUR = {names.MINIMUM_RUN_SECONDS: "3600"}
HUGE = {names.GANG: json.dumps({"v": 1, "name": "colleagues", "size": 1024})}
POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
HELD = "example.org/hold"


@pytest.fixture
def one_gpu_each(workspace: Workspace) -> Iterator[None]:
    """Each namespace may be on one GPU."""
    workspace.client.patch(POLICY, {"spec": {"maxGPUsPerNamespace": 1}})
    yield
    workspace.client.patch(POLICY, {"spec": {"maxGPUsPerNamespace": None}})


@pytest.fixture
def no_minimum(workspace: Workspace) -> Iterator[Callable[[], None]]:
    """Return what makes the policy count no minimum run time at all."""
    before = workspace.client.get(POLICY)["spec"]["queue"]["maxMinimumRunSeconds"]
    yield lambda: set_queue(workspace, maxMinimumRunSeconds=0)
    set_queue(workspace, maxMinimumRunSeconds=before)


def set_queue(workspace: Workspace, **fields: int) -> None:
    workspace.client.patch(POLICY, {"spec": {"queue": fields}})


def test_a_tenants_own_dljob_gets_them_from_the_operator_through_its_controllers(tenant: Tenant) -> None:
    space = tenant.workspace
    graph = space.graph("graph")
    for name, kind in (("trains", "Training"), ("serves", "Inference")):
        spec = {"template": template(run_for=""), "model": graph, "workloadType": kind}
        body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": name}, "spec": spec}
        tenant.client.create(space.dljobs(), body)
    for name in ("trains", "serves"):
        space.wait_for_phase(name, Phase.RUNNING)
        (pod,) = space.client.items(space.pods(), labelSelector=f"{names.DLJOB_LABEL}={name}")
        # A Deployment makes pods at any time: its pods have no place in the queue from before they are there.
        granted = {names.PREDICTION} | ({names.QUEUED_SINCE} if name == "trains" else set())
        assert granted == {names.QUEUED_SINCE, names.PREDICTION} & pod["metadata"]["annotations"].keys()
        tenant.client.patch(space.pods(pod["metadata"]["name"]), {"metadata": {"labels": {"mine": "yes"}}})


def test_a_colleagues_gang_is_not_held_up_by_one_of_the_same_name(tenant: Tenant) -> None:
    space = tenant.workspace
    small = {names.GANG: json.dumps({"v": 1, "name": "colleagues", "size": 2})}
    large = {names.GANG: json.dumps({"v": 1, "name": "colleagues", "size": 200})}
    tenant.client.create(space.pods(), pod_object("forged", 10, annotations=large))
    waiting.wait_until(lambda: bool(space.packed("forged")), "told", SECONDS)
    for name in ("a", "b"):
        space.pod(name, 10, annotations=small)
    for name in ("a", "b"):
        space.bound_pod(name)
    assert "1 of the gang's 200 pods" in space.packed("forged")["message"]


def colleagues_job(space: Workspace) -> Json:
    """A Job of two pods that start together, which another author has not resumed yet; the reference to it."""
    gang = {names.GANG: json.dumps({"v": 1, "name": "theirs", "size": 2})}
    pod = {"metadata": {"annotations": gang}, "spec": {**pod_object("any", 10)["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "suspend": True, "template": pod}
    made = space.client.create(space.jobs(), {"metadata": {"name": "theirs"}, "spec": spec})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": made["metadata"]["uid"]}
    return {**owner, "controller": True}


def test_nobody_joins_the_gang_of_a_job_by_a_reference_to_it(tenant: Tenant, refused: Refused) -> None:
    space = tenant.workspace
    owner = colleagues_job(space)
    gang = {names.GANG: json.dumps({"v": 1, "name": "theirs", "size": 2})}
    forged = pod_object("forged", 100, annotations=gang, nodeSelector={"no": "where"})
    forged["metadata"]["ownerReferences"] = [owner]
    assert "must be allowed to update the finalizers of jobs" in refused(
        lambda: tenant.client.create(space.pods(), forged)
    )
    own = pod_object("own", 10, annotations=gang)
    tenant.client.create(space.pods(), own)
    patch = {"metadata": {"ownerReferences": [owner]}}
    assert "metadata.ownerReferences: Job theirs" in refused(lambda: tenant.client.patch(space.pods("own"), patch))
    forged["metadata"]["ownerReferences"] = [{**owner, "kind": "ConfigMap", "apiVersion": "v1"}]
    assert "metadata.ownerReferences: ConfigMap theirs" in refused(lambda: tenant.client.create(space.pods(), forged))
    space.client.patch(f"{space.jobs()}/theirs", {"spec": {"suspend": False}})

    def placed() -> bool:
        mine = space.client.items(space.pods(), labelSelector="batch.kubernetes.io/job-name=theirs")
        return len([pod for pod in mine if pod["spec"].get("nodeName")]) == 2

    waiting.wait_until(placed, "the colleague's gang placed", SECONDS)


def test_a_pod_is_evicted_before_its_minimum_where_the_policy_counts_less(
    tenant: Tenant, no_minimum: Callable[[], None]
) -> None:
    space = tenant.workspace
    classes = clients.path_of("priorityclasses", group="scheduling.k8s.io")
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "above"}, "value": 9}
    space.client.create(classes, body)
    node = {"kubernetes.io/hostname": "t4-0"}
    low = [f"low-{number}" for number in range(4)]
    notes = {**HOUR, "demo.cotenant.dev/run-for": "3600s"}
    for name in low:
        tenant.client.create(space.pods(), pod_object(name, 100, nodeSelector=node, annotations=notes))
    for name in low:
        space.bound_pod(name)
    space.pod("high", 100, nodeSelector=node, priorityClassName="above")
    waiting.wait_until(lambda: bool(space.packed("high")), "told", SECONDS)
    no_minimum()
    space.bound_pod("high")
    space.client.delete(f"{classes}/above")


@pytest.fixture
def priority_class(workspace: Workspace) -> Iterator[str]:
    """A PriorityClass above the default."""
    classes = clients.path_of("priorityclasses", group="scheduling.k8s.io")
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "dear"}, "value": 9}
    workspace.client.create(classes, body)
    yield "dear"
    workspace.client.delete(f"{classes}/dear")


def test_one_expensive_pod_lends_its_gang_neither_place_nor_immunity(tenant: Tenant, priority_class: str) -> None:
    space, node = tenant.workspace, {"kubernetes.io/hostname": "t4-0"}
    gang = {names.GANG: json.dumps({"v": 1, "name": "ride", "size": 2}), "demo.cotenant.dev/run-for": "3600s"}
    tenant.client.create(space.pods(), pod_object("rider", 200, nodeSelector=node, annotations=gang))
    ticket = pod_object("ticket", 1, nodeSelector=node, annotations=gang, priorityClassName=priority_class)
    tenant.client.create(space.pods(), ticket)
    waiting.wait_until(lambda: bool(space.packed("ticket")), "told", SECONDS)
    assert space.packed("ticket")["reason"] == "InvalidRequest"
    assert "the pods of a gang have one priority" in space.packed("ticket")["message"]
    assert "nodeName" not in space.client.get(space.pods("rider"))["spec"]
    tenant.client.create(space.pods(), pod_object("mate", 200, nodeSelector=node, annotations=gang))
    for name in ("rider", "mate"):
        space.bound_pod(name)
    space.pod("honest", 400, nodeSelector=node, priorityClassName=priority_class)
    space.bound_pod("honest")
    assert "nodeName" not in space.client.get(space.pods("ticket"))["spec"]


@pytest.mark.parametrize("size", ['"size":1000', '"si\\u007ae":1000'])
def test_a_gang_that_an_update_made_too_large_is_not_placed(tenant: Tenant, size: str) -> None:
    space = tenant.workspace
    alone = pod_object("p", annotations={names.GANG: '{"v":1,"name":"a","size":2}'})
    tenant.client.create(space.pods(), alone)
    grown = {names.GANG: f'{{"v":1,"name":"a",{size}}}'}
    tenant.client.patch(space.pods("p"), {"metadata": {"annotations": grown}})

    def is_told() -> bool:
        return "is above queue.maxGangSize" in space.packed("p").get("message", "")

    waiting.wait_until(is_told, "word that the gang is too large", SECONDS)


@pytest.fixture
def short_wait(workspace: Workspace) -> Iterator[int]:
    """After so many seconds a pod has waited too long."""
    before = workspace.client.get(POLICY)["spec"]["queue"]["maxWaitSeconds"]
    set_queue(workspace, maxWaitSeconds=10)
    yield 10
    set_queue(workspace, maxWaitSeconds=before)


def test_a_placeholder_keeps_no_place_for_pods_that_are_made_later(tenant: Tenant, short_wait: int) -> None:
    space, node = tenant.workspace, {"kubernetes.io/hostname": "t4-0"}
    for number in range(4):
        run_for = {"demo.cotenant.dev/run-for": "3600s"}
        tenant.client.create(space.pods(), pod_object(f"runs-{number}", 60, nodeSelector=node, annotations=run_for))
        space.bound_pod(f"runs-{number}")
    gang = {names.GANG: json.dumps({"v": 1, "name": "kept", "size": 2})}
    tenant.client.create(space.pods(), pod_object("placeholder", 1, nodeSelector=node, annotations=gang))
    space.pod("honest", 100, nodeSelector=node)
    waiting.wait_until(lambda: bool(space.packed("honest")), "told", SECONDS)
    created = datetime.fromisoformat(space.client.get(space.pods("honest"))["metadata"]["creationTimestamp"])
    long_enough = created + timedelta(seconds=short_wait + 2)
    waiting.wait_until(lambda: datetime.now(UTC) > long_enough, "honest has waited too long", SECONDS)
    tenant.client.create(space.pods(), pod_object("late", 100, nodeSelector=node, annotations=gang))
    waiting.wait_until(lambda: bool(space.packed("late")), "told", SECONDS)
    assert (places.position(space.packed("late")["message"]) or 0) > 1


def test_a_share_of_one_gets_no_gpu_whose_memory_it_takes_for_itself(tenant: Tenant) -> None:
    space = tenant.workspace
    quotas = clients.path_of("resourcequotas", namespace=space.namespace)
    hard = {f"requests.{names.GPU_SHARE}": "20"}
    space.client.create(quotas, {"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    most = {names.GPU_MEMORY: "126Gi", names.GPU_MODELS: "NVIDIA-H200"}
    for number in range(3):
        tenant.client.create(space.pods(), pod_object(f"p{number}", 1, annotations=most))
    for number in range(3):
        pod = f"p{number}"
        waiting.wait_until(lambda pod=pod: bool(space.packed(pod)), "told", SECONDS)  # type: ignore[misc]
        assert space.packed(pod)["reason"] == "InvalidRequest"
        assert "only for a gpu-share of at least 9" in space.packed(pod)["message"]
    tenant.client.create(space.pods(), pod_object("honest", 10, annotations=most | {names.GPU_MEMORY: "10Gi"}))
    space.bound_pod("honest")
    assert not any(space.client.get(space.pods(f"p{number}"))["spec"].get("nodeName") for number in range(3))


@pytest.mark.usefixtures("one_gpu_each")
def test_a_namespace_is_on_no_more_gpus_than_the_policy_allows(tenant: Tenant) -> None:
    space = tenant.workspace
    for name, share in (("first", 60), ("more", 60), ("beside", 40)):
        tenant.client.create(space.pods(), pod_object(name, share, annotations={"demo.cotenant.dev/run-for": "3600s"}))
        waiting.wait_until(lambda name=name: bool(space.packed(name)), "told", SECONDS)  # type: ignore[misc]
    space.bound_pod("first")
    space.bound_pod("beside")
    assert "beyond maxGPUsPerNamespace of the PackingPolicy" in space.packed("more")["message"]
    space.client.delete(space.pods("first"))
    space.client.delete(space.pods("beside"))
    space.bound_pod("more")
