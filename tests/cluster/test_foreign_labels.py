"""A policy of others that labels every Job, as Kyverno does: ours says what to do, and then lets it be."""

from collections.abc import Iterator

import pytest

from cluster.workloads import SECONDS, Workspace
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

ADMISSION = "admissionregistration.k8s.io"
LABEL = "policies.example.com/cost-center"
OURS = clients.path_of("validatingadmissionpolicies", group=ADMISSION, name="cotenant-operator-writes")


def mutates() -> Json:
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}
    configuration = f"Object{{metadata: Object.metadata{{labels: {{'{LABEL}': 'research'}}}}}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": configuration}}
    return {
        "metadata": {"name": "labels-of-others"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [rule]},
            "mutations": [mutation],
        },
    }


@pytest.fixture
def labelled(workspace: Workspace) -> Iterator[Workspace]:
    """A namespace in which others label Jobs."""
    client, name = workspace.client, {"kubernetes.io/metadata.name": workspace.namespace}
    policies, bindings = (
        clients.path_of(f"mutatingadmissionpolic{end}", group=ADMISSION) for end in ("ies", "ybindings")
    )
    client.create(policies, mutates())
    spec = {"policyName": "labels-of-others", "matchResources": {"namespaceSelector": {"matchLabels": name}}}
    client.create(bindings, {"metadata": {"name": "labels-of-others"}, "spec": spec})
    before = client.get(OURS)["spec"]["variables"]
    yield workspace
    client.patch(OURS, {"spec": {"variables": before}})
    for path in (bindings, policies):
        client.delete(f"{path}/labels-of-others")


def jobs_are_labelled(workspace: Workspace) -> bool:
    """Return whether the API server has taken the policy up: by a Job that is only tried."""
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/train:1"}]}}
    tried = workspace.client.create(
        f"{workspace.jobs()}?dryRun=All", {"metadata": {"name": "tried"}, "spec": {"template": pod}}
    )
    return LABEL in tried["metadata"].get("labels", {})


def test_labels_of_others_are_refused_with_the_remedy_and_taken_when_it_is_applied(labelled: Workspace) -> None:
    waiting.wait_until(lambda: jobs_are_labelled(labelled), "the policy", SECONDS)
    labelled.dljob("train")
    told = labelled.wait_for_condition("train", "Queued", "False", "InvalidTemplate")
    assert "operator.foreignMetadata" in told["message"]
    variables = labelled.client.get(OURS)["spec"]["variables"]
    named = [
        one | {"expression": '["policies.example.com/"]'} if one["name"] == "foreign" else one for one in variables
    ]
    labelled.client.patch(OURS, {"spec": {"variables": named}})
    waiting.wait_until(lambda: is_taken(labelled), "a DLJob that runs", SECONDS)
    (job, *_) = labelled.client.items(labelled.jobs())
    assert job["metadata"]["labels"][LABEL] == "research"


def is_taken(workspace: Workspace) -> bool:
    """Return whether a DLJob runs: one that was refused is tried again when it is edited."""
    if workspace.client.find(workspace.dljobs("train")) is not None:
        workspace.client.delete(workspace.dljobs("train"))
    waiting.wait_until(lambda: workspace.client.find(workspace.dljobs("train")) is None, "no DLJob", SECONDS)
    workspace.dljob("train")
    waiting.wait_until(lambda: workspace.phase("train") != "", "a status", SECONDS)
    waiting.wait_until(lambda: workspace.condition("train", "Queued") != {}, "a word", SECONDS)
    refused = workspace.condition("train", "Queued")["reason"] == "InvalidTemplate"
    return not refused and workspace.wait_for_phase("train", Phase.SUCCEEDED) != {}
