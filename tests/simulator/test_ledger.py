"""The judge of placements and refusals: nothing that is not there can be taken, and nothing that fits be refused."""

import pytest

from cotenant_simulator.openb import ledger, trace
from simulator import kit


def of(*nodes: trace.Node, max_tenants: int = 3) -> ledger.Ledger:
    return ledger.Ledger(nodes, max_tenants=max_tenants)


def test_a_lawful_placement_is_counted() -> None:
    counts = of(kit.node(gpus=2))
    assert counts.place(kit.pod(600, cpu=4000, memory=1024), "n", [1])
    assert counts.idle_milli.tolist() == [[1000, 400]]
    assert counts.free_cpu_millis.tolist() == [60_000]
    assert counts.free_memory_mib.tolist() == [64_512]
    assert counts.allocated_milli == 600


@pytest.mark.parametrize(
    ("pod", "gpus"),
    [
        (kit.pod(500), [0]),
        (kit.pod(1000, gpus=2), [0, 1]),
        (kit.pod(1000, gpus=2), [1]),
        (kit.pod(1000, gpus=2), [1, 1]),
        (kit.pod(100), [2]),
        (kit.pod(100), []),
        (kit.pod(100, models=["B"]), [1]),
        (kit.pod(100, cpu=64_000), [1]),
        (kit.pod(100, memory=65_536), [1]),
        (kit.pod(gpus=0, cpu=64_000), []),
    ],
)
def test_a_placement_that_takes_what_is_not_there_is_unlawful(pod: trace.Pod, gpus: list[int]) -> None:
    counts = of(kit.node(gpus=2), kit.node("wide", gpus=8))
    assert counts.place(kit.pod(600), "n", [0])
    assert not counts.place(pod, "n", gpus)


def test_one_tenant_too_many_is_unlawful_and_nothing_takes_it() -> None:
    counts = of(kit.node(gpus=1), max_tenants=2)
    assert counts.place(kit.pod(100), "n", [0])
    assert counts.place(kit.pod(100), "n", [0])
    assert not counts.takers(kit.pod(100)).any()
    assert not counts.place(kit.pod(100), "n", [0])


def test_takers_have_gpus_cpu_memory_and_an_allowed_model() -> None:
    counts = of(
        kit.node("a", gpus=1), kit.node("b", gpus=4, model="B"), kit.node("c", cpu=500), kit.node("d", memory=0)
    )
    assert counts.takers(kit.pod(1000)).tolist() == [True, True, False, False]
    assert counts.takers(kit.pod(1000, gpus=4)).tolist() == [False, True, False, False]
    assert counts.takers(kit.pod(10, models=["B", "C"])).tolist() == [False, True, False, False]
    assert counts.takers(kit.pod(gpus=0, cpu=100, memory=0)).tolist() == [True, True, True, True]
