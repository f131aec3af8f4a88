"""What holds of the health of a GPU whatever happens to it."""

import hypothesis
import hypothesis.strategies as st

from cotenant_api import gpunode
from cotenant_api.gpunode import MPS, Health
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.gpus import evidence as ev
from cotenant_deviceplugin.gpus import hardware, health, xids

GPU = GPUUID("GPU-1")
START = 1_700_000_000.0
TABLE = xids.load()
MACHINE = health.Machine(TABLE)
BLIND = health.Machine(TABLE, ev.Policy(canary=False))
"""On a node where nobody runs canaries."""
NOTHING = (None, hardware.RecoveryAction.NONE)

maybe = st.none() | st.booleans()
readings = st.none() | st.builds(
    hardware.Readings,
    fault=st.none() | st.just("NVML: GPU is lost"),
    recovery_action=st.none() | st.sampled_from(hardware.RecoveryAction),
    remap_pending=maybe,
    remap_failed=maybe,
)
evidences = st.builds(
    ev.Evidence,
    readings=st.just(hardware.Readings()) | readings,
    mps=st.sampled_from((MPS.ACTIVE, MPS.NOT_USED)) | st.sampled_from(MPS),
    xids=st.just(()) | st.lists(st.sampled_from((*TABLE, 9999)), max_size=3).map(tuple),
    canary=st.none()
    | st.builds(ev.Canary, fault=st.none() | st.just("broken"), began=st.floats(START - 100, START + 1e6)),
    tenants=st.lists(st.sampled_from([PodUID("a"), PodUID("b")]), unique=True).map(tuple),
    strangers=st.booleans(),
    boot=st.none() | st.sampled_from(["boot-1", "boot-2"]),
)
steps = st.tuples(st.sampled_from([-3600.0, 0.0]) | st.floats(0, 7200), evidences)
histories = st.lists(steps, max_size=25)
machines = st.sampled_from([MACHINE, BLIND])


def lived(history: list[tuple[float, ev.Evidence]], machine: health.Machine = MACHINE) -> tuple[ev.Record, float]:
    record, now = health.unexamined(now=START), START
    for passed, seen in history:
        now += passed
        record = machine.step(GPU, record, seen, now=now)
    return record, now


@hypothesis.given(machines, histories, evidences, st.floats(0, 7200))
def test_never_healthy_while_a_condition_is_not_met(
    machine: health.Machine, history: list[tuple[float, ev.Evidence]], seen: ev.Evidence, passed: float
) -> None:
    before, now = lived(history, machine)
    after = machine.step(GPU, before, seen, now=now + passed)
    if after.health is not Health.HEALTHY:
        assert after.reason
        return
    said = seen.readings
    assert said is not None
    assert said.fault is None
    assert said.recovery_action in NOTHING
    assert not said.remap_pending
    assert not said.remap_failed
    assert seen.mps in {MPS.ACTIVE, MPS.NOT_USED}
    meanings = {xids.meant(TABLE, xid, said.recovery_action) for xid in seen.xids}
    shared = seen.mps is MPS.ACTIVE
    assert ev.proven(after) or not shared or machine is BLIND
    assert meanings <= ({xids.Class.IGNORE} if shared else {xids.Class.IGNORE, xids.Class.APPLICATION})


@hypothesis.given(histories, st.floats(0.1, 7200))
def test_the_first_step_of_a_gpu_that_was_unhealthy_never_opens_it(
    history: list[tuple[float, ev.Evidence]], passed: float
) -> None:
    before, now = lived(history)
    good = ev.Evidence(readings=hardware.Readings(), mps=MPS.NOT_USED)
    after = MACHINE.step(GPU, before, good, now=now + passed)
    if before.health is Health.UNHEALTHY:
        assert after.health in {Health.UNHEALTHY, Health.PROBATION}


@hypothesis.given(histories, st.sampled_from([MPS.ACTIVE, MPS.NOT_USED]))
def test_a_gpu_recovers_once_all_is_well_for_long_enough(history: list[tuple[float, ev.Evidence]], mps: MPS) -> None:
    record, now = lived(history)
    policy = ev.DEFAULT_POLICY
    end = now + policy.quiet_untold + policy.settle_most + policy.probation_most + 2000
    while now < end:
        now += 900
        well = ev.Evidence(readings=hardware.Readings(), mps=mps, canary=ev.Canary(began=now - 1))
        record = MACHINE.step(GPU, record, well, now=now)
    assert (record.health, record.reason) == (Health.HEALTHY, None)


@hypothesis.given(histories, histories)
def test_a_restart_of_the_agent_changes_nothing(
    before: list[tuple[float, ev.Evidence]], after: list[tuple[float, ev.Evidence]]
) -> None:
    record, now = lived(before)
    other = health.read(health.stored({GPU: record}))[GPU]
    for passed, seen in after:
        now += passed
        record = MACHINE.step(GPU, record, seen, now=now)
        other = MACHINE.step(GPU, other, seen, now=now)
    assert other == record


@hypothesis.given(histories)
def test_a_fault_that_is_published_never_changes(history: list[tuple[float, ev.Evidence]]) -> None:
    record, now = health.unexamined(now=START), START
    known: dict[str, gpunode.Fault] = {}
    for passed, seen in history:
        now += abs(passed) + 0.001
        record = MACHINE.step(GPU, record, seen, now=now)
        if record.fault is not None:
            assert known.setdefault(record.fault.id, record.fault) == record.fault


@hypothesis.given(histories, st.floats(1, 7200))
def test_a_server_that_is_only_stopped_is_no_fault(history: list[tuple[float, ev.Evidence]], passed: float) -> None:
    record, now = lived(history)
    stopped = ev.Evidence(readings=hardware.Readings(), mps=MPS.STOPPED)
    after = MACHINE.step(GPU, record, stopped, now=now + passed)
    assert after.fault == record.fault
