"""Nothing that cannot be used is accepted in silence: DLJobs, pods and policies of a table, on a real API server."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from bad_input import Object
from cluster.bad_objects import OBJECTS
from cluster.workloads import CONTAINER, SECONDS, Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import cluster as clusters
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.installation import Installation

REFUSED = [case for case in OBJECTS if not case.reason]
TOLD = [case for case in OBJECTS if case.reason]
POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
NO_WORKLOAD = ("InvalidTemplate",)


def named(case: Object) -> str:
    return f"{case.kind}-{case.name}"[:60]


@pytest.fixture(scope="module")
def space(installed: Installation) -> Iterator[Workspace]:
    """A namespace in which everything stands that the API server takes and that cannot be used."""
    found = Workspace(installed, "bad-input")
    found.create()
    for case in TOLD:
        path = found.dljobs() if case.kind == "DLJob" else found.pods()
        found.client.create(f"{path}?fieldValidation=Strict", manifest(case))
    yield found
    found.remove()


def manifest(case: Object) -> Json:
    """The object as its author writes it."""
    container: dict[str, Any] = copy.deepcopy(CONTAINER) | case.container
    inner = {"containers": [container], **case.template}
    if case.kind == "Pod":
        metadata = {"name": case.name, "annotations": case.spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": inner}
    spec = (
        case.spec
        if case.kind == "PackingPolicy"
        else {"template": {"metadata": case.metadata, "spec": inner}, **case.spec}
    )
    name = "default" if case.kind == "PackingPolicy" and case.spec else case.name
    return {"apiVersion": names.API_VERSION, "kind": case.kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_kubectl_apply_says_what_is_wrong_and_creates_nothing(case: Object, space: Workspace) -> None:
    before = space.client.get(POLICY)["metadata"]["generation"]
    with pytest.raises(clusters.KubectlError) as caught:
        space.installation.cluster.kubectl(
            "apply", "--namespace", space.namespace, "--filename", "-", stdin=manifest(case)
        )
    assert [text for text in case.said if text not in str(caught.value)] == [], str(caught.value)
    assert space.client.find(space.dljobs(case.name)) is None
    assert space.client.find(space.pods(case.name)) is None
    assert space.client.get(POLICY)["metadata"]["generation"] == before


@pytest.mark.parametrize("case", TOLD, ids=named)
def test_what_is_taken_and_cannot_run_says_why_in_its_status(case: Object, space: Workspace) -> None:
    def said() -> list[Json]:
        path = space.dljobs(case.name) if case.kind == "DLJob" else space.pods(case.name)
        conditions = space.client.get(path).get("status", {}).get("conditions") or []
        return [one for one in conditions if one.get("reason") == case.reason]

    waiting.wait_until(lambda: bool(said()), f"{case.reason} of {case.name}", SECONDS)
    message = said()[0]["message"]
    assert [text for text in case.said if text not in message] == [], message
    if case.reason in NO_WORKLOAD:
        made = [*space.client.items(space.jobs()), *space.client.items(space.deployments())]
        assert [one for one in made if one["metadata"]["labels"][names.DLJOB_LABEL] == case.name] == []
