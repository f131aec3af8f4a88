"""Parts of the node agent by themselves: what they do when something is in the way."""

import logging
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from cotenant_api import errors, exposition, gpunode, placement
from cotenant_api.names import GPUUID, GPUModel, Namespace, NodeName, PodUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.gpus import health, xids
from cotenant_deviceplugin.gpus.hardware import Readings, XIDEvent
from cotenant_deviceplugin.gpus.host import HostProcesses
from cotenant_deviceplugin.gpus.processes import Processes
from cotenant_deviceplugin.node import health as keeping
from cotenant_deviceplugin.node import http, liveness, metrics, strangers, usage
from deviceplugin import fakes
from node_kit.whole_node import CONTAINER_UID, MemoryGPUs

LOG = logging.getLogger("test")
UID = CONTAINER_UID.format(1)


# Usage


def cgroup(proc: Path, pid: int, uid: str | None) -> None:
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    text = "0::/system.slice/ssh" if uid is None else f"0::/kubepods/pod{uid}/abc"
    (proc / str(pid) / "cgroup").write_text(f"{text}\n")


def sampling(
    gpus: MemoryGPUs,
    proc: Path,
    *,
    ours: Collection[int] = (),
    clients: tuple[int, ...] = (),
    monotonic: Callable[[], float] = lambda: 0.0,
) -> usage.Sampled:
    return usage.Sampled(
        gpus,
        Processes(proc=proc),
        ours=lambda: ours,
        clients=lambda: {gpus.listed[0].uuid: clients},
        monotonic=monotonic,
    )


async def test_usage_is_measured_once_for_all_who_ask(tmp_path: Path) -> None:
    time, gpus = fakes.Clockwork(), MemoryGPUs(1)
    gpu = gpus.listed[0].uuid
    sampled = sampling(gpus, tmp_path, monotonic=time.now)
    cgroup(tmp_path, 5, UID)
    gpus.processes[gpu] = {5: 100, 6: 50}
    first = await sampled.usage()
    assert ([each.pid for each in first[gpu].processes], sampled.pod_of(5)) == ([5], UID)
    gpus.processes[gpu] = {}
    assert await sampled.usage() is first
    time.seconds += usage.SAMPLE_SECONDS
    assert (await sampled.usage())[gpu].processes == ()


async def test_a_process_of_no_pod_counts_from_its_second_sample(tmp_path: Path) -> None:
    time, gpus = fakes.Clockwork(), MemoryGPUs(1)
    gpu = gpus.listed[0].uuid
    sampled = sampling(gpus, tmp_path, ours=(9,), monotonic=time.now)
    cgroup(tmp_path, 7, None)
    gpus.processes[gpu] = {7: 100, 9: 30}
    assert [each.pid for each in (await sampled.usage())[gpu].processes] == []
    sampled.forget()
    assert [each.pid for each in (await sampled.usage())[gpu].processes] == [7]


async def test_a_client_that_only_mps_lists_is_a_process_of_the_gpu(tmp_path: Path) -> None:
    gpus = MemoryGPUs(1)
    sampled = sampling(gpus, tmp_path, ours=(9,), clients=(5, 6))
    cgroup(tmp_path, 5, UID)
    gpus.processes[gpus.listed[0].uuid] = {9: 30}
    (found,) = (await sampled.usage()).values()
    assert [(each.pid, each.memory_mib) for each in found.processes] == [(5, 0)]


# Strangers


def holder(uid: str) -> Grant:
    booked = placement.Placement.from_object(fakes.placement(fakes.PodSpec(uid=uid)), source="test")
    return Grant(pod_uid=PodUID(uid), namespace=Namespace("team"), pod="p", container="main", booked=booked)


