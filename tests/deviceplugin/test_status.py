"""The status that is made of what an agent sees, and when it is written."""

from datetime import timedelta
from typing import Any

import pytest

from cotenant_api import conditions, gpunode
from cotenant_api.names import GPUModel, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.publishing import status
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes

NOW = fakes.START
DEVICES = simulated.devices(fakes.NODE, model=models.MODELS[GPUModel("Tesla-T4")], count=2)
FIRST, SECOND = (device.uuid for device in DEVICES)


def bound(**changes: Any) -> pods.BoundPod:
    read = pods.read(fakes.pod(fakes.PodSpec(**changes)))
    assert read is not None
    return read


def machine(*memory_mib: int, owner: str = "uid-train", percent: int = 0) -> status.Machine:
    """A machine whose first GPU has a process of each size, all of one pod."""
    processes = tuple(hardware.Process(pid=pid, memory_mib=size) for pid, size in enumerate(memory_mib))
    usage = hardware.Usage(utilization_percent=percent, memory_used_mib=sum(memory_mib), processes=processes)
    driver = hardware.Driver(driver_version="simulated", cuda_version="simulated")
    owners = {process.pid: PodUID(owner) for process in processes}
    return status.Machine(simulated=True, driver=driver, devices=DEVICES, usage={FIRST: usage}, owners=owners)


def observed(*running: pods.BoundPod, hardware_says: status.Machine | None = None, **changes: Any) -> status.Observed:
    return status.Observed(
        node=fakes.NODE, agent_version="1+simulated", machine=hardware_says or machine(), pods=running, **changes
    )


def of(
    *running: pods.BoundPod, previous: gpunode.Status | None = None, after: float = 0, **changes: Any
) -> gpunode.Status:
    now = NOW + timedelta(seconds=after)
    return status.of(observed(*running, **changes), previous=previous, now=now)


# Bookings


def test_a_gpu_that_bound_pods_book_beyond_what_it_has_is_told_by_a_condition() -> None:
    twice = of(bound(booked=60), bound(name="other", uid="uid-other", booked=60))
    found = conditions.find(twice.conditions, gpunode.OVERBOOKED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "BookedTwice")
    assert found.message == f"{FIRST}: 120 hundredths of 100 are booked"
    once = of(bound(booked=60), previous=twice)
    assert not conditions.is_true(once.conditions, gpunode.OVERBOOKED)


# Tenants


def test_a_pod_placed_here_is_a_tenant_of_its_gpu_only() -> None:
    first, second = of(bound(memory_mib=8000), hardware_says=machine(5000)).gpus
    expected = gpunode.Tenant(
        pod_uid=PodUID("uid-train"),
        namespace="team",
        pod="train",
        memory_used_mib=5000,
        memory_peak_mib=5000,
        memory_limit_mib=8000,
    )
    assert (first.tenants, second.tenants) == ((expected,), ())


def test_a_pod_is_a_tenant_before_it_runs() -> None:
    assert [tenant.pod for tenant in of(bound(phase="Pending")).gpus[0].tenants] == ["train"]


def test_a_pod_on_two_gpus_is_a_tenant_of_both() -> None:
    gpus = of(bound(share=200, booked=100, gpus=(0, 1))).gpus
    assert [len(gpu.tenants) for gpu in gpus] == [1, 1]


def test_memory_of_all_processes_of_a_pod_is_added() -> None:
    assert of(bound(), hardware_says=machine(3000, 2000)).gpus[0].tenants[0].memory_used_mib == 5000


def test_the_order_of_tenants_does_not_depend_on_the_order_of_events() -> None:
    one, two = bound(uid="a", name="a"), bound(uid="b", name="b")
    assert of(one, two) == of(two, one)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_no_tenant(phase: str) -> None:
    assert of(bound(phase=phase)).gpus[0].tenants == ()


def test_the_memory_peak_is_kept_from_the_previous_status() -> None:
    before = of(bound(), hardware_says=machine(5000))
    tenant = of(bound(), hardware_says=machine(2000), previous=before).gpus[0].tenants[0]
    assert (tenant.memory_used_mib, tenant.memory_peak_mib) == (2000, 5000)


