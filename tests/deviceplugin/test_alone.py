"""How long a tenant had its GPU to itself, what the GPU did then, and when that is told."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from cotenant_api import gpunode
from cotenant_api.names import GPUUID, GPUModel, PodUID
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.publishing import alone, status, tenants
from deviceplugin import fakes
from deviceplugin.simulated_agent import Started

GPU = GPUUID("GPU-1")
UID = PodUID("uid-train")
STATUS = f"{cluster.gpunode_path(fakes.NODE)}/status"
POD = f"{fakes.POD_PATH}/train"


def gpu(*uids: str, **fields: Any) -> gpunode.GPU:
    listed = tuple(gpunode.Tenant(pod_uid=PodUID(uid), namespace="team", pod=uid, **fields) for uid in uids)
    return gpunode.GPU(
        uuid=GPU, index=0, model=GPUModel("Tesla-T4"), memory_mib=15360, health=gpunode.Health.HEALTHY, tenants=listed
    )


def listing(*uids: str, **fields: Any) -> gpunode.Status:
    return gpunode.Status(gpus=(gpu(*uids, **fields),))


def usage(*pids: int, percent: int = 40) -> Mapping[GPUUID, hardware.Usage]:
    processes = tuple(hardware.Process(pid=pid, memory_mib=10) for pid in pids)
    return {GPU: hardware.Usage(utilization_percent=percent, memory_used_mib=10, processes=processes)}


def sample(after: float, percent: int | None = 40, *, uid: PodUID = UID) -> alone.Sample:
    sole = {} if percent is None else {GPU: alone.Sole(uid, percent)}
    return alone.Sample(fakes.START + timedelta(seconds=after), sole)


def grown(*samples: alone.Sample, listed: gpunode.Status) -> tenants.Alone:
    sums = alone.Sums()
    for each in samples:
        sums = alone.grown(sums, each, listed)
    return sums.totals[GPU][UID]


OWNERS = {1: UID, 2: PodUID("other")}


@pytest.mark.parametrize(
    ("listed", "pids", "expected"),
    [
        (("uid-train",), (1,), {GPU: alone.Sole(UID, 40)}),
        (("uid-train",), (), {}),  # It has not begun to use the GPU.
        (("uid-train", "other"), (1,), {}),
        (("uid-train",), (1, 2), {}),  # A process that no tenant explains.
        (("uid-train",), (1, 9), {GPU: alone.Sole(UID, 40)}),  # 9 is the MPS server.
        ((), (1,), {}),
    ],
)
def test_a_tenant_is_alone_when_nobody_else_is_listed_or_there(
    listed: tuple[str, ...], pids: tuple[int, ...], expected: dict[GPUUID, alone.Sole]
) -> None:
    assert alone.sole([gpu(*listed)], usage(*pids), OWNERS, own=frozenset({9})) == expected


def test_time_between_two_samples_counts_with_the_utilization_of_the_later() -> None:
    total = grown(sample(0, 90), sample(5, 40), sample(15, 70), listed=listing(UID))
    assert (total.whole_seconds, total.mean_percent) == (15, 60)


@pytest.mark.parametrize("gap", [-5, 0, 16, 3600])
def test_time_that_was_not_watched_counts_for_nobody(gap: float) -> None:
    assert grown(sample(0), sample(gap), listed=listing(UID)).whole_seconds is None


def test_time_counts_only_where_the_tenant_was_alone_at_both_ends() -> None:
    total = grown(sample(0), sample(5, None), sample(10), sample(15), listed=listing(UID))
    assert total.whole_seconds == 5


def test_a_restart_goes_on_from_the_published_figures() -> None:
    before = listing(UID, alone_seconds=30, alone_utilization_percent=50)
    total = grown(sample(0), sample(10, 90), listed=before)
    assert (total.whole_seconds, total.mean_percent) == (40, 60)


def test_who_is_no_tenant_any_more_is_forgotten() -> None:
    sums = alone.grown(alone.Sums(), sample(0), listing(UID))
    assert alone.grown(sums, sample(5), listing()).totals == {}


def test_a_measured_minute_is_written_at_once_and_other_time_is_not() -> None:
    def written(old: int, new: int) -> bool:
        states = [listing(UID, alone_seconds=seconds, alone_utilization_percent=40) for seconds in (old, new)]
        now = fakes.START + timedelta(seconds=600)
        return status.worth_writing(*states, last_written=now - timedelta(seconds=599), now=now)

    assert [written(0, 59), written(59, 60), written(60, 600)] == [False, True, False]


def test_an_ended_tenant_keeps_its_time_alone() -> None:
    before = gpu(UID, alone_seconds=75, alone_utilization_percent=41, memory_peak_mib=5000)
    ended = tenants.with_ended(gpu(), before, fakes.START).ended[0]
    assert (ended.alone_seconds, ended.alone_utilization_percent, ended.memory_peak_mib) == (75, 41, 5000)


def train(**changes: Any) -> dict[str, Any]:
    return fakes.pod(fakes.PodSpec(prediction=fakes.prediction(utilization=41, memory_mib=5000), **changes))


def figures(api: fakes.FakeCluster) -> list[tuple[int | None, int | None]]:
    listed = api.status()["gpus"][0]["tenants"]
    return [(each.get("aloneSeconds"), each.get("aloneUtilizationPercent")) for each in listed]


async def test_a_simulated_tenant_is_measured_in_a_minute_with_one_more_write(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, train())
        await clock.advance(50)
        before = api.count("APPLY", STATUS)
        assert figures(api) == [(None, None)]
        await clock.advance(3600)
        assert api.count("APPLY", STATUS) == before + 1
        assert figures(api) == [(60, 41)]


async def test_tenants_together_are_not_measured(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, train())
        api.put(f"{fakes.POD_PATH}/other", train(name="other", uid="uid-other"))
        await clock.advance(600)
        assert figures(api) == [(None, None), (None, None)]


async def test_a_tenant_that_ends_leaves_its_time_alone_until_the_last_sample(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, train())
        await clock.advance(100)
        api.put(POD, train(phase="Succeeded"))
        await fakes.settled()
        ended = api.status()["gpus"][0]["ended"][0]
        assert (ended["aloneSeconds"], ended["aloneUtilizationPercent"]) == (95, 41)


async def test_an_agent_that_starts_again_goes_on_measuring(
    api: fakes.FakeCluster, clock: fakes.FakeClock, started: Started
) -> None:
    async with started():
        api.put(POD, train())
        await clock.advance(70)
    assert figures(api) == [(60, 41)]
    await clock.advance(60)
    async with started():
        await clock.advance(20)
        api.put(POD, train(phase="Succeeded"))
        await fakes.settled()
    assert api.status()["gpus"][0]["ended"][0]["aloneSeconds"] == 80
