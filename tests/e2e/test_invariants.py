"""What must hold of every GPU and pod: each promise, and that breaking it is seen."""

import json
from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import GPUUID, GPUModel, NodeName
from cotenant_e2e import invariants
from cotenant_e2e.invariants import Invariants, Limits

Object = dict[str, Any]

A, B, C = GPUUID("GPU-a"), GPUUID("GPU-b"), GPUUID("GPU-c")
WHERE = {A: "n1", B: "n1", C: "n2"}
LIMITS = Limits(
    max_tenants=3,
    gpus={
        uuid: invariants.GPU(node=NodeName(node), index=0, model=GPUModel("M"), bookable_mib=1000)
        for uuid, node in WHERE.items()
    },
)


def pod(name: str, *gpus: str, share: int = 30, memory_mib: int = 100, **changes: Any) -> Object:
    """A pod that asks for a share, placed on these GPUs."""
    container = {"name": "main", "resources": {"limits": {names.GPU_SHARE: str(changes.pop("asked", share))}}}
    spec: Object = {"containers": [container]}
    notes: Object = changes.pop("annotations", {})
    metadata = {"uid": f"uid-{name}", "name": name, "namespace": changes.pop("namespace", "team")}
    phase = changes.pop("phase", "Pending")
    if gpus:
        spec["nodeName"] = WHERE[GPUUID(gpus[0])]
        bookings = [
            {"uuid": gpu, "share": share, "activeThreadPercentage": share, "memoryMiB": memory_mib} for gpu in gpus
        ]
        document = {
            "v": 1,
            "podUID": f"uid-{name}",
            "node": spec["nodeName"],
            "container": "main",
            "policyGeneration": 1,
            "backend": "MPS",
            "gpus": bookings,
        }
        notes = notes | {names.PLACEMENT: json.dumps(document | changes)}
    return {"metadata": metadata | {"annotations": notes}, "spec": spec, "status": {"phase": phase}}


def seen(*objects: Object) -> Invariants:
    """What is known after these events."""
    found = Invariants(LIMITS)
    for one in objects:
        found.apply("MODIFIED", one)
    return found


def test_three_tenants_within_every_limit_break_nothing() -> None:
    found = seen(*(pod(name, A) for name in "abc"))
    assert found.violations == []
    assert set(found.tenants) == {A}


@pytest.mark.parametrize(
    ("objects", "broken"),
    [
        ([pod(name, A, share=10) for name in "abcd"], "4 tenants"),
        ([pod(name, A, share=60) for name in "ab"], "120 hundredths"),
        ([pod(name, A, memory_mib=600) for name in "ab"], "1200 MiB of 1000"),
        ([pod("a", A), pod("b", A, namespace="other")], "two namespaces"),
        ([pod("a", A), pod("a", B)], "placement of team/a changed"),
        ([pod("a", A), pod("a", C)], "node of team/a changed"),
        ([pod("a", A), pod("a")], "node of team/a changed"),
        ([pod("a", A, node="n2")], "for another node or pod"),
        ([pod("a", A, podUID="b")], "for another node or pod"),
        ([pod("a", A, C)], "on a GPU of another node"),
        ([pod("a", A, A)], "on one GPU twice"),
        ([pod("a", A, asked=40)], "for less than it asks"),
        ([pod("a", A, gpus=[])], "placement of team/a"),
    ],
)
def test_a_broken_promise_is_seen(objects: list[Object], broken: str) -> None:
    assert any(broken in text for text in seen(*objects).violations)


def test_a_bound_pod_without_placement_is_a_broken_promise() -> None:
    bound = pod("a")
    bound["spec"]["nodeName"] = "n1"
    assert seen(bound).violations == ["team/a is bound to n1 without a placement"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing_any_more(phase: str) -> None:
    found = seen(pod("a", A, share=90), pod("a", A, share=90, phase=phase), pod("b", A, share=90))
    assert found.violations == []


def test_a_pod_that_has_finished_when_it_is_first_seen_holds_nothing() -> None:
    assert seen(pod("a", A, share=90), pod("b", A, share=90, phase="Succeeded")).violations == []


def test_a_deleted_pod_holds_nothing_any_more() -> None:
    found = seen(pod("a", A, share=90))
    found.apply("DELETED", pod("a", A, share=90))
    found.apply("ADDED", pod("b", A, share=90))
    assert found.violations == []


def test_a_repeated_event_changes_nothing() -> None:
    found = Invariants(LIMITS)
    assert [found.apply("MODIFIED", pod("a", A)) is None for _ in range(3)] == [False, True, True]
    assert found.violations == []


@pytest.mark.parametrize(
    ("standing", "asked", "takers"),
    [
        ([], pod("x", share=100), [A, B, C]),
        ([pod("a", A, share=70)], pod("x", share=40), [B, C]),
        ([pod("a", A, share=10, namespace="other")], pod("x", share=10), [B, C]),
        ([pod(name, A, share=1) for name in "abc"], pod("x", share=10), [B, C]),
        ([pod("a", A, memory_mib=900)], pod("x", annotations={names.GPU_MEMORY: "200Mi"}), [B, C]),
        ([pod("a", C, share=10)], pod("x", share=200), [A, B]),
        ([pod("a", A, share=10)], pod("x", share=200), []),
        ([], pod("x", annotations={names.GPU_MODELS: "other"}), []),
        ([], pod("x", annotations={names.GPU_MEMORY: "2Gi"}), []),
    ],
)
def test_the_gpus_that_would_take_a_pod_are_known(standing: list[Object], asked: Object, takers: list[GPUUID]) -> None:
    assert seen(*standing).takers(asked) == takers


def test_limits_are_read_from_the_policy_and_the_gpunodes() -> None:
    policy = {"metadata": {"name": "default", "generation": 1}, "spec": {"maxTenantsPerGPU": 2}}
    gpu = {"uuid": "GPU-a", "index": 1, "model": "M", "memoryMiB": 1000}
    found = Limits.of(policy, [{"metadata": {"name": "n1"}, "status": {"gpus": [gpu]}}])
    assert found.max_tenants == 2
    assert found.gpus == {A: invariants.GPU(node=NodeName("n1"), index=1, model=GPUModel("M"), bookable_mib=950)}