async def test_a_process_that_no_tenant_explains_closes_its_gpu_until_it_ends(tmp_path: Path) -> None:
    gpus = MemoryGPUs(2)
    first, second = (device.uuid for device in gpus.listed)
    sampled = sampling(gpus, tmp_path, ours=(9,))
    watched = strangers.Strangers(sampled, lambda gpu: (holder(UID),) if gpu == first else ())
    cgroup(tmp_path, 5, UID)
    gpus.processes[first] = gpus.processes[second] = {5: 100, 9: 30}
    await sampled.usage()
    assert watched.doubted((first, second)) == (second,)
    await watched.look(second)
    assert watched.closing(first) is None
    assert (watched.closing(second) or "").startswith("no tenant explains its processes 5: it takes no new tenant")
    (tmp_path / "5" / "cgroup").unlink()
    # The sample is still that of before.
    assert watched.doubted((first, second)) == (second,)
    await watched.look(second)
    assert watched.closing(second) is None


async def test_who_asks_for_a_gpu_is_told_of_strangers_before_any_sample(tmp_path: Path) -> None:
    gpus = MemoryGPUs(1)
    gpu = gpus.listed[0].uuid
    watched = strangers.Strangers(sampling(gpus, tmp_path), lambda _: ())
    for pid in range(20, 30):
        cgroup(tmp_path, pid, None)
    gpus.processes[gpu] = dict.fromkeys(range(20, 30), 1)
    with pytest.raises(errors.TemporaryError, match="20, 21, 22, 23, 24, 25, 26, 27 and 2 more"):
        await watched.check(gpu)


async def test_a_gpu_whose_processes_cannot_be_read_takes_nobody(tmp_path: Path) -> None:
    watched = strangers.Strangers(sampling(MemoryGPUs(1), tmp_path), lambda _: ())
    with pytest.raises(errors.TemporaryError, match="cannot be read"):
        await watched.check(GPUUID("GPU-lost"))


async def test_processes_that_were_seen_and_cannot_be_read_now_close_their_gpu(tmp_path: Path) -> None:
    gpus = MemoryGPUs(1)
    gpu = gpus.listed[0].uuid
    sampled = sampling(gpus, tmp_path)
    watched = strangers.Strangers(sampled, lambda _: ())
    cgroup(tmp_path, 5, UID)
    gpus.processes[gpu] = {5: 100}
    await sampled.usage()
    gpus.there = False
    assert watched.doubted((gpu,)) == (gpu,)
    await watched.look(gpu)
    assert "the driver is not loaded" in (watched.closing(gpu) or "")


async def test_the_pod_of_a_process_that_has_ended_is_remembered(tmp_path: Path) -> None:
    sampled = sampling(MemoryGPUs(1), tmp_path)
    cgroup(tmp_path, 5, UID)
    assert await sampled.pods_of([5]) == {5: UID}
    (tmp_path / "5" / "cgroup").unlink()
    assert await sampled.pods_of([5, 6]) == {5: UID}


@pytest.mark.parametrize("ours", [True, False])
async def test_a_process_of_no_pod_that_has_the_pid_of_a_pods_is_not_taken_for_it(tmp_path: Path, ours: bool) -> None:
    """It lives, as a process of the host or as one that the agent knows for its own."""
    own = set[int]()
    sampled = sampling(MemoryGPUs(1), tmp_path, ours=own)
    cgroup(tmp_path, 5, UID)
    assert await sampled.pods_of([5]) == {5: UID}
    cgroup(tmp_path, 5, None)
    own |= {5} if ours else set()
    assert await sampled.pods_of([5]) == {}
    (tmp_path / "5" / "cgroup").unlink()
    own.clear()
    assert await sampled.pods_of([5]) == {}


async def test_the_pods_of_all_processes_of_the_host_are_alive(tmp_path: Path) -> None:
    cgroup(tmp_path, 5, UID)
    cgroup(tmp_path, 6, None)
    (tmp_path / "self").mkdir()
    assert await HostProcesses(Processes(proc=tmp_path), proc=tmp_path).alive() == {UID}
    with pytest.raises(errors.TemporaryError):
        await HostProcesses(Processes(), proc=tmp_path / "absent").alive()


