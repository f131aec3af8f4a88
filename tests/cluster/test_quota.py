"""ResourceQuotas on a real control plane: gangs that wait for room, and what is said of pods that are refused."""

from collections.abc import Iterator
from typing import Final

import pytest

from cluster.workloads import CONTAINER, SECONDS, Workspace, template
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting

SHARE: Final = "requests.cotenant.dev/gpu-share"


def limit(workspace: Workspace, **hard: str) -> None:
    """Make a quota and wait until it is counted; `gpu_share` stands for `requests.cotenant.dev/gpu-share`."""
    limits = {key.replace("gpu_share", SHARE): text for key, text in hard.items()}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": limits}}
    path = clients.path_of("resourcequotas", namespace=workspace.namespace)
    workspace.client.create(path, body)
    waiting.wait_until(
        lambda: workspace.client.get(f"{path}/gpus").get("status", {}).get("used"), "a counted quota", SECONDS
    )


def raise_limit(workspace: Workspace, **hard: str) -> None:
    limits = {key.replace("gpu_share", SHARE): text for key, text in hard.items()}
    path = clients.path_of("resourcequotas", namespace=workspace.namespace, name="gpus")
    workspace.client.patch(path, {"spec": {"hard": limits}})


def whole(workspace: Workspace, name: str, *, replicas: int = 1, run_for: str = "2s") -> None:
    """A DLJob of which each pod asks for a whole GPU."""
    workspace.dljob(name, replicas=replicas, sharing="Exclusive", template=template(run_for=run_for))


def test_a_quota_holds_a_gang_back_and_lets_it_go_when_another_job_ends(workspace: Workspace) -> None:
    limit(workspace, gpu_share="300")
    whole(workspace, "first", run_for="")
    workspace.wait_for_phase("first", Phase.RUNNING)
    whole(workspace, "gang", replicas=3)
    held = workspace.wait_for_condition("gang", "Queued", "False", "QuotaExceeded")
    assert held["message"] == f"{SHARE}: 3 pods ask for 300, 200 of 300 are left in ResourceQuota gpus"
    assert [pod for pod in workspace.client.items(workspace.pods()) if pod["metadata"]["name"].startswith("gang")] == []
    workspace.end_pods("first")
    workspace.wait_for_phase("first", Phase.SUCCEEDED)
    workspace.wait_for_phase("gang", Phase.SUCCEEDED)
    assert workspace.status("gang")["attempts"] == 1
    told = {event["reason"] for event in workspace.events() if event["involvedObject"]["name"] == "gang"}
    assert {"Created", "QuotaExceeded", "Completed"} <= told


def test_a_quota_that_is_too_small_for_ever_says_so_until_it_is_raised(workspace: Workspace) -> None:
    limit(workspace, pods="1")
    whole(workspace, "gang", replicas=2)
    held = workspace.wait_for_condition("gang", "Queued", "False", "QuotaExceeded")
    assert "allows 1 in all: raise it, or ask for less" in held["message"]
    raise_limit(workspace, pods="2")
    workspace.wait_for_phase("gang", Phase.SUCCEEDED)


def test_two_gangs_of_one_quota_run_one_after_the_other(workspace: Workspace) -> None:
    limit(workspace, gpu_share="300")
    for name in ("a", "b"):
        whole(workspace, name, replicas=2, run_for="1s")
    for name in ("a", "b"):
        workspace.wait_for_phase(name, Phase.SUCCEEDED)
        assert workspace.status(name)["attempts"] == 1


@pytest.fixture
def sandboxed(workspace: Workspace) -> Iterator[str]:
    """A RuntimeClass whose pods need 300m of CPU more than their containers ask for."""
    path, name = clients.path_of("runtimeclasses", group="node.k8s.io"), f"{workspace.namespace}-sandboxed"
    overhead = {"podFixed": {"cpu": "300m"}}
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    workspace.client.create(path, body | {"handler": "runc", "overhead": overhead})
    yield name
    workspace.client.delete(f"{path}/{name}")


def test_a_gang_whose_pods_are_refused_is_stopped_whole_and_goes_on_later(workspace: Workspace, sandboxed: str) -> None:
    """A RuntimeClass makes the pods ask for more than their template says: only the API server knows."""
    limit(workspace, **{"requests.cpu": "1"})
    container = CONTAINER | {"resources": {"requests": {"cpu": "100m"}}}
    asked = template(run_for="2s", runtimeClassName=sandboxed, containers=[container])
    workspace.dljob("gang", replicas=3, sharing="Exclusive", template=asked)
    held = workspace.wait_for_condition("gang", "Queued", "False", "QuotaExceeded")
    assert "exceeded quota: gpus" in held["message"]
    waiting.wait_until(lambda: not workspace.client.items(workspace.pods()), "no pods", SECONDS)
    raise_limit(workspace, **{"requests.cpu": "2"})
    workspace.wait_for_phase("gang", Phase.SUCCEEDED)
    assert workspace.status("gang")["attempts"] == 1


def test_a_single_replica_says_why_it_has_no_pod(workspace: Workspace) -> None:
    limit(workspace, gpu_share="50")
    whole(workspace, "train")
    held = workspace.wait_for_condition("train", "Queued", "False", "QuotaExceeded")
    assert held["message"].startswith("pods is forbidden: exceeded quota: gpus")


def test_a_missing_service_account_is_no_matter_of_quota(workspace: Workspace) -> None:
    spec = template(serviceAccountName="nobody")
    workspace.dljob("train", sharing="Exclusive", template=spec)
    held = workspace.wait_for_condition("train", "Queued", "False", "PodCreationFailed")
    assert "nobody" in held["message"]


def test_a_deployment_under_a_quota_serves_with_what_it_gets_and_says_what_is_refused(workspace: Workspace) -> None:
    limit(workspace, gpu_share="200")
    workspace.dljob("serve", workloadType="Inference", replicas=3, sharing="Exclusive", template=template(run_for=""))
    held = workspace.wait_for_condition("serve", "Queued", "False", "QuotaExceeded")
    assert "exceeded quota: gpus" in held["message"]
    workspace.wait_for_phase("serve", Phase.RUNNING)
    raise_limit(workspace, gpu_share="300")
    workspace.wait_for_condition("serve", "Placed", "True")
    workspace.wait_for_condition("serve", "Queued", "False", "Placed")


def test_defaults_of_a_limit_range_are_counted_before_a_gang_starts(workspace: Workspace) -> None:
    item = {"type": "Container", "default": {"cpu": "200m"}, "max": {"cpu": "300m"}}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "team"}, "spec": {"limits": [item]}}
    workspace.client.create(clients.path_of("limitranges", namespace=workspace.namespace), body)
    limit(workspace, **{"requests.cpu": "300m"})
    whole(workspace, "gang", replicas=2)
    held = workspace.wait_for_condition("gang", "Queued", "False", "QuotaExceeded")
    asked = "requests.cpu: 2 pods ask for 0.4, ResourceQuota gpus allows 0.3 in all"
    assert held["message"] == f"{asked}: raise it, or ask for less"
    assert not [event for event in workspace.events() if event["reason"] == "FailedCreate"]
    raise_limit(workspace, **{"requests.cpu": "400m"})
    workspace.wait_for_phase("gang", Phase.SUCCEEDED)
