"""An API server, a clock and a simulated agent for each test that names them."""

import functools

import pytest

from cotenant_deviceplugin.kube import cluster
from deviceplugin import fakes, simulated_agent


@pytest.fixture
def api() -> fakes.FakeCluster:
    """Knows the Node and nothing else."""
    made = fakes.FakeCluster()
    made.put(cluster.node_path(fakes.NODE), fakes.node())
    return made


@pytest.fixture
def clock() -> fakes.FakeClock:
    """Stands still."""
    return fakes.FakeClock()


@pytest.fixture
def started(api: fakes.FakeCluster, clock: fakes.FakeClock) -> simulated_agent.Started:
    """Starts a simulated agent."""
    return functools.partial(simulated_agent.started, api, clock)
