"""The status of a real node: what late binding, health and MPS add to what the hardware says."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from cotenant_api import conditions, gpunode, placement
from cotenant_api.names import GPUModel, Namespace, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.publishing import readiness, status, tenants
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes

DEVICES = simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=2)
FIRST, SECOND = (device.uuid for device in DEVICES)
UID = PodUID("uid-train")
AROUND = readiness.Surroundings(container_runtime="containerd://2.3.7")
HEALTHY = status.GPUState(health=gpunode.Health.HEALTHY, mps=gpunode.MPS.ACTIVE)
FAULT = gpunode.Fault(id="f1", time="2026-03-01T12:00:00Z", xid=31, culprit_pod_uid=UID)


def bound(**changes: Any) -> pods.BoundPod:
    read = pods.read(fakes.pod(fakes.PodSpec(**changes)))
    assert read is not None
    return read


def holder(**changes: Any) -> tenants.Holder:
    spec = fakes.PodSpec(**changes)
    booked = placement.Placement.from_object(fakes.placement(spec), source="test")
    return tenants.Holder(uid=PodUID(spec.uid), namespace=Namespace("team"), pod=spec.name, booked=booked)


def machine(*pids: int, owner: PodUID | None = None, devices: tuple[hardware.Device, ...] = DEVICES) -> status.Machine:
    processes = tuple(hardware.Process(pid=pid, memory_mib=100) for pid in pids)
    usage = hardware.Usage(utilization_percent=0, memory_used_mib=100 * len(pids), processes=processes)
    owners = {} if owner is None else dict.fromkeys(pids, owner)
    driver = hardware.Driver(driver_version="600.1", cuda_version="13.0")
    return status.Machine(simulated=False, driver=driver, devices=devices, usage={FIRST: usage}, owners=owners)


def view(**changes: Any) -> status.View:
    values = {"gpus": {FIRST: HEALTHY, SECOND: HEALTHY}, "around": AROUND, **changes}
    return status.View(**values)


def of(
    *running: pods.BoundPod,
    seen: status.View | None = None,
    previous: gpunode.Status | None = None,
    hardware_says: status.Machine | None = None,
    **changes: Any,
) -> gpunode.Status:
    observed = status.Observed(
        node=fakes.NODE,
        agent_version="1",
        machine=hardware_says or machine(),
        pods=running,
        view=seen or view(),
        **changes,
    )
    return status.of(observed, previous=previous, now=fakes.START + timedelta(seconds=30))


def names_of(gpu: gpunode.GPU) -> list[str]:
    return [tenant.pod for tenant in gpu.tenants]


# Tenants


def test_a_grant_is_a_tenant_after_its_pod_has_vanished() -> None:
    assert names_of(of(seen=view(granted=(holder(),))).gpus[0]) == ["train"]


def test_a_grant_is_a_tenant_while_its_finished_pod_is_not_collected() -> None:
    assert names_of(of(bound(phase="Failed"), seen=view(granted=(holder(),))).gpus[0]) == ["train"]


def test_a_pod_that_was_granted_its_gpu_is_listed_once() -> None:
    assert names_of(of(bound(), seen=view(granted=(holder(),))).gpus[0]) == ["train"]


def test_what_was_granted_counts_whatever_the_annotation_says_now() -> None:
    made = of(bound(gpus=(1,), annotations={}), seen=view(granted=(holder(gpus=(0,)),)))
    assert ([names_of(gpu) for gpu in made.gpus], made.refused) == ([["train"], []], ())


def test_a_gpu_that_vanishes_stays_listed_while_a_grant_stands_on_it() -> None:
    before = of(seen=view(granted=(holder(gpus=(1,)),)))
    made = of(seen=view(granted=(holder(gpus=(1,)),)), previous=before, hardware_says=machine(devices=DEVICES[:1]))
    assert [(gpu.health, names_of(gpu)) for gpu in made.gpus] == [("Healthy", []), ("Unhealthy", ["train"])]


def test_an_mps_server_is_no_foreign_process() -> None:
    gpus = of(seen=view(own_pids=frozenset({7})), hardware_says=machine(7, 8)).gpus
    assert gpus[0].foreign_processes == 1


# Refused


def test_a_pod_that_late_binding_refuses_is_named_and_is_no_tenant() -> None:
    made = of(bound(), seen=view(refused={UID: "GPUNotServed: it is in MIG mode"}))
    assert [(each.pod_uid, each.reason) for each in made.refused] == [(UID, "GPUNotServed: it is in MIG mode")]
    assert names_of(made.gpus[0]) == []


def test_a_refusal_of_a_pod_that_is_gone_is_forgotten() -> None:
    assert of(seen=view(refused={UID: "GPUNotServed"})).refused == ()


def test_a_placement_that_is_wrong_is_told_before_what_late_binding_says() -> None:
    made = of(bound(annotations={}), seen=view(refused={UID: "GPUNotServed"}))
    assert made.refused[0].reason.startswith("PlacementMissing")


# GPUs


def test_mode_health_mps_and_fault_are_as_the_agent_found_them() -> None:
    state = status.GPUState(
        mode=gpunode.Mode.WHOLE,
        health=gpunode.Health.SUSPECT,
        reason="XID 31",
        mps=gpunode.MPS.FAULT,
        last_fault=FAULT,
    )
    gpu = of(seen=view(gpus={FIRST: state, SECOND: HEALTHY})).gpus[0]
    assert (gpu.mode, gpu.health, gpu.reason, gpu.mps, gpu.last_fault) == ("Whole", "Suspect", "XID 31", "Fault", FAULT)


def test_a_gpu_that_was_not_examined_yet_takes_nothing_and_keeps_its_fault() -> None:
    before = of(seen=view(gpus={FIRST: dataclasses.replace(HEALTHY, last_fault=FAULT)}))
    gpu = of(seen=view(gpus={}), previous=before).gpus[0]
    assert (gpu.health, gpu.reason, gpu.last_fault) == ("Suspect", status.UNEXAMINED_REASON, FAULT)


def test_a_gpu_in_mig_mode_says_so() -> None:
    mig = (dataclasses.replace(DEVICES[0], mig=True), DEVICES[1])
    gpu = of(hardware_says=machine(devices=mig)).gpus[0]
    assert (gpu.mode, gpu.reason) == (gpunode.Mode.MIG, status.MIG_REASON)


def test_an_excluded_gpu_keeps_the_reason_of_its_ill_health() -> None:
    ill = status.GPUState(health=gpunode.Health.UNHEALTHY, reason="XID 79")
    gpu = of(seen=view(gpus={FIRST: ill}), excluded_gpus=frozenset({FIRST})).gpus[0]
    assert (gpu.mode, gpu.reason) == (gpunode.Mode.EXCLUDED, "XID 79")


def test_a_long_reason_is_cut() -> None:
    ill = status.GPUState(health=gpunode.Health.UNHEALTHY, reason="x" * 3000)
    assert len(of(seen=view(gpus={FIRST: ill})).gpus[0].reason or "") == status.MAX_REASON


# Readiness


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("True", "AgentReady", "2 GPUs")),
        ({"offering": False}, ("True", "AgentReady", "2 GPUs; the PackingPolicy offers no shares")),
        ({"kubelet_fault": "no kubelet.sock"}, ("False", "KubeletUnreachable", "no kubelet.sock")),
    ],
)
def test_ready_follows_from_the_surroundings(changes: dict[str, Any], expected: tuple[str, str, str]) -> None:
    made = of(seen=view(around=dataclasses.replace(AROUND, **changes)))
    ready = conditions.find(made.conditions, gpunode.READY)
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == expected


def test_a_missing_driver_is_told_before_all_else() -> None:
    silent = status.Machine(simulated=False, fault="the driver is not loaded")
    made = of(seen=view(around=dataclasses.replace(AROUND, foreign=("nvidia.com/gpu",))), hardware_says=silent)
    assert [each.reason for each in made.conditions] == ["DriverMissing", "WithinBounds"]
