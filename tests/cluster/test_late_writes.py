"""What refuses a late write rests on: the real API server compares the version that a write carries."""

from typing import Final

import pytest

from cluster.workloads import Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import nodes
from cotenant_e2e.client import APIError, Json

APPLY: Final = "application/apply-patch+yaml"
AGENT: Final = "cotenant-node-agent"


def refused(workspace: Workspace, method: str, path: str, body: Json, *, content_type: str) -> bool:
    """Whether a write is refused because the object has changed since."""
    with pytest.raises(APIError) as caught:
        workspace.client.request(method, path, body, content_type=content_type)
    return (caught.value.code, caught.value.reason) == (409, "Conflict")


def version(item: Json) -> str:
    return str(item["metadata"]["resourceVersion"])


def touched(workspace: Workspace, path: str) -> Json:
    """An object as it was before somebody wrote to it."""
    before = workspace.client.get(path)
    note = {"metadata": {"annotations": {"example.com/touched": version(before)}}}
    workspace.client.patch(path, note)
    return before


def test_a_gpunodes_status_that_was_decided_on_an_older_version_is_refused(workspace: Workspace) -> None:
    node = nodes.demo()[0]["metadata"]["name"]
    path = clients.path_of("gpunodes", group="cotenant.dev", version="v1alpha1", name=node)
    before = touched(workspace, path)
    status = {key: before["status"][key] for key in ("simulated", "agentVersion") if key in before["status"]}
    late = {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": node, "resourceVersion": version(before)},
        "status": status,
    }
    url = f"{path}/status?fieldManager={AGENT}-test&force=true"
    assert refused(workspace, "PATCH", url, late, content_type=APPLY)


def test_a_status_that_was_decided_on_a_gpunode_that_was_made_again_is_refused(workspace: Workspace) -> None:
    collection = clients.path_of("gpunodes", group="cotenant.dev", version="v1alpha1")
    name = f"{workspace.namespace}-again"
    empty = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": name}}
    former = workspace.client.create(collection, empty)
    workspace.client.delete(f"{collection}/{name}")
    workspace.client.create(collection, empty)
    on = {"uid": former["metadata"]["uid"], "resourceVersion": version(former)}
    late = {**empty, "metadata": {"name": name, **on}, "status": {"nonce": "late"}}
    url = f"{collection}/{name}/status?fieldManager={AGENT}-test&force=true"
    try:
        assert refused(workspace, "PATCH", url, late, content_type=APPLY)
    finally:
        workspace.client.delete(f"{collection}/{name}")


def test_a_renewal_is_refused_where_its_lease_was_renewed_deleted_or_made_again_since(workspace: Workspace) -> None:
    path = clients.path_of("leases", group="coordination.k8s.io", namespace=workspace.namespace)
    name, url = "node-n1", f"{path}/node-n1?fieldManager={AGENT}-test&force=true"
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}

    def renewal(on: Json, holder: str) -> Json:
        metadata = {"name": name, "uid": on["metadata"]["uid"], "resourceVersion": version(on)}
        return {**kind, "metadata": metadata, "spec": {"holderIdentity": holder}}

    made = workspace.client.create(path, {**kind, "metadata": {"name": name}, "spec": {"holderIdentity": "n0"}})
    renewed: Json = workspace.client.request("PATCH", url, renewal(made, "n1"), content_type=APPLY)
    assert refused(workspace, "PATCH", url, renewal(made, "late"), content_type=APPLY)
    # This is how an agent reads its Lease.
    assert workspace.client.patch(f"{path}/{name}", {}) == renewed
    workspace.client.delete(f"{path}/{name}")
    assert refused(workspace, "PATCH", url, renewal(renewed, "late"), content_type=APPLY)
    workspace.client.create(path, {**kind, "metadata": {"name": name}, "spec": {"holderIdentity": "n2"}})
    assert refused(workspace, "PATCH", url, renewal(renewed, "late"), content_type=APPLY)
    assert workspace.client.get(f"{path}/{name}")["spec"]["holderIdentity"] == "n2"


def test_only_a_status_that_differs_moves_the_version_so_that_each_carries_another_nonce(workspace: Workspace) -> None:
    collection = clients.path_of("gpunodes", group="cotenant.dev", version="v1alpha1")
    name = f"{workspace.namespace}-nowhere"
    kind = {"apiVersion": names.API_VERSION, "kind": "GPUNode"}
    made = workspace.client.create(collection, {**kind, "metadata": {"name": name}})
    url = f"{collection}/{name}/status?fieldManager={AGENT}-test&force=true"

    def applied(seen: Json, nonce: str) -> Json:
        body = {**kind, "metadata": {"name": name, "resourceVersion": version(seen)}, "status": {"nonce": nonce}}
        answer: Json = workspace.client.request("PATCH", url, body, content_type=APPLY)
        return answer

    try:
        first = applied(made, "1")
        assert version(applied(first, "1")) == version(first)
        assert version(applied(first, "2")) != version(first)
        late = {**kind, "metadata": {"name": name, "resourceVersion": version(first)}, "status": {"nonce": "late"}}
        assert refused(workspace, "PATCH", url, late, content_type=APPLY)
    finally:
        workspace.client.delete(f"{collection}/{name}")


def test_a_deployments_template_that_was_decided_on_an_older_version_is_refused(workspace: Workspace) -> None:
    model = workspace.graph("graph")
    workspace.dljob("serve", model=model, workloadType="Inference", template=template(run_for=""))
    workspace.wait_for_phase("serve", Phase.RUNNING)
    path = clients.path_of("deployments", group="apps", namespace=workspace.namespace, name="serve")
    before = touched(workspace, path)
    metadata = {"name": "serve", "uid": before["metadata"]["uid"], "resourceVersion": version(before)}
    late = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": before["spec"]}
    url = f"{path}?fieldManager=cotenant-operator&force=true"
    assert refused(workspace, "PATCH", url, late, content_type=APPLY)


def test_a_jobs_suspension_and_a_dljobs_deletion_that_were_decided_on_older_versions_are_refused(
    workspace: Workspace,
) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for=""))
    workspace.wait_for_phase("train", Phase.RUNNING)
    path = clients.path_of("jobs", group="batch", namespace=workspace.namespace, name="train-1")
    before = touched(workspace, path)
    metadata = {"uid": before["metadata"]["uid"], "resourceVersion": version(before)}
    late = {"metadata": metadata, "spec": {"suspend": True}}
    assert refused(workspace, "PATCH", path, late, content_type=clients.MERGE_PATCH)
    before = touched(workspace, workspace.dljobs("train"))
    wanted = {"uid": before["metadata"]["uid"], "resourceVersion": version(before)}
    options = {"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "preconditions": wanted}
    assert refused(workspace, "DELETE", workspace.dljobs("train"), options, content_type="application/json")
    assert workspace.client.get(workspace.dljobs("train"))
