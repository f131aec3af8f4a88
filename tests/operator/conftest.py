"""A cluster in memory for every test that wants one."""

import pytest

from cotenant_operator.testing import objects
from cotenant_operator.testing.cluster import Cluster


@pytest.fixture
async def cluster() -> Cluster:
    """A cluster with a PackingPolicy, one H200, the graph `toy`, and an operator that has started."""
    found = Cluster()
    found.apply(objects.policy(), plural="packingpolicies")
    found.apply(objects.gpu_node(), plural="gpunodes")
    found.apply(objects.config_map(), plural="configmaps")
    await found.start()
    return found
