"""Rollouts end where all GPUs are in use: beside the real Deployment controller."""

from typing import Final

from cluster.workloads import CONTAINER, SECONDS, Workspace, template
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

MODEL: Final = "Tesla-T4"


def second() -> Json:
    """The template with another image."""
    changed = template(run_for="")
    changed["spec"]["containers"] = [{**CONTAINER, "image": "registry.example/serve:2"}]
    return changed


def gpus(workspace: Workspace) -> int:
    """How many there are of the model."""
    nodes = workspace.client.items("/apis/cotenant.dev/v1alpha1/gpunodes")
    return sum(gpu["model"] == MODEL for node in nodes for gpu in node["status"]["gpus"])


def fill(workspace: Workspace) -> None:
    """Services of at most 3 replicas, of which by default none may be away, on all GPUs of the model."""
    left, sizes = gpus(workspace), [2]
    while (rest := left - sum(sizes)) > 0:
        sizes.append(min(rest, 3))
    services = ["serve", *(f"other-{number}" for number in range(1, len(sizes)))]
    spec: Json = {"workloadType": "Inference", "sharing": "Exclusive", "gpuModels": [MODEL]}
    for name, replicas in zip(services, sizes, strict=True):
        workspace.dljob(name, replicas=replicas, template=template(run_for=""), **spec)
    for name in services:
        workspace.wait_for_condition(name, "Ready", "True")


def images_of(workspace: Workspace, name: str) -> set[str]:
    pods = workspace.client.items(workspace.pods(), labelSelector=f"{names.DLJOB_LABEL}={name}")
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


def test_a_service_on_gpus_that_are_all_in_use_gets_its_new_image(workspace: Workspace) -> None:
    fill(workspace)
    workspace.client.patch(workspace.dljobs("serve"), {"spec": {"template": second()}})
    told = workspace.wait_for_condition("serve", "Ready", "False", "RollingOut")
    assert "of the former template" in told["message"] or "replicas are ready" in told["message"]
    waiting.wait_until(lambda: images_of(workspace, "serve") == {"registry.example/serve:2"}, "it", 3 * SECONDS)
    workspace.wait_for_condition("serve", "Ready", "True")
    path = f"{workspace.deployments()}/serve"
    assert workspace.client.get(path)["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    for other in workspace.client.items(workspace.deployments()):
        if other["metadata"]["name"] != "serve":
            workspace.client.delete(workspace.dljobs(other["metadata"]["name"]))
    workspace.client.patch(workspace.dljobs("serve"), {"spec": {"template": template(run_for="")}})
    waiting.wait_until(lambda: images_of(workspace, "serve") == {CONTAINER["image"]}, "the former image", SECONDS)
    default = {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert workspace.client.get(path)["spec"]["strategy"]["rollingUpdate"] == default


def test_what_a_former_template_was_refused_for_stalls_no_later_one(workspace: Workspace) -> None:
    """The Deployment goes on saying it: the former ReplicaSet is taken down when the new one's pod is available."""
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    workspace.client.patch(clients.path_of("namespaces", name=workspace.namespace), enforce)
    spec: Json = {"workloadType": "Inference", "sharing": "Exclusive", "gpuModels": ["No-Such-Model"]}
    workspace.dljob("serve", model=workspace.graph("graph"), template=template(run_for=""), **spec)
    workspace.wait_for_condition("serve", "Stalled", "True", "PodCreationFailed")
    remedy = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    workspace.client.patch(workspace.dljobs("serve"), {"spec": {"template": template(run_for="", **remedy)}})
    waiting.wait_until(lambda: workspace.client.items(workspace.pods()), "a pod", SECONDS)
    workspace.wait_for_condition("serve", "Stalled", "False")
    said = workspace.client.get(f"{workspace.deployments()}/serve")["status"]["conditions"]
    assert "ReplicaFailure" in {condition["type"] for condition in said}
