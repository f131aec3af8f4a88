"""What Cotenant's admission lets through, and Pod Security admission refuses, on a real API server."""

from typing import Any

import pytest

from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json

SHARED = {"name": "main", "image": "x", "resources": {"limits": {names.GPU_SHARE: "20"}}}
PRIVILEGED = {"securityContext": {"privileged": True}}
SYS_ADMIN = {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}
LET_THROUGH: dict[str, Json] = {
    "a capability": {"containers": [SHARED | SYS_ADMIN]},
    "the host's files": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}], "containers": [SHARED]},
    "the host's network": {"hostNetwork": True, "containers": [SHARED]},
    "privileged, no share": {"containers": [{"name": "main", "image": "x"} | PRIVILEGED]},
}


def pod(spec: Json, *, name: str = "p") -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def enforce(workspace: Workspace, level: str) -> None:
    """Have Pod Security admission refuse what is above a level."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    workspace.client.patch(clients.path_of("namespaces", name=workspace.namespace), {"metadata": {"labels": labels}})


def attach(workspace: Workspace, name: str, settings: Json) -> Any:
    """Add an ephemeral container to a pod."""
    container = {"name": "debug", "image": "x"} | settings
    return workspace.client.patch(
        f"{workspace.pods(name)}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [container]}},
        content_type="application/strategic-merge-patch+json",
    )


@pytest.mark.parametrize("spec", LET_THROUGH.values(), ids=list(LET_THROUGH))
def test_the_level_baseline_refuses_what_our_admission_lets_through(workspace: Workspace, spec: Json) -> None:
    path = f"{workspace.pods()}?dryRun=All"
    workspace.client.create(path, pod(spec))
    enforce(workspace, "baseline")
    with pytest.raises(clients.APIError, match="violates PodSecurity"):
        workspace.client.create(path, pod(spec))


def test_the_level_baseline_refuses_a_privileged_ephemeral_container_before_the_placement(workspace: Workspace) -> None:
    held = {"schedulingGates": [{"name": "example.org/hold"}], "containers": [SHARED]}
    for name in ("first", "second"):
        workspace.client.create(workspace.pods(), pod(held, name=name))
    attach(workspace, "first", PRIVILEGED)
    enforce(workspace, "baseline")
    with pytest.raises(clients.APIError, match="violates PodSecurity"):
        attach(workspace, "second", PRIVILEGED)


def test_a_privileged_ephemeral_container_is_refused_after_the_placement(workspace: Workspace) -> None:
    workspace.pod("p")
    workspace.bound_pod("p")
    with pytest.raises(clients.APIError, match=r"remove securityContext\.privileged"):
        attach(workspace, "p", PRIVILEGED)