def test_a_process_that_no_tenant_explains_is_foreign() -> None:
    assert of(bound(), hardware_says=machine(100, 100, owner="somebody")).gpus[0].foreign_processes == 2


# Ended


def test_a_tenant_that_is_gone_has_ended_with_its_peak() -> None:
    before = of(bound(), hardware_says=machine(5000))
    first = of(previous=before, after=30).gpus[0]
    ended = gpunode.Ended(pod_uid=PodUID("uid-train"), memory_peak_mib=5000, time="2026-03-01T12:00:30Z")
    assert (first.tenants, first.ended) == ((), (ended,))


def test_an_ended_tenant_is_forgotten_after_ten_minutes() -> None:
    ended = of(previous=of(bound()))
    assert len(of(previous=ended, after=599).gpus[0].ended) == 1
    assert of(previous=ended, after=600).gpus[0].ended == ()


def test_a_tenant_ends_once() -> None:
    ended = of(previous=of(bound()))
    assert of(previous=ended, after=10).gpus[0].ended == ended.gpus[0].ended


def test_a_tenant_that_is_back_has_not_ended_and_keeps_its_peak() -> None:
    ended = of(previous=of(bound(), hardware_says=machine(5000)))
    first = of(bound(), previous=ended).gpus[0]
    assert (first.ended, first.tenants[0].memory_peak_mib) == ((), 5000)


def test_only_the_last_32_ended_tenants_are_listed() -> None:
    current = of()
    for number in range(40):
        current = of(bound(uid=f"uid-{number}"), previous=current, after=number)
    ended = of(previous=current, after=40).gpus[0].ended
    assert [entry.pod_uid for entry in ended] == [f"uid-{number}" for number in range(8, 40)]


# Refused


def test_a_refused_pod_is_named_and_is_no_tenant() -> None:
    made = of(bound(changes={"node": "n2"}), bound(uid="good"))
    assert [(refused.pod_uid, refused.reason) for refused in made.refused] == [
        ("uid-train", "PlacementForAnotherNode: it is for node 'n2'")
    ]
    assert [tenant.pod_uid for tenant in made.gpus[0].tenants] == ["good"]


def test_a_finished_pod_is_not_refused_any_more() -> None:
    assert of(bound(annotations={}, phase="Failed")).refused == ()


def test_more_refusals_than_fit_are_cut() -> None:
    many = (bound(uid=f"{number:03}", annotations={}) for number in range(200))
    assert len(of(*many).refused) == status.MAX_REFUSED


def test_a_long_reason_is_cut_to_what_the_api_server_takes() -> None:
    reasons = of(bound(changes={"node": "n" * 4000})).refused
    assert len(reasons[0].reason) <= 1024


# GPUs


def test_an_excluded_gpu_is_so_and_keeps_its_tenants() -> None:
    first, second = of(bound(), excluded_gpus=frozenset({FIRST})).gpus
    assert (first.mode, first.reason, len(first.tenants)) == (gpunode.Mode.EXCLUDED, status.EXCLUDED_REASON, 1)
    assert (second.mode, second.reason) == (gpunode.Mode.SHARED, None)


@pytest.mark.parametrize(("backend", "mode"), [("MPS", gpunode.Mode.SHARED), ("Whole", gpunode.Mode.WHOLE)])
def test_the_mode_follows_the_backend_of_the_tenants(backend: str, mode: gpunode.Mode) -> None:
    assert of(bound(backend=backend)).gpus[0].mode is mode


def test_no_mps_server_is_claimed() -> None:
    assert {gpu.mps for gpu in of(bound()).gpus} == {gpunode.MPS.NOT_USED}


def test_a_gpu_whose_usage_cannot_be_read_tells_none() -> None:
    second = of().gpus[1]
    assert (second.utilization_percent, second.memory_used_mib) == (None, None)


