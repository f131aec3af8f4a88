"""In which order pods arrive, and nodes win ties."""

from collections import Counter
from pathlib import Path

import pytest

from cotenant_simulator.openb import arrivals, trace
from simulator import kit, synthetic


@pytest.fixture
def read(tmp_path: Path) -> trace.Trace:
    synthetic.write(tmp_path)
    return trace.read(tmp_path, "plain")


def test_a_seed_decides_the_order_whole(read: trace.Trace) -> None:
    assert arrivals.order(read, seed=42) == arrivals.order(read, seed=42)
    assert arrivals.order(read, seed=42) != arrivals.order(read, seed=43)


def test_every_pod_arrives_and_some_again_until_the_load_is_reached(read: trace.Trace) -> None:
    order = arrivals.order(read, seed=42)
    assert set(order.pods) == set(read.pods)
    demand = sum(pod.demand_milli for pod in order.pods)
    assert 0 <= arrivals.LOAD * read.capacity_milli - demand < 2 * trace.WHOLE_MILLI


def test_every_node_is_there_once(read: trace.Trace) -> None:
    order = arrivals.order(read, seed=42)
    assert Counter(order.nodes) == Counter(read.nodes)
    assert order.nodes != read.nodes


def test_pods_beyond_the_load_are_dropped() -> None:
    made, _ = kit.arriving([kit.node(gpus=1)], [kit.pod(400, cpu=number) for number in range(10)])
    order = arrivals.order(made, seed=42)
    assert len(order.pods) == 3
    assert len(set(order.pods)) == 3
