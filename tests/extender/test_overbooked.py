"""GPUs that are booked beyond what they have: told, counted, and left alone."""

import pytest

from cotenant_api.names import PodUID
from cotenant_extender import records, steps
from cotenant_extender.ledger import ledger, overbooked
from cotenant_extender.packing.causes import Cause
from extender import builders
from extender.builders import NOW

GPU = "GPU-n0-0"


def told(source: ledger.Ledger) -> list[str]:
    return [gpu.excess for gpu in steps.finish(overbooked.overbooked(source))]


def cause(source: ledger.Ledger) -> Cause | None:
    return source.seen().nodes[0].gpus[0].closed


def test_a_gpu_within_its_bounds_is_not_told_of() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("a", 40, "n0", GPU), builders.bound("b", 60, "n0", GPU))
    assert told(source) == []
    assert cause(source) is None


def test_a_gpu_that_was_bound_twice_is_told_of_and_takes_nobody_more() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("a", 60, "n0", GPU), builders.bound("b", 60, "n0", GPU))
    assert told(source) == ["120 hundredths of 100 are booked"]
    assert cause(source) is Cause.OVERBOOKED


def test_it_opens_again_when_one_of_them_is_gone() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("a", 60, "n0", GPU), builders.bound("b", 60, "n0", GPU))
    builders.put(source, builders.bound("b", 60, "n0", GPU, phase="Succeeded"))
    assert told(source) == []
    assert cause(source) is None


def test_a_pod_that_is_gone_is_told_of_when_its_node_still_lists_it_and_not_while_that_is_doubtful() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("lost", 60, "n0", GPU))
    source.pod_gone(PodUID("uid-lost"))
    builders.put(source, builders.bound("b", 60, "n0", GPU))
    assert told(source) == []
    assert cause(source) is Cause.OVERBOOKED
    source.gpunode(records.gpunode_record(builders.gpunode("n0", gpus=1, tenants={0: ["lost", "b"]})), now=NOW)
    assert told(source) == ["120 hundredths of 100 are booked"]


def placed(source: ledger.Ledger, name: str, *, generation: int, memory_mib: int = 1000) -> None:
    """A pod with ten hundredths, placed under a generation of the policy."""
    raw = builders.bound(name, 10, "n0", GPU, memory_mib=memory_mib)
    notes = raw["metadata"]["annotations"]
    for key, text in notes.items():
        notes[key] = text.replace('"policyGeneration": 1', f'"policyGeneration": {generation}')
    builders.put(source, raw)
    assert source.pods[PodUID(f"uid-{name}")].placement is not None


@pytest.mark.parametrize(("generation", "expected"), [(1, []), (2, ["3 jobs share it, 2 may"])])
def test_more_tenants_than_the_policy_lets_are_a_fault_if_one_was_placed_under_it(
    generation: int, expected: list[str]
) -> None:
    source = builders.cluster(gpus=1)
    for name in "ab":
        placed(source, name, generation=1)
    placed(source, "c", generation=generation)
    source.policy_changed(builders.in_force(generation=2, maxTenantsPerGPU=2))
    assert told(source) == expected


@pytest.mark.parametrize(("generation", "expected"), [(1, []), (2, ["80000 MiB are booked, 71885 may be"])])
def test_more_memory_than_may_be_booked_is_a_fault_if_one_was_placed_under_the_policy(
    generation: int, expected: list[str]
) -> None:
    source = builders.cluster(gpus=1)
    placed(source, "a", generation=1, memory_mib=40_000)
    placed(source, "b", generation=generation, memory_mib=40_000)
    source.policy_changed(builders.in_force(generation=2, memoryHeadroomPercent=50))
    assert told(source) == expected


@pytest.mark.parametrize("whole", [False, True])
def test_a_node_that_goes_between_two_steps_keeps_no_other_from_being_told_of(whole: bool) -> None:
    source = builders.cluster(nodes=overbooked.NODES_PER_STEP + 1, gpus=1)
    gone, last = source.order[-2:]
    builders.put(source, *(builders.bound(name, 60, last, f"GPU-{last}-0") for name in "ab"))
    work = overbooked.overbooked(source)
    next(work)
    source.gpunode_gone(gone)
    if whole:
        source.node_gone(gone)
        source.lease_gone(gone, now=builders.NOW)
    assert (gone in source.nodes) is not whole
    assert [gpu.node for gpu in steps.finish(work)] == [last]