def test_a_gpu_that_vanishes_stays_closed_while_it_is_held() -> None:
    before = of(bound(gpus=(1,)))
    left = status.Machine(simulated=True, devices=DEVICES[:1])
    made = of(bound(gpus=(1,)), previous=before, hardware_says=left)
    assert [(gpu.health, gpu.reason) for gpu in made.gpus] == [("Healthy", None), ("Unhealthy", status.LOST_REASON)]
    assert (made.gpus[1].tenants, made.refused) == (before.gpus[1].tenants, ())


def test_a_gpu_that_vanishes_is_dropped_when_nobody_holds_it() -> None:
    left = status.Machine(simulated=True, devices=DEVICES[:1])
    assert [gpu.uuid for gpu in of(previous=of(bound(gpus=(1,))), hardware_says=left).gpus] == [FIRST]


# Readiness


def test_ready_says_that_the_gpus_are_simulated() -> None:
    made = of(generation=3)
    ready = conditions.find(made.conditions, gpunode.READY)
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("True", "AgentReady", "2 simulated GPUs")
    assert (made.simulated, made.agent_version, made.driver_version) == (True, "1+simulated", "simulated")
    assert (made.observed_generation, ready.observed_generation) == (3, 3)


def test_without_a_driver_nothing_is_ready_and_every_gpu_is_closed() -> None:
    before = of(bound())
    made = of(bound(), previous=before, hardware_says=status.Machine(simulated=True, fault="no driver"))
    ready = conditions.find(made.conditions, gpunode.READY)
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", "DriverMissing", "no driver")
    assert {gpu.health for gpu in made.gpus} == {gpunode.Health.UNHEALTHY}
    assert made.gpus[0].tenants == before.gpus[0].tenants


def test_without_a_driver_no_pod_is_refused_for_an_unknown_gpu() -> None:
    assert of(bound(), hardware_says=status.Machine(simulated=True, fault="no driver")).refused == ()


# When to write


def writes(old: gpunode.Status | None, new: gpunode.Status, *, after: float | None) -> bool:
    written = None if after is None else NOW - timedelta(seconds=after)
    return status.worth_writing(old, new, last_written=written, now=NOW)


IDLE = of(bound(), hardware_says=machine(1))


def busy(*, percent: int = 0, memory_mib: int = 1) -> gpunode.Status:
    return of(bound(), hardware_says=machine(memory_mib, percent=percent))


def test_the_first_status_is_written() -> None:
    assert writes(None, IDLE, after=None)


def test_an_agent_that_has_just_started_writes_once() -> None:
    assert writes(IDLE, IDLE, after=None)


def test_the_same_status_is_not_written_again() -> None:
    assert not writes(IDLE, IDLE, after=3600)


@pytest.mark.parametrize(
    "new",
    [
        of(),
        of(bound(), bound(uid="other")),
        of(bound(), hardware_says=machine(0)),
        of(bound(), bound(uid="other", annotations={})),
        of(bound(), excluded_gpus=frozenset({SECOND}), hardware_says=machine(1)),
        of(bound(), hardware_says=status.Machine(simulated=True, fault="no driver")),
        of(bound(), generation=2, hardware_says=machine(1)),
    ],
    ids=["tenant gone", "tenant new", "memory used first", "refused", "excluded", "not ready", "spec seen"],
)
def test_what_others_act_on_is_written_at_once(new: gpunode.Status) -> None:
    assert writes(IDLE, new, after=0)


@pytest.mark.parametrize(
    ("new", "after", "written"),
    [
        (busy(percent=10), 60, True),
        (busy(percent=10), 59, False),
        (busy(percent=9), 3600, False),
        (busy(memory_mib=1537), 60, True),
        (busy(memory_mib=1537), 59, False),
        (busy(memory_mib=1535), 3600, False),
    ],
)
def test_usage_is_written_on_ten_points_and_once_a_minute(new: gpunode.Status, after: float, written: bool) -> None:
    assert writes(IDLE, new, after=after) is written


def test_a_forgotten_end_is_written_within_a_minute() -> None:
    ended = of(previous=of(bound()))
    later = of(previous=ended, after=600)
    assert not writes(ended, later, after=59)
    assert writes(ended, later, after=60)
