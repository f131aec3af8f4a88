"""The objects of an extraction on a real control plane: who may write what, and that nothing of them is left."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from cluster.workloads import CONTAINER, SECONDS, Workspace, graph_document, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.client import Client, Json

ENTRYPOINT: Json = {"entrypoint": {"callable": "models:build"}}
RBAC = "rbac.authorization.k8s.io"
KINDS = (("jobs", "batch"), ("serviceaccounts", ""), ("roles", RBAC), ("rolebindings", RBAC), ("configmaps", ""))


def made(workspace: Workspace, plural: str, group: str = "") -> list[Json]:
    """What there is of extractions of one kind."""
    path = clients.path_of(plural, group=group, namespace=workspace.namespace)
    return workspace.client.items(path, labelSelector=f"{names.GROUP}/extraction")


def begun(workspace: Workspace, **spec: Any) -> str:
    """Apply a DLJob; the name of its extraction's Job once its pod runs."""
    workspace.dljob("train", **{"model": ENTRYPOINT, "batchSize": 32, "template": template(run_for="2s"), **spec})
    waiting.wait_until(lambda: running(workspace), "the pod of the extraction", SECONDS)
    (job,) = made(workspace, "jobs", "batch")
    return str(job["metadata"]["name"])


def running(workspace: Workspace) -> bool:
    return any(pod["status"].get("phase") == "Running" for pod in made(workspace, "pods"))


def account(workspace: Workspace, name: str) -> Client:
    """Talks to the API server as an account of the namespace."""
    cluster = workspace.installation.cluster
    return cluster.client_for_token(cluster.token(workspace.namespace, name))


def rules(client: Client, namespace: str) -> list[Json]:
    """What somebody may do in a namespace, as the API server lists it."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = client.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
    return list(answer["status"]["resourceRules"])


def result(workspace: Workspace) -> str:
    """The path of the ConfigMap that takes the graph."""
    names_found = [found["metadata"]["name"] for found in made(workspace, "configmaps")]
    (name,) = [name for name in names_found if "-graph-" in name]
    return clients.path_of("configmaps", namespace=workspace.namespace, name=name)


def test_account_of_an_extraction_may_patch_its_one_config_map_and_nothing_else(
    workspace: Workspace, refused: Callable[[Callable[[], Any]], str]
) -> None:
    job = begun(workspace)
    theirs, anybody = account(workspace, job), account(workspace, "default")
    path = result(workspace)
    allowed = [rule for rule in rules(theirs, workspace.namespace) if rule not in rules(anybody, workspace.namespace)]
    assert [(rule["verbs"], rule["resources"], rule["resourceNames"]) for rule in allowed] == [
        (["patch"], ["configmaps"], [path.rpartition("/")[2]])
    ]
    theirs.patch(path, {"data": {"a": "b"}})
    other = clients.path_of("configmaps", namespace=workspace.namespace, name="kube-root-ca.crt")
    assert "forbidden" in refused(lambda: theirs.patch(other, {"data": {"a": "b"}}))
    assert "forbidden" in refused(lambda: theirs.get(path))


def test_graph_that_the_account_writes_is_predicted_from_and_nothing_is_left(workspace: Workspace) -> None:
    job = begun(workspace)
    assert workspace.condition("train", "Predicted")["reason"] == "ExtractionRunning"
    assert workspace.condition("train", "Queued")["reason"] == "PredictionPending"
    document = base64.b64encode(graph_document().packed()).decode()
    account(workspace, job).patch(result(workspace), {"binaryData": {"graph.json.gz": document}})
    end(workspace)
    workspace.wait_for_condition("train", "Predicted", "True")
    waiting.wait_until(lambda: not made(workspace, "serviceaccounts"), "no account", SECONDS)
    assert len(made(workspace, "configmaps")) == 1
    workspace.wait_for_phase("train", Phase.SUCCEEDED)
    waiting.wait_until(lambda: not leftovers(workspace), "nothing left", SECONDS)


def test_operator_that_is_killed_meanwhile_goes_on_where_it_stopped(workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    workspace.dljob("train", model=ENTRYPOINT, batchSize=32, template=template(run_for="2s"))
    waiting.wait_until(lambda: bool(made(workspace, "jobs", "batch")), "the Job of the extraction", SECONDS)
    cluster.kill(installation.OPERATOR)
    cluster.restart(installation.OPERATOR)
    waiting.wait_until(lambda: running(workspace), "the pod of the extraction", SECONDS)
    (job,) = made(workspace, "jobs", "batch")
    cluster.kill(installation.OPERATOR)
    document = base64.b64encode(graph_document().packed()).decode()
    account(workspace, job["metadata"]["name"]).patch(result(workspace), {"binaryData": {"graph.json.gz": document}})
    end(workspace)
    cluster.restart(installation.OPERATOR)
    workspace.wait_for_phase("train", Phase.SUCCEEDED)
    assert workspace.condition("train", "Predicted")["status"] == "True"
    waiting.wait_until(lambda: not leftovers(workspace), "nothing left", SECONDS)


def end(workspace: Workspace) -> None:
    """The pod's program ends well."""
    for pod in made(workspace, "pods"):
        notes = {"metadata": {"annotations": {"demo.cotenant.dev/run-for": "0s"}}}
        workspace.client.patch(workspace.pods(pod["metadata"]["name"]), notes)


def leftovers(workspace: Workspace) -> list[str]:
    return [found["metadata"]["name"] for plural, group in KINDS for found in made(workspace, plural, group)]


def test_deleted_dljob_leaves_nothing_of_its_extraction(workspace: Workspace) -> None:
    begun(workspace)
    workspace.client.delete(workspace.dljobs("train"))
    waiting.wait_until(lambda: not leftovers(workspace), "nothing left", SECONDS)


def test_changed_image_extracts_anew_and_the_former_goes(workspace: Workspace) -> None:
    former = begun(workspace)
    changed = {"spec": {"template": {"spec": {"containers": [{**CONTAINER, "image": "registry.example/other:2"}]}}}}
    workspace.client.patch(workspace.dljobs("train"), changed)
    waiting.wait_until(
        lambda: (
            [job["metadata"]["name"] for job in made(workspace, "jobs", "batch")] not in ([], [former])
            and len(made(workspace, "serviceaccounts")) == 1
        ),
        "another extraction alone",
        SECONDS,
    )


def test_onnx_file_of_a_claim_is_accepted_by_the_api_server(workspace: Workspace) -> None:
    model = {"onnx": {"path": "m.onnx", "claimName": "models"}}
    workspace.dljob("train", model=model, batchSize=32)
    waiting.wait_until(lambda: bool(made(workspace, "pods")), "the pod of the extraction", SECONDS)
    (pod,) = made(workspace, "pods")
    claims = [volume["persistentVolumeClaim"] for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert claims == [{"claimName": "models", "readOnly": True}]


@pytest.mark.parametrize("model", [ENTRYPOINT, {"onnx": {"path": "/m.onnx"}}])
def test_missing_batch_size_is_refused(
    workspace: Workspace, refused: Callable[[Callable[[], Any]], str], model: Json
) -> None:
    message = refused(lambda: workspace.dljob("train", model=model))
    assert "batchSize must be set with model.onnx and model.entrypoint" in message
