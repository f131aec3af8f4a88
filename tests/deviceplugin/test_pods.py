"""Reading pods, and refusing them."""

from typing import Any

import pytest

from cotenant_api import names, rootless
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.simulated import gpus as simulated
from deviceplugin import fakes

KNOWN = {simulated.gpu_uuid(fakes.NODE, index) for index in range(2)}


def refusal(**changes: Any) -> str | None:
    return refusal_of(fakes.pod(fakes.PodSpec(**changes)))


def refusal_of(manifest: dict[str, Any]) -> str | None:
    read = pods.read(manifest)
    assert read is not None
    return pods.refusal(read, node=fakes.NODE, known=KNOWN)


def test_a_pod_without_gpu_share_is_none_of_ours() -> None:
    manifest = fakes.pod(fakes.PodSpec())
    manifest["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    assert pods.read(manifest) is None


@pytest.mark.parametrize(
    ("phase", "running", "finished"),
    [("Pending", False, False), ("Running", True, False), ("Succeeded", False, True), ("Failed", False, True)],
)
def test_the_phase_tells_whether_it_runs_or_has_finished(phase: str, running: bool, finished: bool) -> None:
    read = pods.read(fakes.pod(fakes.PodSpec(phase=phase)))
    assert read is not None
    assert (read.running, read.finished) == (running, finished)


def test_a_pod_is_read_with_what_it_lacks_to_be_proven_not_to_be_root() -> None:
    proven, bare = (pods.read(fakes.pod(fakes.PodSpec(security=each))) for each in (rootless.PROVEN, {}))
    assert proven is not None
    assert bare is not None
    assert proven.may_be_root is None
    assert str(bare.may_be_root).startswith("spec.containers[main].securityContext: may run as root")


def test_a_placement_that_fits_is_accepted() -> None:
    assert refusal() is None


def test_a_booking_above_the_request_is_accepted() -> None:
    assert refusal(share=20, booked=57) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"annotations": {}}, "PlacementMissing: it was bound without the extender"),
        ({"annotations": {names.PLACEMENT: "{"}}, "PlacementUnreadable: cotenant.dev/placement: '{': must be JSON"),
        ({"changes": {"v": 2}}, "PlacementUnreadable: cotenant.dev/placement.v: 2"),
        ({"changes": {"gpus": []}}, "PlacementUnreadable: cotenant.dev/placement.gpus"),
        ({"gpus": (0, 0), "booked": 100}, "PlacementUnreadable: it names one GPU twice"),
        ({"changes": {"podUID": "other"}}, "PlacementForAnotherPod: it is for the pod with UID 'other'"),
        ({"changes": {"node": "n2"}}, "PlacementForAnotherNode: it is for node 'n2'"),
        ({"changes": {"container": "sidecar"}}, "PlacementForAnotherContainer: it is for 'sidecar', and 'main' asks"),
        ({"share": 40, "booked": 39}, "ShareBelowRequest: 39 hundredths are booked, 40 are asked for"),
        ({"share": 200, "booked": 100}, "ShareBelowRequest: 100 hundredths are booked, 200 are asked for"),
        ({"gpus": (7,)}, f"UnknownGPU: this node has no '{simulated.gpu_uuid(fakes.NODE, 7)}'"),
        ({"share": 150}, "RequestUnreadable: spec.containers[main].resources.limits[cotenant.dev/gpu-share]: 150"),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else None,
)
def test_every_refusal_says_why(changes: dict[str, Any], reason: str) -> None:
    assert str(refusal(**changes)).startswith(reason)


def test_two_containers_that_ask_are_refused() -> None:
    manifest = fakes.pod(fakes.PodSpec())
    manifest["spec"]["containers"] *= 2
    assert str(refusal_of(manifest)).startswith("RequestUnreadable: spec.containers")


def test_no_gpu_is_called_unknown_while_nobody_knows_the_gpus() -> None:
    read = pods.read(fakes.pod(fakes.PodSpec(gpus=(7,))))
    assert read is not None
    assert pods.refusal(read, node=fakes.NODE, known=None) is None
