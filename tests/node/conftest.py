"""A control plane with one real node and Cotenant on it, once for the session; a namespace of its own for each test."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_e2e import installation, startup, testing, waiting
from cotenant_e2e.installation import Installation
from cotenant_e2e.node import agents, real
from cotenant_e2e.node.agents import GPUs
from cotenant_standin import state
from node.tenants import Tenants

NODE = "gpu-0"
MODELS = (state.H200,) * 4
SHARES = names.HUNDREDTHS * len(MODELS)

ENDED_SECONDS = 120

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The control plane, every process of ours, and a real node on which nothing of ours runs yet."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with testing.control_plane(directory, startup.Options(node=NODE)) as cluster:
        real.create(cluster)
        yield installation.install(cluster)


@pytest.fixture(scope="session")
def gpus(installed: Installation) -> GPUs:
    """Four stand-in GPUs on the node, and the processes that serve them."""
    return agents.add_to(real.of(installed.cluster), MODELS)


@pytest.fixture
def tenants(installed: Installation, gpus: GPUs) -> Iterator[Tenants]:
    """A namespace; at the end no container in it may have had other limits than its pod's, and everything is gone."""
    # The agent that a test before has killed or started may still be on its way.
    gpus.wait_until_offered(SHARES)
    with Tenants(installed, gpus, f"test-{next(_numbers)}") as space:
        yield space


@pytest.fixture
def space(tenants: Tenants) -> Iterator[Workspace]:
    """DLJobs in the namespace; at the end none is left."""
    found = Workspace(tenants.installation, tenants.namespace)
    yield found
    found.client.delete(found.dljobs(), propagationPolicy="Foreground")
    waiting.wait_until(lambda: not found.client.items(found.dljobs()), "no DLJobs", ENDED_SECONDS)
