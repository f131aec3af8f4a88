"""What the API server refuses, with the field and the remedy; and what it adds."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.workloads import CONTAINER, Workspace, pod_object, template
from cotenant_api import names
from cotenant_api.names import Namespace, PodUID
from cotenant_deviceplugin.kube import manifests
from cotenant_e2e import client as clients
from cotenant_e2e import installation
from cotenant_e2e.client import Client, Json

Refused = Callable[[Callable[[], Any]], str]

INFERENCE = {"workloadType": "Inference"}
SHARED_CONTAINER = CONTAINER | {"resources": {"limits": {names.GPU_SHARE: "10"}}}


@pytest.mark.parametrize(
    ("spec", "path", "remedy"),
    [
        ({"replicas": 0}, "spec.replicas", "use suspend"),
        ({"replicas": -1}, "spec.replicas", "greater than or equal to 0"),
        ({"gpusPerReplica": 0}, "spec.gpusPerReplica", "greater than or equal to 1"),
        ({"workloadType": "Both"}, "spec.workloadType", 'supported values: "Training", "Inference"'),
        ({"model": {"configMapRef": {"name": "a"}, "features": {}}}, "spec.model", "at most one of"),
        ({"model": {"configMapRef": {}}}, "spec.model.configMapRef.name", "Required value"),
        ({"batchSize": 8}, "spec.batchSize", "remove it"),
        ({"slo": {"latencyMilliseconds": 10}}, "spec.slo", "workloadType: Inference"),
        (INFERENCE | {"backoffLimit": 1}, "spec.backoffLimit", "remove it"),
        (INFERENCE | {"activeDeadlineSeconds": 1}, "spec.activeDeadlineSeconds", "remove it"),
        (INFERENCE | {"ttlSecondsAfterFinished": 1}, "spec.ttlSecondsAfterFinished", "remove it"),
        (INFERENCE | {"template": template(restartPolicy="Never")}, "spec.template.spec.restartPolicy", "Always"),
        ({"template": template(restartPolicy="OnFailure")}, "spec.template.spec.restartPolicy", "must be Never"),
        ({"template": template(nodeName="n1")}, "spec.template.spec.nodeName", "remove nodeName"),
        ({"template": template(schedulerName="mine")}, "spec.template.spec.schedulerName", "must be cotenant"),
        ({"template": template(hostPID=True)}, "spec.template.spec.hostPID", "remove hostPID"),
        ({"template": template(hostIPC=True)}, "spec.template.spec.hostIPC", "remove hostIPC"),
        ({"template": template(containers=[])}, "spec.template.spec.containers", "at least 1"),
        ({"template": template(containers=[SHARED_CONTAINER])}, "containers[0].resources.limits", "the operator asks"),
        (
            {"template": template(containers=[CONTAINER | {"securityContext": {"privileged": True}}])},
            "containers[0].securityContext.privileged",
            "remove privileged",
        ),
        ({"template": {"metadata": {}}}, "spec.template.spec", "Required value"),
        ({"container": "other"}, "spec.container", "must name a container"),
        ({"gpuMemory": "0"}, "spec.gpuMemory", 'such as "10Gi"'),
        ({"gpuMemory": "lots"}, "spec.gpuMemory", "should match"),
        ({"gpuModels": ["a", "a"]}, "spec.gpuModels[1]", "Duplicate value"),
        ({"sharing": "Maybe"}, "spec.sharing", 'supported values: "Shared", "Exclusive"'),
        ({"oomPolicy": {"growthPercent": 100}}, "spec.oomPolicy.growthPercent", "greater than or equal to 101"),
    ],
)
def test_a_contradictory_dljob_is_refused_with_field_and_remedy(
    workspace: Workspace, refused: Refused, spec: Json, path: str, remedy: str
) -> None:
    message = refused(lambda: workspace.dljob("bad", **spec))
    assert path in message
    assert remedy in message


def test_a_dljob_without_template_is_refused(workspace: Workspace, refused: Refused) -> None:
    body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": "bad"}, "spec": {}}
    assert "spec.template: Required value" in refused(lambda: workspace.client.create(workspace.dljobs(), body))


def test_a_name_that_leaves_no_room_for_its_pods_is_refused(workspace: Workspace, refused: Refused) -> None:
    assert "at most 52 characters" in refused(lambda: workspace.dljob("a" * 53))


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"workloadType": "Inference"}, "workloadType is immutable"),
        ({"replicas": 2}, "replicas of a training job is immutable"),
        ({"gpusPerReplica": 2}, "gpusPerReplica of a training job is immutable"),
    ],
)
def test_what_a_training_job_is_made_of_cannot_change(
    workspace: Workspace, refused: Refused, patch: Json, message: str
) -> None:
    workspace.dljob("fixed", suspend=True)
    assert message in refused(lambda: workspace.client.patch(workspace.dljobs("fixed"), {"spec": patch}))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"maxTenantsPerGPU": 0}, "greater than or equal to 1"),
        ({"placement": "Psychic"}, 'supported values: "FirstFit"'),
        ({"tenancy": "Label"}, "tenancyLabel must be set with tenancy Label"),
        ({"tenancyLabel": "team"}, "tenancyLabel must be set with tenancy Label"),
        ({"overrides": [{"gpuModels": ["a"]}, {"gpuModels": ["a"]}]}, "name each GPU model once"),
        ({"placement": "MemoryOnly", "threadPartition": "Proportional"}, "must not be Proportional with placement"),
        (
            {"placement": "MemoryOnly", "overrides": [{"gpuModels": ["a"], "threadPartition": "Proportional"}]},
            "must not be Proportional with placement",
        ),
    ],
)
def test_a_bad_policy_is_refused(workspace: Workspace, refused: Refused, spec: Json, message: str) -> None:
    path = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
    assert message in refused(lambda: workspace.client.patch(path, {"spec": spec}))


def test_there_is_one_policy(workspace: Workspace, refused: Refused) -> None:
    path = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION)
    body = {"apiVersion": names.API_VERSION, "kind": "PackingPolicy", "metadata": {"name": "second"}, "spec": {}}
    assert "metadata.name must be default" in refused(lambda: workspace.client.create(path, body))


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (pod_object("p", 150), "150 must be 1 to 100 hundredths of one GPU"),
        (pod_object("p", 0), "must be 1 to 100 hundredths"),
        (pod_object("p", nodeName="h200-0"), "spec.nodeName: remove it"),
        (pod_object("p", schedulerName="mine"), "spec.schedulerName: must be cotenant"),
        (pod_object("p", hostPID=True), "remove hostPID"),
        (pod_object("p", hostIPC=True), "remove hostIPC"),
        (pod_object("p", initContainers=[SHARED_CONTAINER | {"name": "init"}]), "spec.initContainers"),
        (
            pod_object("p", containers=[SHARED_CONTAINER, SHARED_CONTAINER | {"name": "second"}]),
            "exactly one container",
        ),
        (
            pod_object("p", containers=[SHARED_CONTAINER | {"securityContext": {"privileged": True}}]),
            "remove securityContext.privileged",
        ),
        (pod_object("p", annotations={names.GPU_MEMORY: "lots"}), 'such as "8Gi"'),
        (pod_object("p", annotations={names.WORKLOAD_TYPE: "Play"}), "must be Training or Inference"),
        (pod_object("p", annotations={names.PREDICTION: "x" * 8193}), "at most 8 KiB"),
        (pod_object("p", annotations={names.PLACEMENT: "{}"}), "only the extender writes a placement"),
        (pod_object("p", annotations={names.EARMARK: "{}"}), "only the extender writes an earmark"),
    ],
)
def test_a_pod_that_cannot_be_served_is_refused_with_the_remedy(
    workspace: Workspace, refused: Refused, pod: Json, message: str
) -> None:
    assert message in refused(lambda: workspace.client.create(workspace.pods(), pod))


def test_a_pod_that_asks_for_a_share_gets_our_scheduler_and_gate(workspace: Workspace) -> None:
    created = workspace.client.create(f"{workspace.pods()}?dryRun=All", pod_object("p"))
    assert created["spec"]["schedulerName"] == names.SCHEDULER_NAME
    assert created["spec"]["schedulingGates"] == [{"name": names.PACKING_GATE}]


def test_gates_of_others_stay(workspace: Workspace) -> None:
    gated = pod_object("p", schedulingGates=[{"name": "example.org/quota"}])
    created = workspace.client.create(f"{workspace.pods()}?dryRun=All", gated)
    assert {gate["name"] for gate in created["spec"]["schedulingGates"]} == {names.PACKING_GATE, "example.org/quota"}


def test_a_pod_that_asks_for_no_share_is_left_alone(workspace: Workspace) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    created = workspace.client.create(f"{workspace.pods()}?dryRun=All", body)
    assert created["spec"]["schedulerName"] == "default-scheduler"
    assert "schedulingGates" not in created["spec"]


def binding(name: str, annotations: Json) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": "h200-0"}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def test_a_forged_placement_is_refused_on_every_way_in(workspace: Workspace, refused: Refused) -> None:
    client, forged = workspace.client, {names.PLACEMENT: "{}"}
    workspace.pod("p", schedulingGates=[{"name": "example.org/hold"}])
    ways: dict[str, Callable[[], Any]] = {
        "update": lambda: client.patch(workspace.pods("p"), {"metadata": {"annotations": forged}}),
        "status": lambda: client.patch(f"{workspace.pods('p')}/status", {"metadata": {"annotations": forged}}),
        "pods/binding": lambda: client.create(f"{workspace.pods('p')}/binding", binding("p", forged)),
        "bindings": lambda: client.create(
            clients.path_of("bindings", namespace=workspace.namespace), binding("p", forged)
        ),
    }
    for way, attempt in ways.items():
        assert "only the extender writes a placement" in refused(attempt), way


def test_a_binding_carries_no_other_annotation_of_ours(workspace: Workspace, refused: Refused) -> None:
    workspace.pod("p", schedulingGates=[{"name": "example.org/hold"}])
    body = binding("p", {names.GPU_MEMORY: "1Gi"})
    assert "a Binding carries no annotation" in refused(
        lambda: workspace.client.create(f"{workspace.pods('p')}/binding", body)
    )


@pytest.mark.parametrize("value", ["{}", None])
def test_nobody_changes_or_removes_a_placement(workspace: Workspace, refused: Refused, value: str | None) -> None:
    workspace.pod("p")
    workspace.bound_pod("p")
    patch = {"metadata": {"annotations": {names.PLACEMENT: value}}}
    for client in (workspace.client, scheduler_client(workspace)):
        refused(lambda client=client: client.patch(workspace.pods("p"), patch))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"metadata": {"labels": {"a": "b"}}}, "may not change labels"),
        ({"metadata": {"annotations": {names.GPU_MEMORY: "1Gi"}}}, "may change cotenant.dev/earmark alone"),
        ({"spec": {"schedulingGates": None}}, "may remove cotenant.dev/packing alone"),
        ({"spec": {"activeDeadlineSeconds": 1}}, "may change nothing but the gate"),
        ({"metadata": {"finalizers": ["example.org/kept"]}}, "may not change labels, finalizers or owners"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, "may change nothing but the gate"),
    ],
)
def test_the_schedulers_account_may_change_only_gate_and_earmark(
    workspace: Workspace, refused: Refused, patch: Json, message: str
) -> None:
    workspace.pod("p", schedulingGates=[{"name": "example.org/hold"}])
    client = scheduler_client(workspace)
    assert message in refused(lambda: client.patch(workspace.pods("p"), patch))


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"status": {"phase": "Succeeded"}}, "may write conditions and the nominated node alone"),
        ({"metadata": {"annotations": {names.EARMARK: "{}"}}}, "only the extender writes an earmark"),
        ({"metadata": {"labels": {"a": "b"}}}, "may not change labels"),
    ],
)
def test_the_schedulers_account_writes_conditions_alone_to_a_status(
    workspace: Workspace, refused: Refused, patch: Json, message: str
) -> None:
    workspace.pod("p", schedulingGates=[{"name": "example.org/hold"}])
    client = scheduler_client(workspace)
    assert message in refused(lambda: client.patch(f"{workspace.pods('p')}/status", patch))


def test_what_the_extender_writes_is_accepted(workspace: Workspace) -> None:
    workspace.pod("p", schedulingGates=[{"name": "example.org/hold"}])
    client, path = scheduler_client(workspace), workspace.pods("p")
    lift = {
        "metadata": {"annotations": {names.EARMARK: "{}"}},
        "spec": {"schedulingGates": [{"name": "example.org/hold"}]},
    }
    condition = {"type": names.PACKED, "status": "False", "reason": "Waiting", "message": "by a test"}
    client.patch(f"{path}?dryRun=All", lift)
    client.patch(f"{path}/status?dryRun=All", {"status": {"conditions": [condition]}})


def test_an_earmark_is_refused_to_others(workspace: Workspace, refused: Refused) -> None:
    workspace.pod("p", schedulingGates=[{"name": "example.org/hold"}])
    patch = {"metadata": {"annotations": {names.EARMARK: "{}"}}}
    for path in (workspace.pods("p"), f"{workspace.pods('p')}/status"):
        message = refused(lambda path=path: workspace.client.patch(path, patch))  # type: ignore[misc]
        assert "only the extender writes an earmark" in message


def test_an_agent_writes_only_what_belongs_to_its_node(workspace: Workspace, refused: Refused) -> None:
    token = workspace.installation.cluster.token(names.RELEASE_NAMESPACE, names.NODE_AGENT_ACCOUNT, bound_node="h200-0")
    agent = workspace.installation.cluster.client_for_token(token)
    status = {"status": {"agentVersion": "forged"}}
    other = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION, name="h200-1")
    assert "may not write gpunodes/h200-1" in refused(lambda: agent.patch(f"{other}/status", status))
    lease = clients.path_of(
        "leases", group="coordination.k8s.io", namespace=names.RELEASE_NAMESPACE, name="node-h200-1"
    )
    assert "may not write leases/node-h200-1" in refused(
        lambda: agent.patch(lease, {"spec": {"holderIdentity": "forged"}})
    )
    node = clients.path_of("nodes", name="h200-0")
    assert "may remove the taint" in refused(lambda: agent.patch(node, {"metadata": {"labels": {"a": "b"}}}))
    client, key = workspace.client, "example.org/other"
    taints = [{"key": taint, "effect": "PreferNoSchedule"} for taint in (*names.STARTUP_TAINTS, key)]
    client.patch(node, {"spec": {"taints": taints}})
    assert "may remove the taint" in refused(lambda: agent.patch(node, {"spec": {"taints": taints[:1]}}))
    agent.patch(node, {"spec": {"taints": taints[-1:]}})
    client.patch(node, {"spec": {"taints": None}})


def test_an_agent_evicts_the_one_pod_that_it_means(workspace: Workspace, refused: Refused) -> None:
    token = workspace.installation.cluster.token(names.RELEASE_NAMESPACE, names.NODE_AGENT_ACCOUNT, bound_node="h200-0")
    agent = workspace.installation.cluster.client_for_token(token)
    workspace.pod("p", schedulingGates=[{"name": "example.org/hold"}])
    uid = workspace.client.get(workspace.pods("p"))["metadata"]["uid"]
    subject = manifests.Subject(PodUID(uid), Namespace(workspace.namespace), "p")
    path, eviction = f"{workspace.pods('p')}/eviction", dict(manifests.eviction(subject))
    unnamed = {key: value for key, value in eviction.items() if key != "deleteOptions"}
    assert "evicts the one pod that it means" in refused(lambda: agent.create(path, unnamed))
    other = {**eviction, "deleteOptions": {"preconditions": {"uid": "another"}}}
    with pytest.raises(clients.APIError, match="409"):
        agent.create(path, other)
    agent.create(path, eviction)


def test_an_agent_tells_about_pods_and_as_itself(workspace: Workspace, refused: Refused) -> None:
    token = workspace.installation.cluster.token(names.RELEASE_NAMESPACE, names.NODE_AGENT_ACCOUNT, bound_node="h200-0")
    agent = workspace.installation.cluster.client_for_token(token)
    subject = manifests.Subject(PodUID("u"), Namespace(workspace.namespace), "p")
    event = manifests.event(subject, reason="GPURefused", message="m", now=datetime.now(UTC))
    path = clients.path_of("events", namespace=workspace.namespace)
    forged = {**event, "reportingComponent": "kubelet"}
    assert "as cotenant-node-agent" in refused(lambda: agent.create(path, forged))
    agent.create(path, dict(event))


def test_an_agents_token_without_a_node_writes_nothing(workspace: Workspace, refused: Refused) -> None:
    token = workspace.installation.cluster.token(names.RELEASE_NAMESPACE, names.NODE_AGENT_ACCOUNT)
    agent = workspace.installation.cluster.client_for_token(token)
    path = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION, name="h200-0")
    assert "must be bound to a Node" in refused(lambda: agent.patch(f"{path}/status", {"status": {}}))


def scheduler_client(workspace: Workspace) -> Client:
    cluster = workspace.installation.cluster
    return cluster.client_for_token(cluster.token(names.RELEASE_NAMESPACE, names.SCHEDULER_ACCOUNT))


def test_every_manifest_is_installed_again_without_a_change(workspace: Workspace) -> None:
    printed = workspace.installation.cluster.kubectl(
        "diff", "--server-side", "--kustomize", str(installation.MANIFESTS)
    )
    assert printed == ""
