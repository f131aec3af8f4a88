"""For which jobs nobody is evicted, as others left for their like in vain; and when some are again."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import sparing
from extender import builders
from extender.builders import NOW
from extender.queueing import end, evicted, lift, lifted, queue, run, runs, told, words

STEP = 10
SPARED = "evicts nobody before"


def container(cpu: int, share: int) -> dict[str, object]:
    """Containers that ask for so many cores and so much of a GPU."""
    limits = {names.GPU_SHARE: str(share)} if share else {}
    return {"containers": [builders.container({"requests": {"cpu": str(cpu)}, "limits": limits})]}


def crowded(*, gpus: int = 8) -> ledger.Ledger:
    """A node whose CPU is all asked for, by a pod of 50 hundredths on each GPU."""
    source = builders.cluster(gpus=gpus)
    source.node(records.node_record(builders.node("n0", gpus=gpus, allocatable={"cpu": str(8 * gpus)})))
    for number in range(gpus):
        runs(source, f"low{number}", 50, f"GPU-n0-{number}", **container(8, 50))
    return source


def wants(name: str, *, cpu: int = 8, priority: int = 5, **changes: Any) -> Any:
    """A pod for which one of those has to leave."""
    return builders.pod(name, 50, priority=priority, **container(cpu, 50), **changes)


def hog(source: ledger.Ledger, name: str) -> None:
    """A pod without a share takes the CPU that another has freed."""
    builders.put(source, builders.pod(name, 0, node="n0", phase="Running", **container(8, 0)))


def in_vain(source: ledger.Ledger, *, since: int = 0, until: int = 3600) -> Iterator[tuple[int, str]]:
    """Evictions from second to second; the CPU of each victim is taken by a pod without a share."""
    for second in range(since, until, STEP):
        for eviction in run(source, now=NOW + second).evictions:
            for victim in eviction.victims:
                end(source, victim.name)
                hog(source, f"web{second}")
                yield second, eviction.preemptor.name


def freed_again() -> ledger.Ledger:
    """A cluster in which a victim left for the pod `high`, which was tried while another had the CPU for a moment."""
    source = crowded()
    builders.put(source, wants("high"))
    (victim,) = evicted(source)
    end(source, victim)
    hog(source, "web")
    assert evicted(source, now=NOW + 1) == []
    source.pod_gone(PodUID("uid-web"))
    return source


def wasted(*, gpus: int = 8) -> ledger.Ledger:
    """A cluster in which a victim left in vain for the pod `high`."""
    source = crowded(gpus=gpus)
    builders.put(source, wants("high"))
    assert [who for _, who in in_vain(source, until=30)] == ["high"]
    assert SPARED in words(source, "high", now=NOW + 20)[1]
    return source


def test_pods_that_left_for_cpu_which_others_took_are_followed_by_none_for_longer_and_longer() -> None:
    source = crowded()
    builders.put(source, wants("high"))
    times = [second for second, _ in in_vain(source)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(times) == 4, "at 0 and some 300, 900 and 2100 s"
    assert all(later > 1.8 * earlier for earlier, later in itertools.pairwise(gaps))
    assert SPARED in told(source, "high", now=NOW + 3600)[1]


def test_a_promise_that_comes_to_nothing_ends_no_pause() -> None:
    source, times = builders.cluster(gpus=1), []
    builders.put(source, builders.pod("sick", 100, priority=5))
    for second in range(0, 3600, STEP):
        if not source.seen().nodes[0].gpus[0].tenants:
            runs(source, f"low{second}", 100, started=NOW + second)
        plan = run(source, now=NOW + second)
        for eviction in plan.evictions:
            times.append(second)
            for victim in eviction.victims:
                end(source, victim.name)
                fails(source, "sick", second)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 3 <= len(times) <= 5
    assert all(gap >= sparing.PAUSE_SECONDS * 2**number for number, gap in enumerate(gaps[1:]))


def fails(source: ledger.Ledger, name: str, second: int) -> None:
    """kube-scheduler fails a pod each time that it is promised a GPU, until nothing is held for it any more."""
    for later in range(second, second + 60):
        run(source, now=NOW + later)
        if source.earmarks.get(PodUID(f"uid-{name}")) is not None:
            report = f"{later} the volume is not there"
            known = source.pods[PodUID(f"uid-{name}")]
            source.pod(replace(known, unschedulable=report, errored=True, version=known.version + 1), now=NOW + later)


def test_where_kube_scheduler_failed_a_job_others_of_its_kind_have_victims() -> None:
    source = builders.cluster(gpus=2)
    runs(source, "low0", 100)
    runs(source, "low1", 100, "GPU-n0-1")
    builders.put(source, builders.pod("sick", 100, priority=5))
    (first,) = evicted(source)
    end(source, first)
    fails(source, "sick", 0)
    runs(source, "next", 100, "GPU-n0-0" if first == "low0" else "GPU-n0-1", started=NOW + 60)
    assert evicted(source, now=NOW + 70) == []
    builders.put(source, builders.pod("well", 100, priority=5, created=NOW + 1))
    assert len(evicted(source, now=NOW + 80)) == 1


@pytest.mark.parametrize("priority", [5, 6])
def test_a_pause_is_for_jobs_of_no_higher_priority(priority: int) -> None:
    source = wasted()
    builders.put(source, wants("other", priority=priority, created=NOW + 20))
    found = [who for _, who in in_vain(source, since=30, until=60)]
    assert found == (["other"] if priority > 5 else [])


def test_a_pause_ends_when_a_node_has_more_for_the_job_than_before() -> None:
    source = wasted()
    source.pod_gone(PodUID("uid-web0"))
    runs(source, "low", 50, "GPU-n0-0", **container(8, 50))
    assert next(in_vain(source, since=30), None) == (30, "high")
    runs(source, "again", 50, "GPU-n0-0", **container(8, 50))
    assert [second for second, _ in in_vain(source, since=40, until=330)] == []


def test_a_pause_ends_with_another_policy() -> None:
    source = wasted()
    source.policy_changed(replace_generation(source, 7))
    assert next(in_vain(source, since=30), None) == (30, "high")


def replace_generation(source: ledger.Ledger, generation: int) -> Any:
    """The policy in force, written again."""
    assert source.policy is not None
    made = builders.in_force()
    made.generation = generation
    return made


def test_an_account_is_closed_when_one_of_the_kind_is_bound_and_not_before() -> None:
    source = wasted(gpus=4)
    end(source, "low3")
    assert lifted(source, now=NOW + 30) == ["high"]
    builders.put(source, wants("next", created=NOW + 30))
    assert next(in_vain(source, since=40, until=100), None) is None
    bound = builders.bound("high", 50, "n0", "GPU-n0-3", priority=5, version=9, **container(8, 50))
    builders.put(source, bound)
    assert next(in_vain(source, since=100, until=140), None) == (100, "next")


def test_a_victim_whose_place_a_higher_priority_took_left_for_somebody() -> None:
    source = builders.cluster(gpus=4)
    for number in range(4):
        runs(source, f"low{number}", 100, f"GPU-n0-{number}")
    builders.put(source, builders.pod("job", 100, priority=5))
    times = []
    for second in range(0, 100, 5):
        for victim in evicted(source, now=NOW + second):
            times.append(second)
            uuid = source.claims[PodUID(f"uid-{victim}")].bookings[0].uuid
            end(source, victim)
            builders.put(source, builders.bound(f"never{second}", 100, "n0", uuid, priority=9))
    assert len(times) == 4
    assert times[-1] <= 60


def test_what_was_in_the_way_for_a_moment_costs_nobody_else_his_place() -> None:
    source = freed_again()
    assert lifted(source, now=NOW + 8) == ["high"]


def test_jobs_that_differ_in_a_core_cost_a_namespace_fewer_and_fewer_victims() -> None:
    source = crowded(gpus=8)
    for number in range(200):
        builders.put(source, wants(f"job{number:03}", cpu=8 + number, created=NOW + number))
        source.node(records.node_record(builders.node("n0", gpus=8, allocatable={"cpu": "300"})))
    found: list[int] = []
    for second in range(0, 3600, STEP):
        plan = run(source, now=NOW + second)
        for promised in (one.record for one in plan.lifts if one.earmark is not None):
            number = int(promised.name.removeprefix("job"))
            asks = {"priority": 5, "created": NOW + number, **container(8 + number, 50)}
            lift(source, promised.name, now=NOW + second, **asks)
        for eviction in plan.evictions:
            found.append(second)
            for victim in eviction.victims:
                place = source.claims[victim.uid].bookings[0].uuid
                end(source, victim.name)
                hog(source, f"web{second}")
                runs(source, f"new{second}-{victim.name}", 50, place, started=NOW + second, **container(1, 50))
    assert 3 < len(found) < 15


def test_a_pass_that_was_cut_before_a_job_was_tried_counts_nothing_as_in_vain() -> None:
    source = freed_again()
    assert source.policy is not None
    assert queue(source).plan(source, source.policy, now=NOW + 20, late=lambda _: True).cut
    assert SPARED not in words(source, "high", now=NOW + 20)[1]
    assert lifted(source, now=NOW + 21) == ["high"]


def test_jobs_that_can_have_no_victims_do_not_slow_down_those_behind_them() -> None:
    source = builders.cluster(gpus=20)
    for number in range(20):
        runs(source, f"low{number}", 100, f"GPU-n0-{number}")
    source.node(records.node_record(builders.node("n0", gpus=20, labels={"pool": "a"})))
    for number in range(8):
        builders.put(source, builders.pod(f"dead{number}", 100, priority=5, nodeSelector={"pool": "b"}))
    for number in range(20):
        builders.put(source, builders.pod(f"job{number}", 100, priority=5, created=NOW + 1))
    counts = [len(run(source, now=NOW + 2 + step / 20).evictions) for step in range(8 * 20)]
    assert sum(counts) == 20