# Health


def keeper(folder: Path) -> keeping.Keeper:
    return keeping.Keeper(health.Machine(xids.load()), folder, clock=fakes.FakeClock(), log=LOG, boot="b1")


async def test_health_survives_a_restart(tmp_path: Path) -> None:
    gpu, first = GPUUID("GPU-1"), keeper(tmp_path)
    await first.know([gpu])
    first.weigh(gpu, Readings(), mps=gpunode.MPS.ACTIVE, tenants=())
    first.told(XIDEvent(uuid=gpu, xid=79))
    first.weigh(gpu, Readings(), mps=gpunode.MPS.ACTIVE, tenants=())
    await first.store()
    second = keeper(tmp_path)
    await second.know([gpu])
    assert second.records[gpu] == first.records[gpu]
    assert second.records[gpu].health is gpunode.Health.UNHEALTHY


async def test_a_gpu_that_is_lost_comes_back_as_it_was_although_the_agent_has_started_anew_meanwhile(
    tmp_path: Path,
) -> None:
    lost, other = GPUUID("GPU-lost"), GPUUID("GPU-other")
    first = keeper(tmp_path)
    await first.know([lost, other])
    first.told(XIDEvent(uuid=lost, xid=79))
    first.weigh(lost, None, mps=gpunode.MPS.NOT_USED, tenants=())
    await first.store()
    before = first.records[lost]
    second = keeper(tmp_path)
    await second.know([other])
    second.weigh(other, None, mps=gpunode.MPS.NOT_USED, tenants=())
    await second.store()
    third = keeper(tmp_path)
    await third.know([lost])
    assert third.records[lost] == before
    assert before.demand is not None


async def test_an_event_without_a_gpu_is_about_all(tmp_path: Path) -> None:
    gpus, kept = [GPUUID("GPU-1"), GPUUID("GPU-2")], keeper(tmp_path)
    await kept.know(gpus)
    kept.told(XIDEvent(uuid=None, xid=79))
    for gpu in gpus:
        kept.weigh(gpu, Readings(), mps=gpunode.MPS.NOT_USED, tenants=())
    assert {kept.records[gpu].health for gpu in gpus} == {gpunode.Health.UNHEALTHY}


async def test_records_that_cannot_be_read_are_told_and_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / keeping.FILE).write_text("{")
    kept = keeper(tmp_path)
    await kept.know([GPUUID("GPU-1")])
    assert kept.records[GPUUID("GPU-1")].health is gpunode.Health.SUSPECT
    assert "cannot be read" in caplog.text


async def test_a_gpu_without_a_record_is_new(tmp_path: Path) -> None:
    kept, known, new = keeper(tmp_path), GPUUID("GPU-1"), GPUUID("GPU-2")
    await kept.know([known])
    kept.weigh(known, Readings(), mps=gpunode.MPS.NOT_USED, tenants=())
    await kept.store()
    again = keeper(tmp_path)
    await again.know([known, new])
    assert [again.records[gpu].reason for gpu in (known, new)] == [None, health.UNEXAMINED]


async def test_a_gpu_that_was_absent_when_its_record_could_not_be_read_must_prove_itself_when_it_is_back(
    tmp_path: Path,
) -> None:
    (tmp_path / keeping.FILE).write_text("{")
    first, second, third = keeper(tmp_path), keeper(tmp_path), keeper(tmp_path)
    await first.know([GPUUID("GPU-1")])
    await first.store()
    await second.know([GPUUID("GPU-lost")])
    assert second.records[GPUUID("GPU-lost")].reason == health.UNREADABLE
    await second.store()
    await third.know([GPUUID("GPU-1")])
    assert third.records[GPUUID("GPU-1")] == first.records[GPUUID("GPU-1")]
    assert (tmp_path / keeping.BROKEN).read_text() == "{"


