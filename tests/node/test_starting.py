"""A job that has its GPU and cannot start, told of by a real kubelet."""

from cluster.workloads import Workspace
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e.node import agents
from node import tenants as kit
from node.tenants import Tenants

SECONDS = 120


def test_a_job_whose_secret_is_missing_starts_when_it_is_there(tenants: Tenants, space: Workspace) -> None:
    container = {
        "name": "main",
        "image": agents.CLIENT_IMAGE,
        "securityContext": agents.CLIENT_USER,
        "command": ["sh", "-c", "true"],
        "envFrom": [{"secretRef": {"name": "credentials"}}],
    }
    grace = {"terminationGracePeriodSeconds": kit.GRACE_SECONDS, "automountServiceAccountToken": False}
    space.dljob("train", template={"spec": {"containers": [container], **grace}})
    space.wait_for_phase("train", Phase.STARTING, SECONDS)
    ready = space.condition("train", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodsNotStarting")
    assert 'container main: CreateContainerConfigError: secret "credentials" not found' in ready["message"]
    space.client.create(
        clients.path_of("secrets", namespace=tenants.namespace), {"metadata": {"name": "credentials"}, "stringData": {}}
    )
    space.wait_for_phase("train", Phase.SUCCEEDED, SECONDS)
