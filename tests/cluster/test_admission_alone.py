"""Admission on an API server that has no PackingPolicy kind: before the CRDs come, or after somebody deleted them."""

from collections.abc import Iterator

import pytest

from cluster.workloads import CONTAINER, SECONDS, pod_object
from cotenant_e2e import client as clients
from cotenant_e2e import installation, startup, testing, waiting
from cotenant_e2e.client import Client

PODS = f"{clients.path_of('pods', namespace='default')}?dryRun=All"
DEPLOYMENTS = f"{clients.path_of('deployments', group='apps', namespace='default')}?dryRun=All"
CLOSED = pod_object(
    "p", containers=[{**pod_object("p")["spec"]["containers"][0], "securityContext": {"privileged": True}}]
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An API server with the admission policies, and nothing else of Cotenant."""
    with testing.control_plane(tmp_path_factory.mktemp("alone"), startup.Options(nodes=())) as cluster:
        cluster.kubectl("apply", "--server-side", "--filename", str(installation.MANIFESTS / "admission"))

        def refused() -> bool:
            try:
                cluster.client.create(PODS, CLOSED)
            except clients.APIError as error:
                return "remove securityContext.privileged" in error.message
            return False

        # The file of this policy is applied after those of the policies that have parameters.
        waiting.wait_until(refused, "admission in force", SECONDS)
        yield cluster.client


def test_pods_and_workloads_of_others_are_not_refused(client: Client) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    client.create(PODS, pod)
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
