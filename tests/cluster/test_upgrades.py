"""From the operator of release 0.1.0 to this one, back, and on again: nothing that runs or waits is made anew."""

from pathlib import Path
from typing import Any

import pytest

from cluster import former
from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import dljob
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_operator import labels
from cotenant_operator.workloads import digests

WAITS: Json = {"gpuModels": ["No-Such-Model"], "sharing": "Exclusive", "template": template()}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Release 0.1.0, unpacked."""
    return former.unpacked(tmp_path_factory.mktemp("release-0.1.0"))


def submit(workspace: Workspace) -> None:
    """A service, a job, a gang, and a job that waits for its GPU."""
    graph, runs = workspace.graph("graph"), template(run_for="")
    slo = {"requestsPerSecond": "20", "latencyMilliseconds": 80}
    workspace.dljob("serve", workloadType="Inference", replicas=2, model=graph, slo=slo, template=runs)
    workspace.dljob("train", model=graph, template=runs)
    workspace.dljob("gang", replicas=2, model=graph, template=runs)
    workspace.dljob("wait", **WAITS)
    workspace.wait_for_condition("serve", dljob.READY, "True")
    for name in ("train", "gang"):
        workspace.wait_for_phase(name, dljob.Phase.RUNNING)
    workspace.wait_for_condition("wait", dljob.QUEUED, "True")


def workloads(workspace: Workspace) -> list[Json]:
    """Every Job and Deployment."""
    return [*workspace.client.items(workspace.deployments()), *workspace.client.items(workspace.jobs())]


def templates(workspace: Workspace) -> dict[str, Any]:
    """UID and pod template of every workload, by name."""
    return {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["template"]) for each in workloads(workspace)
    }


def pods(workspace: Workspace) -> set[str]:
    """UIDs of all pods."""
    return {pod["metadata"]["uid"] for pod in workspace.client.items(workspace.pods())}


def wait_until_followed(workspace: Workspace, replicas: int) -> None:
    """Scale the service, and return when the operator that runs now has followed."""
    workspace.client.patch(workspace.dljobs("serve"), {"spec": {"replicas": replicas}})
    path = f"{workspace.deployments()}/serve"
    waiting.wait_until(lambda: workspace.client.get(path)["spec"]["replicas"] == replicas, "it is scaled", SECONDS)
    waiting.wait_until(lambda: len(pods(workspace)) == replicas + 4, f"{replicas} replicas", SECONDS)


def wait_until_renewed(workspace: Workspace) -> None:
    """Return when every workload carries the digests of both releases, and the number that its DLJob wants."""

    def renewed() -> bool:
        for each in workloads(workspace):
            owner = workspace.client.get(workspace.dljobs(each["metadata"]["ownerReferences"][0]["name"]))
            wanted = digests.annotations(dljob.Spec.model_validate(owner["spec"]), {})
            if "replicas" in each["spec"]:
                wanted[labels.REPLICAS] = str(owner["spec"]["replicas"])
            if not wanted.items() <= each["metadata"]["annotations"].items():
                return False
        return True

    waiting.wait_until(renewed, "the digests of both releases", SECONDS)


def test_an_upgrade_from_release_010_its_rollback_and_the_next_upgrade_make_nothing_anew(
    release: Path, workspace: Workspace
) -> None:
    cluster = workspace.installation.cluster
    with former.operator(cluster, release):
        submit(workspace)
        assert not any(labels.MADE_FROM in each["metadata"]["annotations"] for each in workloads(workspace))
        made, began = templates(workspace), pods(workspace)
    wait_until_renewed(workspace)
    wait_until_followed(workspace, 3)
    assert (templates(workspace), pods(workspace) >= began) == (made, True)
    with former.operator(cluster, release):
        wait_until_followed(workspace, 4)
        assert (templates(workspace), pods(workspace) >= began) == (made, True)
    wait_until_renewed(workspace)
    wait_until_followed(workspace, 3)
    assert templates(workspace) == made
    told = {event["reason"] for event in workspace.events()}
    assert not told & {"Updated", "SpecChangeIgnored", "SpecChanged"}
