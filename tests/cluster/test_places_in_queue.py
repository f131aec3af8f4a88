"""A place in the queue counts from when the pods could be placed: tried by a tenant with the role `edit`.

Nobody else waits for the node that these tests use, so who is before whom shows in the conditions of the pods.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, RUN_FOR, SECONDS, Workspace, pod_object, template
from cotenant_api import names, places
from cotenant_api.dljob import Phase
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

NODE: Final = {"kubernetes.io/hostname": "t4-0"}
HOLD: Final = "example.org/hold"


def busy(space: Workspace, gpus: int = 4) -> None:
    """All GPUs of the node are in use."""
    for number in range(gpus):
        space.pod(f"runs-{number}", 100, nodeSelector=NODE, annotations={RUN_FOR: "3600s"})
        space.bound_pod(f"runs-{number}")


def honest(space: Workspace) -> None:
    """Somebody who waits for the node from now on, at least a second longer than whoever comes next."""
    time.sleep(1.1)
    space.pod("honest", 100, nodeSelector=NODE)
    waiting.wait_until(lambda: bool(space.packed("honest")), "told", SECONDS)
    time.sleep(1.1)


def submit(tenant: Tenant, name: str, **spec: Any) -> None:
    """A DLJob of whole GPUs, by the tenant."""
    body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": name}}
    made = {"template": template(run_for="", nodeSelector=NODE), "sharing": "Exclusive"} | spec
    tenant.client.create(tenant.workspace.dljobs(), body | {"spec": made})


def edit(tenant: Tenant, name: str, **spec: Any) -> None:
    tenant.client.patch(tenant.workspace.dljobs(name), {"spec": spec})


def waiting_pods(space: Workspace, name: str) -> list[Json]:
    """The pods of a DLJob that have no node, and do not go."""
    pods = space.client.items(space.pods(), labelSelector=f"{names.DLJOB_LABEL}={name}")
    return [pod for pod in pods if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]


def place(space: Workspace, pod: Callable[[], str]) -> int:
    """A pod's place in the queue, when it was told one."""

    def found() -> int | None:
        name = pod()
        return places.position(space.packed(name).get("message", "")) if name else None

    waiting.wait_until(lambda: found() is not None, "a place in the queue", SECONDS)
    return found() or 0


def of_dljob(space: Workspace, name: str) -> Callable[[], str]:
    """Asks for the one pod of a DLJob that waits."""

    def pod() -> str:
        found = waiting_pods(space, name)
        return str(found[0]["metadata"]["name"]) if found else ""

    return pod


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"suspend": True}, {"suspend": False}),
        ({"workloadType": "Inference", "suspend": True}, {"suspend": False}),
        ({"workloadType": "Inference", "replicas": 0}, {"replicas": 1}),
    ],
    ids=["suspended", "suspended-service", "no-replicas"],
)
def test_a_dljob_without_pods_keeps_no_place_for_those_that_are_made_later(
    tenant: Tenant, before: Json, after: Json
) -> None:
    space = tenant.workspace
    submit(tenant, "aged", **before)
    space.wait_for_condition("aged", "Placed", "False")
    busy(space)
    honest(space)
    edit(tenant, "aged", **after)
    assert place(space, of_dljob(space, "aged")) == 2


def test_a_dljob_that_had_pods_and_was_suspended_waits_from_when_it_is_resumed(tenant: Tenant) -> None:
    space = tenant.workspace
    submit(tenant, "aged")
    space.wait_for_phase("aged", Phase.RUNNING)
    edit(tenant, "aged", suspend=True)
    waiting.wait_until(lambda: not space.client.items(space.pods()), "no pods", SECONDS)
    busy(space)
    honest(space)
    edit(tenant, "aged", suspend=False)
    assert place(space, of_dljob(space, "aged")) == 2
    (job,) = space.client.items(space.jobs())
    assert job["metadata"]["name"] == "aged-1"


