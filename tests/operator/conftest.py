"""A cluster in memory for every test that wants one."""

import socket

import pytest

from operator_kit import objects
from operator_kit.cluster import Cluster


@pytest.fixture
async def cluster() -> Cluster:
    """A cluster with a PackingPolicy, one H200, the graph `toy`, and an operator that has started."""
    found = Cluster()
    found.apply(objects.policy(), plural="packingpolicies")
    found.apply(objects.gpu_node(), plural="gpunodes")
    found.apply(objects.config_map(), plural="configmaps")
    await found.start()
    return found


@pytest.fixture
def unused_port() -> int:
    """A port on loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
