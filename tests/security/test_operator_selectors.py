"""What a controller would do for whoever has the operator's token: take over what a selector matches, and delete it."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.workloads import Workspace
from cotenant_e2e.client import Client, Json
from security.test_operator_token import SELECTOR, made, try_out

Refused = Callable[[Callable[[], Any]], str]
VICTIM = {"app": "victim"}


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ({"matchLabels": VICTIM}, VICTIM),
        ({"matchLabels": SELECTOR | VICTIM}, SELECTOR | VICTIM),
        ({"matchLabels": {}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}, VICTIM),
    ],
    ids=["another's labels", "more labels", "an expression"],
)
def test_a_deployment_selects_the_pods_of_its_dljob_alone(
    operator: Client, workspace: Workspace, refused: Refused, selector: Json, labels: Json
) -> None:
    found = made("deployments", workspace)
    found["spec"] |= {"selector": selector}
    found["spec"]["template"]["metadata"]["labels"] = labels
    message = refused(lambda: try_out(operator, "deployments", workspace.namespace, found))
    assert "spec.selector: the operator makes Deployments that select a DLJob's pods" in message


def test_a_job_selects_the_pods_that_it_makes_alone(operator: Client, workspace: Workspace, refused: Refused) -> None:
    found = made("jobs", workspace)
    found["spec"] |= {"manualSelector": True, "suspend": True, "selector": {"matchLabels": VICTIM}}
    found["spec"]["template"]["metadata"] = {"labels": VICTIM}
    message = refused(lambda: try_out(operator, "jobs", workspace.namespace, found))
    assert "spec.manualSelector: the operator makes Jobs that select their own pods" in message


@pytest.mark.parametrize("plural", ["jobs", "deployments"])
def test_no_pod_of_its_stays_for_somebody_who_takes_a_finalizer_off(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    found = made(plural, workspace)
    found["spec"]["template"].setdefault("metadata", {})["finalizers"] = ["example.org/stays"]
    message = refused(lambda: try_out(operator, plural, workspace.namespace, found))
    assert "spec.template.metadata.finalizers: " in message


def test_its_jobs_are_left_to_kubernetes_and_multikueue(
    operator: Client, workspace: Workspace, refused: Refused
) -> None:
    found = made("jobs", workspace)
    found["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    try_out(operator, "jobs", workspace.namespace, found)
    found["spec"]["managedBy"] = "example.org/controller"
    message = refused(lambda: try_out(operator, "jobs", workspace.namespace, found))
    assert "spec.managedBy: the operator leaves its Jobs to Kubernetes and MultiKueue" in message
