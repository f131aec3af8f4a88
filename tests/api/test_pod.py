"""What a pod says."""

from typing import Any

import pytest

from cotenant_api import errors, names, pod


def a_pod(*shares: object, **annotations: str) -> dict[str, Any]:
    containers = [
        {"name": f"c{i}", "resources": {} if share is None else {"limits": {names.GPU_SHARE: share}}}
        for i, share in enumerate(shares)
    ]
    notes = {f"cotenant.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": "p", "namespace": "team", "uid": "u1", "annotations": notes}
    return {"metadata": metadata, "spec": {"containers": containers}}


def test_a_bare_pod_says_its_share_and_the_rest_is_default() -> None:
    demand = pod.demand(a_pod(None, "40"))
    assert (demand.container, demand.share, demand.gpus, demand.whole) == ("c1", 40, 1, False)
    assert demand.workload_type is pod.WorkloadType.TRAINING
    assert (demand.processes_per_gpu, demand.gang, demand.predicted, demand.memory_mib) == (1, None, None, None)


@pytest.mark.parametrize(("share", "gpus"), [("100", 1), ("200", 2), ("1k", 10)])
def test_hundreds_are_whole_gpus(share: str, gpus: int) -> None:
    demand = pod.demand(a_pod(share))
    assert (demand.gpus, demand.whole) == (gpus, True)


@pytest.mark.parametrize("share", ["0", "101", "150", "1500m"])
def test_a_share_that_cannot_be_served_is_refused(share: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"spec\.containers\[c0\]"):
        pod.requested_share(a_pod(share))


def test_a_demand_says_whether_a_container_may_be_root() -> None:
    bare, proven = a_pod("40"), a_pod("40")
    proven["spec"]["securityContext"] = {"runAsUser": 1000}
    proven["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod.demand(bare).may_be_root.startswith("spec.containers[c0].securityContext: may run as root")
    assert pod.demand(proven).may_be_root == ""


def test_two_asking_containers_are_refused_by_name() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"\['c0', 'c1'\]: exactly one container"):
        pod.requested_share(a_pod("10", "10"))


def test_a_pod_without_share_does_not_ask() -> None:
    assert not pod.asks_for_share(a_pod(None))
    assert pod.asks_for_share(a_pod("1"))


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("gpu_memory", "lots"),
        ("workload_type", "Play"),
        ("processes_per_gpu", "0"),
        ("processes_per_gpu", "1.5"),
        ("processes_per_gpu", "²"),
        ("minimum_run_seconds", "-1"),
        ("gang", "{}"),
        ("gang", "x"),
        ("prediction", '{"v":1}'),
        ("prediction", "x" * 9000),
        ("queued_since", "yesterday"),
        ("queued_since", "2026-01-31T12:00:00"),
    ],
)
def test_an_unreadable_annotation_is_refused_by_name(annotation: str, text: str) -> None:
    name = annotation.replace("_", "-")
    with pytest.raises(errors.InvalidInputError, match=rf"metadata\.annotations\[cotenant\.dev/{name}\]"):
        pod.demand(a_pod("10", **{annotation: text}))


def test_annotations_are_read() -> None:
    demand = pod.demand(
        a_pod(
            "10",
            gpu_memory="8Gi",
            gpu_models="NVIDIA-H200, Tesla-T4",
            workload_type="Inference",
            processes_per_gpu="2",
            minimum_run_seconds="60",
            gang='{"v":1,"name":"g","size":4}',
            queued_since="2026-01-31T12:00:00Z",
        )
    )
    assert demand.memory_mib == 8192
    assert demand.gpu_models == {"NVIDIA-H200", "Tesla-T4"}
    assert demand.workload_type is pod.WorkloadType.INFERENCE
    assert (demand.processes_per_gpu, demand.minimum_run_seconds) == (2, 60)
    assert demand.gang is not None
    assert (demand.gang.name, demand.gang.size) == ("g", 4)
    assert demand.queued_since is not None
    assert demand.queued_since.isoformat() == "2026-01-31T12:00:00+00:00"