async def test_a_gpu_that_is_not_known_is_not_weighed(tmp_path: Path) -> None:
    kept = keeper(tmp_path)
    kept.weigh(GPUUID("GPU-1"), None, mps=gpunode.MPS.NOT_USED, tenants=())
    assert dict(kept.records) == {}


def test_a_disk_that_refuses_is_a_temporary_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.TemporaryError):
        files.replace(tmp_path / "file" / "below", "text")
    with pytest.raises(errors.TemporaryError):
        files.read(tmp_path)


def test_the_boot_has_an_id_or_none(tmp_path: Path) -> None:
    assert keeping.boot_id(tmp_path / "absent") is None
    assert keeping.boot_id()


# HTTP and metrics


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":9476", http.Address("::", 9476)),
        ("127.0.0.1:0", http.Address("127.0.0.1", 0)),
        ("[::1]:80", http.Address("::1", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, expected: http.Address) -> None:
    assert http.Address.parse(text) == expected


@pytest.mark.parametrize("text", ["9476", "host:", "host:http", "host:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="--metrics-address"):
        http.Address.parse(text)


async def test_without_a_kubelet_the_plugin_is_not_asked(tmp_path: Path) -> None:
    assert await liveness.fault(tmp_path) is None


def test_metrics_have_prometheus_units_and_a_series_for_each_state() -> None:
    tenant = gpunode.Tenant(
        pod_uid=PodUID(UID), namespace="team", pod="train", memory_used_mib=2, memory_peak_mib=3, memory_limit_mib=4
    )
    gpu = gpunode.GPU(
        uuid=GPUUID("GPU-1"),
        index=0,
        model=GPUModel("Tesla-T4"),
        memory_mib=16,
        health=gpunode.Health.HEALTHY,
        utilization_percent=50,
        memory_used_mib=8,
        tenants=(tenant,),
    )
    made = metrics.Metrics(NodeName("n1"), "1", lambda: gpunode.Status(gpus=(gpu,), simulated=True))
    made.called("Allocate", seconds=0.01, result="OK")
    made.xid(GPUUID("GPU-1"), 31)
    made.unproven_fault(GPUUID("GPU-1"))
    made.asked_eviction("GPUMemoryOveruse")
    lines = made.text(exposition.Audience.HOLDER).decode().splitlines()
    labels = 'gpu_index="0",gpu_model="Tesla-T4",gpu_uuid="GPU-1"'
    pod = f'gpu_uuid="GPU-1",namespace="team",pod="train",uid="{UID}"'
    for line in (
        f"cotenant_gpu_utilization_ratio{{{labels}}} 0.5",
        f"cotenant_gpu_memory_used_bytes{{{labels}}} 8.388608e+06",
        f'cotenant_gpu_health{{{labels},state="Healthy"}} 1.0',
        f'cotenant_gpu_health{{{labels},state="Suspect"}} 0.0',
        f"cotenant_tenant_info{{{pod}}} 1.0",
        f"cotenant_tenant_memory_limit_bytes{{{pod}}} 4.194304e+06",
        'cotenant_mps_unproven_faults_total{gpu_uuid="GPU-1"} 1.0',
        'cotenant_gpu_xid_errors_total{gpu_uuid="GPU-1",xid="31"} 1.0',
        'cotenant_evictions_total{reason="GPUMemoryOveruse"} 1.0',
        'cotenant_device_plugin_rpc_duration_seconds_count{method="Allocate",result="OK"} 1.0',
    ):
        assert line in {_sorted(each) for each in lines}, line
    assert any(line.startswith("cotenant_node_agent_info{") and 'simulated="true"' in line for line in lines)


def _sorted(line: str) -> str:
    name, opened, rest = line.partition("{")
    labels, closed, value = rest.partition("}")
    return f"{name}{opened}{','.join(sorted(labels.split(',')))}{closed}{value}"
