"""A real control plane with Cotenant on it, once for the session; a namespace of its own for each test."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import tenants
from cluster.tenants import Tenant
from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, nodes, startup, testing
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.installation import Installation

_numbers = itertools.count(1)
LONGEST = (
    "test_operator_kills",
    "test_crashes",
    "test_examples",
    "test_chart",
    "test_docs",
    "test_profiling",
    "test_consistency",
    "test_uninstall",
    "test_baselines",
    "test_late_packets",
)
"""Files that take minutes come first: none of them is left to one worker while the others have nothing to do."""
SNAPSHOT_READER = "cotenant-snapshot-reader"
RBAC = "rbac.authorization.k8s.io"
OPERATOR = f"system:serviceaccount:{names.RELEASE_NAMESPACE}:{names.OPERATOR_ACCOUNT}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first; within a file, and among the others, as they stand."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Six simulated nodes with 20 simulated GPUs, and every process of ours."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with testing.control_plane(directory, startup.Options(nodes=nodes.demo(), audited=OPERATOR)) as cluster:
        yield installation.install(cluster)


@pytest.fixture
def cluster(installed: Installation) -> Cluster:
    """The control plane."""
    return installed.cluster


@pytest.fixture
def workspace(installed: Installation) -> Iterator[Workspace]:
    """A namespace; at the end everything in it is gone and no GPU is held for it."""
    space = Workspace(installed, f"test-{next(_numbers)}")
    space.create()
    yield space
    space.remove()


@pytest.fixture
def tenant(workspace: Workspace) -> Tenant:
    """Somebody who may edit the workspace's namespace, and nothing else."""
    return tenants.create(workspace)


@pytest.fixture
def honest(workspace: Workspace) -> Iterator[Workspace]:
    """Another namespace."""
    found = Workspace(workspace.installation, f"{workspace.namespace}-honest")
    found.create()
    yield found
    found.remove()


@pytest.fixture
def reader(workspace: Workspace) -> Iterator[Path]:
    """Kubeconfig of an account with the role that ships, and nothing else."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    workspace.client.create(clients.path_of("serviceaccounts", namespace=workspace.namespace), account)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{workspace.namespace}-reader"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": SNAPSHOT_READER},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": workspace.namespace}],
    }
    workspace.client.create(clients.path_of("clusterrolebindings", group=RBAC), binding)
    cluster = workspace.installation.cluster
    yield cluster.kubeconfig_for_token("reader", cluster.token(workspace.namespace, "reader"))
    workspace.client.delete(clients.path_of("clusterrolebindings", group=RBAC, name=f"{workspace.namespace}-reader"))


@pytest.fixture
def refused() -> Callable[[Callable[[], Any]], str]:
    """The API server's message when a call must be refused."""

    def message(call: Callable[[], Any]) -> str:
        with pytest.raises(clients.APIError) as caught:
            call()
        assert caught.value.code in {403, 422}, caught.value
        return caught.value.message

    return message
