"""Levels of Kubernetes' Pod Security that a namespace of a test enforces."""

from typing import Final

from cluster.workloads import CONTAINER, Workspace
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

SECONDS: Final = 60
ABOVE_BASELINE: Final[Json] = {
    "metadata": {"name": "above-baseline"},
    "spec": {"hostNetwork": True, "containers": [CONTAINER]},
}
"""It asks for no share, so no rule of ours judges it."""


def enforce_baseline(workspace: Workspace) -> None:
    """Have the namespace refuse what is above the level baseline.

    The API server judges pods by labels that it watches, and may do so by the former ones for a moment.

    Raises:
        NotReadyError: it judges pods by the former labels after a minute.
    """
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    workspace.client.patch(clients.path_of("namespaces", name=workspace.namespace), {"metadata": {"labels": labels}})
    waiting.wait_until(lambda: _is_refused(workspace), "the level baseline", SECONDS)


def _is_refused(workspace: Workspace) -> bool:
    try:
        workspace.client.create(f"{workspace.pods()}?dryRun=All", ABOVE_BASELINE)
    except clients.APIError as error:
        return "violates PodSecurity" in error.message
    return False
