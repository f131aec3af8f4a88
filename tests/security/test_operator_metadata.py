"""Labels and annotations by which other programs load objects, give rights or restart pods: the operator sets none."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_e2e.client import Client, Json
from cotenant_operator import labels
from security.test_operator_token import DLJOB, body, called, made, path_of, try_out

Refused = Callable[[Callable[[], Any]], str]

KINDS = ("jobs", "deployments", "services", "configmaps")
THEIRS = {"example.org/theirs": "x"}
GRAFANA = {"grafana_dashboard": "1"}


def standing(operator: Client, workspace: Workspace, plural: str) -> str:
    """Make an object as the operator does, on which somebody else has written; its path."""
    owner = DLJOB | {"uid": workspace.dljob("train", suspend=True)["metadata"]["uid"]}
    path = path_of(plural, workspace.namespace)
    operator.create(path, body(plural, owners=[owner]))
    named = f"{path}/{called(plural)}"
    workspace.client.patch(named, {"metadata": {"labels": THEIRS, "annotations": THEIRS}})
    return f"{named}?dryRun=All"


@pytest.mark.parametrize("plural", KINDS)
def test_what_it_makes_has_no_label_by_which_others_load_it(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    found = made(plural, workspace)
    found["metadata"]["labels"] = found["metadata"]["labels"] | GRAFANA
    message = refused(lambda: try_out(operator, plural, workspace.namespace, found))
    assert "metadata.labels: the operator sets and removes Cotenant's own" in message


@pytest.mark.parametrize("plural", ["jobs", "deployments", "configmaps"])
@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("change", [GRAFANA, {"example.org/theirs": "y"}, {"example.org/theirs": None}])
def test_it_adds_changes_and_removes_nothing_there_that_is_others(
    operator: Client, workspace: Workspace, refused: Refused, plural: str, field: str, change: Json
) -> None:
    path = standing(operator, workspace, plural)
    message = refused(lambda: operator.patch(path, {"metadata": {field: change}}))
    assert f"metadata.{field}: " in message


@pytest.mark.parametrize("plural", ["jobs", "deployments"])
def test_it_writes_what_is_its_own_beside_what_is_others(operator: Client, workspace: Workspace, plural: str) -> None:
    path = standing(operator, workspace, plural)
    operator.patch(path, {"metadata": {"annotations": {labels.FENCE: "1"}, "labels": {names.ATTEMPT_LABEL: "2"}}})


@pytest.mark.parametrize("plural", ["jobs", "deployments"])
def test_jobs_and_deployments_have_kueues_labels(operator: Client, workspace: Workspace, plural: str) -> None:
    queue = {f"{labels.KUEUE}queue-name": "team"}
    operator.patch(standing(operator, workspace, plural), {"metadata": {"labels": queue}})


def test_a_service_has_no_label_of_kueue(operator: Client, workspace: Workspace, refused: Refused) -> None:
    found = made("services", workspace)
    found["metadata"]["labels"] = found["metadata"]["labels"] | {f"{labels.KUEUE}queue-name": "team"}
    assert "metadata.labels: " in refused(lambda: try_out(operator, "services", workspace.namespace, found))
