"""A real control plane with Cotenant's manifests on it and none of its programs: who attacks is not held by them.

A namespace of its own for each test, and the accounts that an attacker may have: a tenant's, a node agent's, the
operator's, the scheduler's.
"""

import itertools
from collections.abc import Iterator

import pytest

from cluster import tenants
from cluster.conftest import refused
from cluster.tenants import Tenant
from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, nodes, startup, testing
from cotenant_e2e.client import Client
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.installation import Installation

__all__ = ["refused"]
NODES = 2
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """CRDs, RBAC, admission and the default policy, as the manifests have them."""
    options = startup.Options(nodes=nodes.demo()[:NODES])
    with testing.control_plane(tmp_path_factory.mktemp("security"), options) as cluster:
        installation.apply_manifests(cluster)
        yield Installation(cluster, extender_port=0)


@pytest.fixture
def cluster(installed: Installation) -> Cluster:
    """The control plane."""
    return installed.cluster


@pytest.fixture
def workspace(installed: Installation) -> Iterator[Workspace]:
    """A namespace; at its end it is deleted, and nobody waits for that."""
    space = Workspace(installed, f"attacked-{next(_numbers)}")
    space.create()
    yield space
    installed.cluster.client.delete(clients.path_of("namespaces", name=space.namespace))


@pytest.fixture
def tenant(workspace: Workspace) -> Tenant:
    """Somebody who may edit the workspace's namespace, and nothing else."""
    return tenants.create(workspace)


@pytest.fixture
def operator(cluster: Cluster) -> Client:
    """Whoever has the operator's token."""
    return cluster.client_for_token(cluster.token(names.RELEASE_NAMESPACE, names.OPERATOR_ACCOUNT))


@pytest.fixture
def scheduler(cluster: Cluster) -> Client:
    """Whoever has the token of kube-scheduler and the extender."""
    return cluster.client_for_token(cluster.token(names.RELEASE_NAMESPACE, names.SCHEDULER_ACCOUNT))


@pytest.fixture
def own_node() -> str:
    """The node of the agent that was taken over."""
    return str(nodes.demo()[0]["metadata"]["name"])


@pytest.fixture
def other_node() -> str:
    """Another node."""
    return str(nodes.demo()[1]["metadata"]["name"])


@pytest.fixture
def agent(cluster: Cluster, own_node: str) -> Client:
    """Whoever has the token of a node's agent."""
    token = cluster.token(names.RELEASE_NAMESPACE, names.NODE_AGENT_ACCOUNT, bound_node=own_node)
    return cluster.client_for_token(token)