def test_a_service_that_is_scaled_up_has_no_place_for_the_pods_that_it_adds(tenant: Tenant) -> None:
    space = tenant.workspace
    submit(tenant, "aged", workloadType="Inference")
    space.wait_for_phase("aged", Phase.RUNNING)
    busy(space, gpus=3)
    honest(space)
    edit(tenant, "aged", replicas=3)
    waiting.wait_until(lambda: len(waiting_pods(space, "aged")) == 2, "two more pods", SECONDS)
    assert place(space, of_dljob(space, "aged")) >= 2


def test_a_service_that_is_rolled_keeps_the_gpu_that_it_has(tenant: Tenant) -> None:
    space = tenant.workspace
    submit(tenant, "serve", workloadType="Inference", gpuMemory="4Gi")
    space.wait_for_phase("serve", Phase.RUNNING)
    busy(space, gpus=3)
    honest(space)
    changed = template(run_for="", nodeSelector=NODE)
    changed["spec"]["containers"] = [{**CONTAINER, "image": "registry.example/serve:2"}]
    edit(tenant, "serve", template=changed, gpuMemory="2Gi")

    def serves() -> bool:
        pods = space.client.items(space.pods(), labelSelector=f"{names.DLJOB_LABEL}=serve")
        return [(pod["spec"]["containers"][0]["image"], bool(pod["spec"].get("nodeName"))) for pod in pods] == [
            ("registry.example/serve:2", True)
        ]

    waiting.wait_until(serves, "the pod of the new template placed", SECONDS)
    assert "nodeName" not in space.client.get(space.pods("honest"))["spec"]


def test_a_pod_takes_no_place_by_a_label(tenant: Tenant) -> None:
    space = tenant.workspace
    for name, more in (("old", {"annotations": {RUN_FOR: "3600s"}}), ("new", {})):
        pod = pod_object(name, 100, nodeSelector=NODE, **more)
        pod["metadata"]["labels"] = {names.DLJOB_LABEL: "nobodys", names.DLJOB_UID_LABEL: "nobodys"}
        tenant.client.create(space.pods(), pod)
        if name == "old":
            space.bound_pod("old")
            busy(space, gpus=3)
            honest(space)
    assert place(space, lambda: "new") == 2
    space.client.delete(space.pods("old"), gracePeriodSeconds="0")
    space.bound_pod("honest")


def test_a_pod_whose_author_changes_its_image_waits_from_then(tenant: Tenant) -> None:
    space = tenant.workspace
    busy(space)
    tenant.client.create(space.pods(), pod_object("aged", 100, nodeSelector=NODE))
    honest(space)
    changed = [{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example/other:1"}]
    tenant.client.patch(space.pods("aged"), changed, content_type="application/json-patch+json")
    waiting.wait_until(lambda: places.position(space.packed("aged").get("message", "")) == 2, "second place", SECONDS)


def test_a_pod_behind_a_gate_of_its_author_waits_from_when_that_goes(tenant: Tenant) -> None:
    space = tenant.workspace
    busy(space)
    aged = pod_object("aged", 100, nodeSelector=NODE, schedulingGates=[{"name": HOLD}])
    tenant.client.create(space.pods(), aged)
    honest(space)
    gates = space.client.get(space.pods("aged"))["spec"]["schedulingGates"]
    kept = [gate for gate in gates if gate["name"] != HOLD]
    tenant.client.patch(space.pods("aged"), {"spec": {"schedulingGates": kept}})
    assert place(space, lambda: "aged") == 2


def test_a_pod_whose_author_asks_for_other_gpus_waits_from_then(tenant: Tenant) -> None:
    space = tenant.workspace
    busy(space)
    aged = pod_object("aged", 100, nodeSelector=NODE, annotations={names.GPU_MODELS: "No-Such-Model"})
    tenant.client.create(space.pods(), aged)
    honest(space)
    tenant.client.patch(space.pods("aged"), {"metadata": {"annotations": {names.GPU_MODELS: "Tesla-T4"}}})

    def behind() -> bool:
        return places.position(space.packed("aged").get("message", "")) == 2

    waiting.wait_until(behind, "the second place", SECONDS)
