"""Jobs that may have caused a fault are kept apart until they have run for long enough."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import drift, ledger
from extender import builders
from extender.builders import NOW
from extender.queueing import evicted, held, lifted, told

SUSPECT = {names.SUSPECT_SECONDS: "60"}
GPU = "GPU-n0-0"


def runs(source: ledger.Ledger, name: str, *, suspected: bool, now: float = NOW, **changes: Any) -> None:
    """A pod runs on the first GPU."""
    raw = builders.bound(name, 10, "n0", GPU, **changes)
    raw["metadata"]["annotations"] |= SUSPECT if suspected else {}
    raw["status"]["startTime"] = builders.timestamp(NOW - 3600)
    builders.put(source, raw, now=now)


def waits(source: ledger.Ledger, name: str = "new", *, suspected: bool = True, **changes: Any) -> None:
    notes = SUSPECT if suspected else {}
    builders.put(source, builders.pod(name, 10, annotations=dict(notes), **changes))


def later(source: ledger.Ledger, seconds: float) -> float:
    """Time passes; the agent renews its Lease."""
    source.lease(NodeName("n0"), NOW + seconds, now=NOW + seconds)
    source.tick(now=NOW + seconds)
    return NOW + seconds


def test_two_suspects_share_no_gpu() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=True)
    waits(source)
    reason, message = told(source, "new")
    assert reason is PackedReason.TENANCY_CONFLICT
    assert message.startswith("1 GPU holds another job that may have caused a fault")


def test_suspect_takes_another_gpu_than_the_suspect_that_is_there() -> None:
    source = builders.cluster(nodes=1, gpus=2)
    runs(source, "first", suspected=True)
    waits(source)
    assert lifted(source) == ["new"]
    assert [claim.bookings[0].uuid for claim in source.claims.values()] == [GPU, "GPU-n0-1"]


@pytest.mark.parametrize(("there", "comes"), [(True, False), (False, True), (False, False)])
def test_suspect_shares_with_jobs_that_are_not_suspected(there: bool, comes: bool) -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=there)
    waits(source, suspected=comes)
    assert lifted(source) == ["new"]


def test_two_suspects_that_wait_are_put_on_two_gpus_in_one_pass() -> None:
    source = builders.cluster(nodes=1, gpus=2)
    waits(source, "one")
    waits(source, "two")
    assert lifted(source) == ["one", "two"]
    assert {claim.bookings[0].uuid for claim in source.claims.values()} == {GPU, "GPU-n0-1"}


def test_suspect_that_waits_is_placed_once_the_one_that_runs_has_run_for_long_enough() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=True)
    waits(source)
    assert lifted(source) == []
    assert lifted(source, now=later(source, 59)) == []
    version = source.version
    now = later(source, 60)
    assert source.version > version  # the queue is looked at
    assert lifted(source, now=now) == ["new"]
    assert drift.differences(source) == []


def test_time_counts_from_when_the_pod_is_seen_to_run() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=True, phase="Pending")
    later(source, 100)
    runs(source, "first", suspected=True, now=NOW + 100, version=2)
    waits(source)
    assert lifted(source, now=later(source, 159)) == []
    assert lifted(source, now=later(source, 160)) == ["new"]


def test_events_of_a_suspect_do_not_begin_its_time_again() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=True)
    runs(source, "first", suspected=True, now=NOW + 50, version=2)
    later(source, 60)
    runs(source, "first", suspected=True, now=NOW + 70, version=3)
    waits(source)
    assert lifted(source, now=later(source, 71)) == ["new"]


def test_nothing_is_remembered_of_suspects_that_are_gone() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "ends", suspected=True)
    runs(source, "vanishes", suspected=True)
    later(source, 60)
    runs(source, "ends", suspected=True, phase="Succeeded", version=2)
    source.pod_gone(PodUID("uid-ends"))
    source.pod_gone(PodUID("uid-vanishes"))
    source.node_gone(NodeName("n0"))
    assert vars(source.suspects) == vars(ledger.Ledger().suspects)


def test_suspect_of_higher_priority_has_the_suspect_evicted_and_nobody_else() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "other", suspected=False)
    runs(source, "first", suspected=True)
    waits(source, priority=5)
    assert (evicted(source), held(source)) == (["first"], [GPU])


def test_pods_of_one_job_may_be_together_though_it_is_a_suspect() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=True, controller="job")
    waits(source, controller="job")
    assert lifted(source) == ["new"]


def test_gang_of_suspects_starts_on_the_only_gpu() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    for name in ("a", "b"):
        notes = SUSPECT | builders.gang("g", 2)
        builders.put(source, builders.pod(name, 10, annotations=notes, controller="job"))
    assert lifted(source) == ["a", "b"]


def test_suspect_of_another_job_joins_none_of_several() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=True, controller="one")
    runs(source, "second", suspected=True, controller="two")
    waits(source, controller="one")
    assert told(source, "new")[0] is PackedReason.TENANCY_CONFLICT


def test_pods_that_differ_in_being_suspected_are_of_two_kinds() -> None:
    keys = {
        records.pod_record(builders.pod("p", annotations=notes, controller=job)).request.fit_key  # type: ignore[union-attr]
        for notes in ({}, SUSPECT, {names.SUSPECT_SECONDS: "9"})
        for job in ("one", "two")
    }
    assert len(keys) == 3


def test_copy_without_tenants_counts_their_suspicion_no_longer() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "first", suspected=True)
    seen = source.seen()
    assert seen.suspects.tolist() == [[1]]
    assert (seen.emptied().suspects.tolist(), seen.emptied().suspect.tolist()) == ([[0]], [[0]])
