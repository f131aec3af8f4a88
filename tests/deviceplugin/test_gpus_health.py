"""When a GPU is closed, why, and how it opens again."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from cotenant_api import errors, gpunode
from cotenant_api.gpunode import MPS, Health
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.gpus import evidence as ev
from cotenant_deviceplugin.gpus import hardware, health, xids

GPU = GPUUID("GPU-1")
A, B, C = PodUID("a"), PodUID("b"), PodUID("c")
TABLE = xids.load()
MACHINE = health.Machine(TABLE)
BLIND = health.Machine(TABLE, ev.Policy(canary=False))
START = 1_700_000_000.0
WELL = hardware.Readings(recovery_action=hardware.RecoveryAction.NONE, remap_pending=False, remap_failed=False)
GOOD = ev.Evidence(readings=WELL, mps=MPS.ACTIVE, boot="boot-1")


def fresh(*, now: float = START) -> ev.Record:
    """A GPU that has been found Healthy."""
    found = MACHINE.step(GPU, health.unexamined(now=now), GOOD, now=now)
    assert found.health is Health.HEALTHY
    return found


def told(record: ev.Record, *xid: int, at: float, **changes: object) -> ev.Record:
    return MACHINE.step(GPU, record, replace(GOOD, xids=xid, **changes), now=at)  # type: ignore[arg-type]


def stepped(
    record: ev.Record, seen: ev.Evidence, times: Iterable[float], *, machine: health.Machine = MACHINE
) -> ev.Record:
    for now in times:
        record = machine.step(GPU, record, seen, now=now)
    return record


def proved(began: float) -> ev.Evidence:
    return replace(GOOD, canary=ev.Canary(began=began))


def test_a_gpu_that_nobody_has_examined_is_suspect_until_everything_is_met() -> None:
    new = health.unexamined(now=START)
    assert (new.health, new.reason) == (Health.SUSPECT, "not examined yet")
    assert MACHINE.step(GPU, new, GOOD, now=START).health is Health.HEALTHY


def test_a_gpu_that_is_well_stays_healthy_without_a_canary() -> None:
    assert stepped(fresh(), GOOD, (START + 10, START + 20)).health is Health.HEALTHY


@pytest.mark.parametrize("state", [MPS.STARTING, MPS.STOPPED, MPS.FAULT])
def test_without_an_active_server_a_shared_gpu_takes_no_work(state: MPS) -> None:
    found = MACHINE.step(GPU, fresh(), replace(GOOD, mps=state), now=START + 1)
    assert found.health is Health.SUSPECT
    assert f"its MPS server is {state}" in str(found.reason)


def test_a_server_that_only_started_anew_needs_no_canary() -> None:
    starting = MACHINE.step(GPU, fresh(), replace(GOOD, mps=MPS.STARTING), now=START + 1)
    assert MACHINE.step(GPU, starting, GOOD, now=START + 2).health is Health.HEALTHY


def test_a_server_that_never_comes_up_makes_the_gpu_unhealthy() -> None:
    down = replace(GOOD, mps=MPS.STOPPED)
    found = stepped(fresh(), down, (START + 1, START + 600))
    assert found.health is Health.SUSPECT
    assert MACHINE.step(GPU, found, down, now=START + 601).health is Health.UNHEALTHY


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_an_application_fault_under_mps_closes_the_gpu_until_a_canary_passed(xid: int) -> None:
    at = START + 10
    record = told(fresh(), xid, at=at)
    assert record.health is Health.SUSPECT
    assert "no canary has proved it since" in str(record.reason)
    assert MACHINE.wants_canary(record, GOOD, now=at + 1)
    record = MACHINE.step(GPU, record, proved(at + 2), now=at + 4)
    assert (record.health, record.reason) == (Health.SUSPECT, record.reason)
    assert "watched until" in str(record.reason)
    record = MACHINE.step(GPU, record, proved(at + 2), now=at + 5)
    assert (record.health, record.reason, record.cause) == (Health.HEALTHY, None, None)


def test_an_application_fault_on_a_whole_gpu_closes_nothing() -> None:
    record = told(fresh(), 31, at=START + 1, mps=MPS.NOT_USED, tenants=(A,))
    assert record.health is Health.HEALTHY


def test_a_canary_that_began_before_the_fault_proves_nothing() -> None:
    record = told(fresh(), 31, at=START + 10)
    later = stepped(record, proved(START + 9), (START + 20, START + 100))
    assert later.health is Health.SUSPECT


def test_a_canary_from_the_future_proves_nothing() -> None:
    record = told(fresh(), 31, at=START + 10)
    assert stepped(record, proved(START + 900), (START + 20, START + 30)).health is Health.SUSPECT


def test_a_canary_that_failed_is_asked_again() -> None:
    record = told(fresh(), 31, at=START + 10)
    failed = replace(GOOD, canary=ev.Canary(began=START + 12, fault="a canary failed: cuInit: CUDA_ERROR_NO_DEVICE"))
    record = MACHINE.step(GPU, record, failed, now=START + 20)
    assert record.health is Health.SUSPECT
    assert "no canary has proved it since: a canary failed: cuInit: CUDA_ERROR_NO_DEVICE" in str(record.reason)
    assert MACHINE.wants_canary(record, failed, now=START + 20)
    assert MACHINE.step(GPU, record, proved(START + 21), now=START + 23).health is Health.HEALTHY


@pytest.mark.parametrize("mps", [MPS.ACTIVE, MPS.NOT_USED])
def test_a_gpu_whose_server_is_not_used_meanwhile_waits_for_a_canary_too(mps: MPS) -> None:
    record = told(fresh(), 31, at=START + 10)
    unused = replace(GOOD, mps=MPS.NOT_USED)
    record = stepped(record, unused, (START + 20, START + 10_000))
    assert (record.health, record.stalled_at) == (Health.SUSPECT, None)
    assert MACHINE.wants_canary(record, unused, now=START + 10_000)
    passed = replace(GOOD, mps=mps, canary=ev.Canary(began=START + 10_001))
    assert MACHINE.step(GPU, record, passed, now=START + 10_002).health is Health.HEALTHY


def test_a_gpu_whose_canaries_keep_failing_becomes_unhealthy() -> None:
    record = told(fresh(), 31, at=START + 10)
    failed = ev.Canary(began=START + 12, fault="a canary failed: cuInit: CUDA_ERROR_NO_DEVICE")
    record = MACHINE.step(GPU, record, replace(GOOD, mps=MPS.NOT_USED, canary=failed), now=START + 20)
    later = stepped(record, replace(GOOD, mps=MPS.NOT_USED), (START + 600, START + 620))
    assert later.health is Health.UNHEALTHY


def test_where_nobody_runs_canaries_none_is_waited_for() -> None:
    record = BLIND.step(GPU, fresh(), replace(GOOD, xids=(31,)), now=START + 1)
    assert record.health is Health.SUSPECT
    assert str(record.reason).endswith("and no canary is run")
    assert not BLIND.wants_canary(record, GOOD, now=START + 2)
    assert BLIND.step(GPU, record, GOOD, now=START + 6).health is Health.HEALTHY


def test_the_first_thing_that_is_told_of_a_gpu_counts_too() -> None:
    record = BLIND.step(GPU, health.unexamined(now=START), replace(GOOD, xids=(31,)), now=START)
    assert (record.health, record.faults) == (Health.SUSPECT, 1)


def test_a_demand_of_a_gpu_that_is_being_examined_counts_too() -> None:
    record = MACHINE.step(GPU, health.unexamined(now=START), replace(GOOD, xids=(63,), mps=MPS.NOT_USED), now=START)
    assert record.health is Health.SUSPECT
    assert "demands: Drain; at least 2023-11-14T22:18:20Z" in str(record.reason)


def test_no_canary_is_wanted_while_the_gpu_is_beyond_it() -> None:
    record = told(fresh(), 79, at=START + 1)
    assert not MACHINE.wants_canary(record, GOOD, now=START + 2)
    assert not MACHINE.wants_canary(record, replace(GOOD, mps=MPS.FAULT), now=START + 2)


@pytest.mark.parametrize(
    ("readings", "reason"),
    [
        (replace(WELL, recovery_action=hardware.RecoveryAction.GPU_RESET), "the driver asks for GPU_RESET"),
        (replace(WELL, recovery_action=hardware.RecoveryAction.UNKNOWN), "the driver asks for UNKNOWN"),
        (replace(WELL, remap_failed=True), "a memory row could not be remapped"),
    ],
)
def test_what_the_gpu_itself_says_makes_it_unhealthy_at_once(readings: hardware.Readings, reason: str) -> None:
    record = MACHINE.step(GPU, fresh(), replace(GOOD, readings=readings), now=START + 1)
    assert record.health is Health.UNHEALTHY
    assert reason in str(record.reason)


def test_a_row_that_waits_to_be_remapped_drains_the_gpu_and_no_more() -> None:
    waiting = replace(GOOD, readings=replace(WELL, remap_pending=True))
    record = stepped(fresh(), waiting, (START + 1, START + 100_000))
    assert record.health is Health.SUSPECT
    assert MACHINE.step(GPU, record, GOOD, now=START + 100_001).health is Health.HEALTHY


@pytest.mark.parametrize(
    ("readings", "reason"),
    [(None, "the driver does not list it"), (hardware.Readings(fault="NVML: GPU is lost"), "NVML: GPU is lost")],
)
def test_a_gpu_that_cannot_be_asked_is_suspect_then_unhealthy(readings: hardware.Readings | None, reason: str) -> None:
    silent = replace(GOOD, readings=readings)
    record = MACHINE.step(GPU, fresh(), silent, now=START + 1)
    assert (record.health, reason in str(record.reason)) == (Health.SUSPECT, True)
    assert stepped(record, silent, (START + 20, START + 31)).health is Health.UNHEALTHY


@pytest.mark.parametrize("xid", [46, 48, 64, 79, 95, 119, 120, 140, 9999])
def test_a_hardware_fault_makes_it_unhealthy_whatever_the_mode(xid: int) -> None:
    record = told(fresh(), xid, at=START + 1, mps=MPS.NOT_USED)
    assert record.health is Health.UNHEALTHY
    assert f"XID {xid} (" in str(record.reason)


def test_the_way_back_leads_through_quiet_and_probation() -> None:
    at = START + 10
    record = told(fresh(), 79, at=at)
    seen = proved(at + 50)
    record = stepped(record, seen, (at + 100, at + 299))
    assert record.health is Health.UNHEALTHY
    record = MACHINE.step(GPU, record, seen, now=at + 300)
    assert record.health is Health.PROBATION
    assert "on probation until 2023-11-14T22:23:30Z after: XID 79" in str(record.reason)
    record = MACHINE.step(GPU, record, seen, now=at + 599)
    assert record.health is Health.PROBATION
    assert MACHINE.step(GPU, record, seen, now=at + 600).health is Health.HEALTHY


def test_where_the_driver_tells_no_recovery_action_quiet_lasts_longer() -> None:
    untold = replace(GOOD, readings=hardware.Readings(), mps=MPS.NOT_USED)
    record = BLIND.step(GPU, fresh(), replace(untold, xids=(48,)), now=START)
    assert stepped(record, untold, (START + 3599,), machine=BLIND).health is Health.UNHEALTHY
    assert stepped(record, untold, (START + 3600,), machine=BLIND).health is Health.PROBATION


def test_a_restart_of_the_machine_ends_what_demanded_one() -> None:
    record = told(fresh(), 79, at=START + 1, mps=MPS.NOT_USED)
    restarted = replace(GOOD, mps=MPS.NOT_USED, boot="boot-2")
    assert BLIND.step(GPU, record, restarted, now=START + 10).health is Health.PROBATION


def test_trouble_on_probation_begins_again_and_takes_twice_as_long() -> None:
    whole = replace(GOOD, mps=MPS.NOT_USED)
    record = BLIND.step(GPU, fresh(), replace(whole, xids=(79,)), now=START)
    record = BLIND.step(GPU, record, whole, now=START + 300)
    assert record.health is Health.PROBATION
    record = BLIND.step(GPU, record, replace(whole, xids=(79,)), now=START + 310)
    assert (record.health, record.flaps) == (Health.UNHEALTHY, 2)
    record = BLIND.step(GPU, record, whole, now=START + 610)
    assert stepped(record, whole, (START + 1209,), machine=BLIND).health is Health.PROBATION
    assert stepped(record, whole, (START + 1210,), machine=BLIND).health is Health.HEALTHY


def test_whose_tenants_crash_is_watched_twice_as_long_each_time_and_forgiven_after_an_hour() -> None:
    record, now = fresh(), START
    for faults, watched in ((1, 5), (2, 10), (3, 20)):
        now += 100
        record = told(record, 31, at=now)
        assert (record.faults, record.flaps) == (faults, 0)
        assert stepped(record, proved(now + 1), (now + watched - 0.5,)).health is Health.SUSPECT
        record = stepped(record, proved(now + 1), (now + watched,))
        assert record.health is Health.HEALTHY
    assert stepped(record, GOOD, (now + 3599,)).faults == 3
    assert stepped(record, GOOD, (now + 3600,)).faults == 0


def test_what_a_gpu_did_itself_is_forgiven_after_a_day() -> None:
    whole = replace(GOOD, mps=MPS.NOT_USED)
    record = BLIND.step(GPU, fresh(), replace(whole, xids=(79,)), now=START)
    record = stepped(record, whole, (START + 300, START + 600), machine=BLIND)
    assert (record.health, record.flaps) == (Health.HEALTHY, 1)
    assert stepped(record, whole, (START + 86_399,), machine=BLIND).flaps == 1
    assert stepped(record, whole, (START + 86_400,), machine=BLIND).flaps == 0


@pytest.mark.parametrize("xid", [43, 45])
def test_processes_that_are_ended_on_purpose_make_nobody_wait_longer(xid: int) -> None:
    record, now = fresh(), START
    for _ in range(20):
        now += 100
        record = stepped(told(record, xid, at=now), proved(now + 1), (now + 5,))
        assert (record.health, record.faults) == (Health.HEALTHY, 0)


def test_a_bad_reading_counts_once_for_as_long_as_it_lasts() -> None:
    asked = replace(GOOD, readings=replace(WELL, recovery_action=hardware.RecoveryAction.GPU_RESET))
    assert stepped(fresh(), asked, (START + 1, START + 2, START + 3)).flaps == 1


def test_the_stronger_demand_stays_though_a_weaker_one_follows() -> None:
    record = told(fresh(), 79, at=START + 1)
    record = told(record, 63, at=START + 2)
    assert (record.demand, record.demand_xid) == (xids.Class.REBOOT, 79)


def test_reasons_do_not_change_as_time_passes() -> None:
    record = told(fresh(), 79, at=START + 1)
    reasons = {stepped(record, GOOD, (START + passed,)).reason for passed in range(10, 200, 10)}
    assert len(reasons) == 1


def test_a_clock_that_goes_back_keeps_no_gpu_closed_for_as_long() -> None:
    whole = replace(GOOD, mps=MPS.NOT_USED)
    record = BLIND.step(GPU, fresh(), replace(whole, xids=(79,)), now=START + 1_000_000)
    record = stepped(record, whole, (START, START + 300, START + 600), machine=BLIND)
    assert record.health is Health.HEALTHY


def test_a_reason_fits_into_the_api() -> None:
    record = MACHINE.step(GPU, fresh(), replace(GOOD, readings=hardware.Readings(fault="x" * 5000)), now=START + 1)
    assert len(str(record.reason)) == 1024


# What is published of a fault.


def fault_of(record: ev.Record) -> gpunode.Fault:
    assert record.fault is not None
    return record.fault


def test_a_fault_of_several_tenants_names_all_of_them_and_no_culprit() -> None:
    record = told(fresh(), 31, at=START + 10, tenants=(C, A, B))
    assert fault_of(record) == gpunode.Fault(
        id="GPU-1-1700000010000-1", time="2023-11-14T22:13:30Z", xid=31, victim_pod_uids=(A, B, C),
        suspect_pod_uids=(A, B, C),
    )  # fmt: skip


@pytest.mark.parametrize(("strangers", "expected"), [(False, (A, ())), (True, (None, (A,), A))])
def test_who_is_alone_on_the_gpu_is_the_culprit(*, strangers: bool, expected: object) -> None:
    found = fault_of(told(fresh(), 31, at=START + 10, mps=MPS.FAULT, tenants=(A,), strangers=strangers))
    assert (found.culprit_pod_uid, found.victim_pod_uids, *found.suspect_pod_uids) == expected


@pytest.mark.parametrize("xid", [79, 95, 94, 74])
def test_hardware_has_no_culprit(xid: int) -> None:
    found = fault_of(told(fresh(), xid, at=START + 10, tenants=(A, B)))
    assert (found.culprit_pod_uid, found.victim_pod_uids, found.suspect_pod_uids) == (None, (A, B), ())


@pytest.mark.parametrize(("xid", "strangers"), [(31, True), (9999, False), (9999, True)])
def test_where_nobody_knows_the_cause_no_tenant_is_innocent(xid: int, *, strangers: bool) -> None:
    found = fault_of(told(fresh(), xid, at=START + 10, tenants=(A, B), strangers=strangers))
    assert (found.culprit_pod_uid, found.suspect_pod_uids) == (None, (A, B))


def test_who_is_alone_when_an_unknown_xid_is_told_is_a_suspect() -> None:
    found = fault_of(told(fresh(), 9999, at=START + 10, tenants=(A,)))
    assert (found.culprit_pod_uid, found.suspect_pod_uids) == (None, (A,))


def test_a_fault_of_the_server_is_one_though_no_xid_was_told() -> None:
    found = fault_of(told(fresh(), at=START + 10, mps=MPS.FAULT, tenants=(A, B)))
    assert (found.xid, found.culprit_pod_uid, found.suspect_pod_uids) == (None, None, (A, B))


def test_all_that_is_told_of_one_incident_is_one_fault() -> None:
    first = told(fresh(), 31, at=START + 10, tenants=(A, B))
    then = told(first, 13, at=START + 11, mps=MPS.FAULT, tenants=(A, B))
    last = told(then, at=START + 500, mps=MPS.FAULT, tenants=(A, B))
    assert last.fault == first.fault


def test_a_restart_of_the_agent_in_the_middle_of_a_fault_tells_no_other() -> None:
    record = told(fresh(), at=START + 10, mps=MPS.FAULT, tenants=(A, B))
    record = health.read(health.stored({GPU: record}))[GPU]
    unseen = told(record, at=START + 500, mps=MPS.STOPPED, tenants=(A, B, C))
    again = told(unseen, at=START + 501, mps=MPS.FAULT, tenants=(A, B, C))
    assert again.fault == record.fault


@pytest.mark.parametrize("mps", [MPS.ACTIVE, MPS.NOT_USED])
def test_a_fault_after_the_server_was_well_again_is_another(mps: MPS) -> None:
    record = told(fresh(), at=START + 10, mps=MPS.FAULT, tenants=(A,))
    well = replace(GOOD, mps=mps, canary=ev.Canary(began=START + 11))
    record = MACHINE.step(GPU, record, well, now=START + 500)
    assert told(record, at=START + 501, mps=MPS.FAULT, tenants=(B,)).fault != record.fault


def test_a_later_incident_is_another_fault() -> None:
    first = told(fresh(), 31, at=START + 10, tenants=(A, B))
    assert told(first, 31, at=START + 70, tenants=(B,)).fault != first.fault


def test_faults_of_one_moment_have_ids_of_their_own() -> None:
    first = told(fresh(), 31, at=START + 10, mps=MPS.NOT_USED, tenants=(A,))
    second = told(first, 31, at=START + 10, mps=MPS.NOT_USED, tenants=(B,))
    assert fault_of(second).id != fault_of(first).id


def test_the_fault_of_a_new_tenant_is_another_fault_however_soon() -> None:
    first = told(fresh(), 31, at=START + 10, mps=MPS.NOT_USED, tenants=(A,))
    assert fault_of(told(first, 31, at=START + 20, mps=MPS.NOT_USED, tenants=(B,))).culprit_pod_uid == B


@pytest.mark.parametrize("xid", [43, 45, 154, 92])
def test_what_follows_a_fault_or_means_none_is_no_fault(xid: int) -> None:
    assert told(fresh(), xid, at=START + 10, tenants=(A, B)).fault is None


# What is stored.


def test_what_is_stored_is_read_back() -> None:
    records = {GPU: told(fresh(), 79, at=START + 1, tenants=(A, B)), GPUUID("GPU-2"): fresh()}
    assert health.read(health.stored(records)) == records


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v":1}', '{"v":1,"gpus":{"GPU-1":{"health":"Fine","since":1}}}'])
def test_a_broken_file_makes_gpus_suspect_until_they_are_proved(text: str) -> None:
    with pytest.raises(errors.InvalidInputError):
        health.read(text)
    record = health.doubtful(now=START)
    assert (record.health, record.reason) == (Health.SUSPECT, "what was known of this GPU could not be read")
    record = stepped(record, GOOD, (START + 1, START + 100))
    assert record.health is Health.SUSPECT
    assert stepped(record, proved(START + 101), (START + 102,)).health is Health.HEALTHY
