"""What the API server refuses, with the field and the remedy; and what it adds."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.workloads import CONTAINER, Workspace, pod_object, template
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation
from cotenant_e2e.client import Json

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
        (pod_object("p", nodeName="h200-0"), "spec.nodeName: h200-0: remove it"),
        (pod_object("p", schedulerName="mine"), "spec.schedulerName: mine: must be cotenant"),
        (pod_object("p", hostPID=True), "remove hostPID"),
        (pod_object("p", hostIPC=True), "remove hostIPC"),
        (pod_object("p", initContainers=[SHARED_CONTAINER | {"name": "init"}]), "spec.initContainers"),
        (
            pod_object("p", containers=[SHARED_CONTAINER, SHARED_CONTAINER | {"name": "second"}]),
            "exactly one container",
        ),
        (
            pod_object("p", containers=[SHARED_CONTAINER | {"securityContext": {"privileged": True}}], hostUsers=False),
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


def test_every_manifest_is_installed_again_without_a_change(workspace: Workspace) -> None:
    printed = workspace.installation.cluster.kubectl(
        "diff", "--server-side", "--kustomize", str(installation.MANIFESTS)
    )
    assert printed == ""
