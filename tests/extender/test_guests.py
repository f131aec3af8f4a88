"""Who may use GPUs that are held for another job: who leaves it room when it starts, and who ends before."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records, steps
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import backfill, forecast, holds, planning
from extender import builders, queueing
from extender.builders import NOW
from extender.queueing import booked, end, held, lift, lifted, ran, run, tenant, told, waiting_for


def test_who_ends_before_the_job_is_expected_to_start_may_use_its_gpus() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, builders.pod("short", 30, activeDeadlineSeconds=900))
    builders.put(source, builders.pod("long", 20, activeDeadlineSeconds=1100), builders.pod("unknown", 10))
    assert lifted(source) == ["short"]
    assert held(source) == ["GPU-n0-0"]


def test_who_is_known_to_run_shortly_may_without_a_deadline() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    ran(source, 30, 100, 200, 300)
    builders.put(source, builders.of_job(builders.pod("short", 30)), builders.pod("unknown", 30))
    assert lifted(source) == ["short"]


def test_as_time_passes_fewer_end_before() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, builders.pod("late", 30, activeDeadlineSeconds=900))
    source.lease(NodeName("n0"), NOW + 101, now=NOW + 101)
    assert lifted(source, now=NOW + 101) == []


def test_who_leaves_room_for_the_job_may_stay_for_ever() -> None:
    source = waiting_for(70, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, builders.pod("service", 30, restartPolicy="Always"), builders.pod("large", 40))
    assert lifted(source) == ["service"]
    end(source, "t")
    assert lifted(source) == ["old"]
    assert booked(source) == {"GPU-n0-0": 100}


def test_those_who_leave_room_do_so_together() -> None:
    source = waiting_for(60, tenant("t", 50, "GPU-n0-0", 1000))
    for name in ("first", "second", "third"):
        builders.put(source, builders.pod(name, 20))
    assert lifted(source) == ["first", "second"]
    end(source, "t")
    assert lifted(source) == ["old"]


def test_room_for_the_job_is_room_in_memory_and_tenancy_too() -> None:
    notes = {names.GPU_MEMORY: "90Gi"}
    # It was placed when a larger part of the memory was no larger share yet.
    stays = builders.bound("stays", 5, "n0", "GPU-n0-0", memory_mib=30_000, restartPolicy="Always")
    source = waiting_for(70, tenant("t", 50, "GPU-n0-0", 1000), stays, annotations=notes)
    builders.put(source, builders.pod("much", 20, annotations={names.GPU_MEMORY: "20Gi"}))
    assert lifted(source) == []
    builders.put(source, builders.pod("little", 20, annotations={names.GPU_MEMORY: "4Gi"}))
    assert lifted(source) == ["little"]


def test_when_those_have_left_for_whom_the_job_waits_nobody_more_is_let_in_because_it_ends_before() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, builders.pod("guest", 30, activeDeadlineSeconds=900))
    assert lifted(source) == ["guest"]
    lift(source, "guest", activeDeadlineSeconds=900)
    builders.put(source, tenant("guest", 30, "GPU-n0-0", 900, version=3))
    end(source, "t")
    builders.put(source, builders.pod("next", 30, activeDeadlineSeconds=100))
    assert lifted(source) == []
    end(source, "guest")
    assert lifted(source) == ["old"]


def test_a_gpu_that_is_empty_is_used_until_the_others_of_the_job_are() -> None:
    source = waiting_for(200, tenant("t", 50, "GPU-n0-1", 5000), gpus=2)
    builders.put(source, builders.pod("hour", 100, activeDeadlineSeconds=3600), builders.pod("unknown", 100))
    assert lifted(source) == ["hour"]
    assert booked(source)["GPU-n0-0"] == 100


def test_filter_and_bind_take_a_guest_where_it_is_promised() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, builders.pod("guest", 30, activeDeadlineSeconds=900))
    assert lifted(source) == ["guest"]
    lift(source, "guest", activeDeadlineSeconds=900)
    placed = builders.place(source, source.pods[PodUID("uid-guest")])
    assert [gpu.uuid for gpu in placed.gpus] == ["GPU-n0-0"]


def test_nothing_is_held_beside_those_who_never_end_and_who_waits_is_told() -> None:
    source = builders.cluster(gpus=1, queue={"maxWaitSeconds": 60})
    builders.put(source, builders.bound("service", 50, "n0", "GPU-n0-0", restartPolicy="Always"))
    builders.put(source, builders.pod("old", 60, created=NOW - 61), builders.pod("new", 50))
    assert lifted(source) == ["new"]
    assert held(source) == []
    reason, message = told(source, "old")
    assert reason is PackedReason.INSUFFICIENT_SHARE
    assert "no GPU is held for it, as none that it could use is expected to become free" in message


def test_who_gpus_are_held_for_is_told_when_it_is_expected_to_start() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1200))
    reason, message = told(source, "old")
    assert reason is PackedReason.INSUFFICIENT_SHARE
    held_for_it = "1 GPU is held for it, to start about 2027-01-15 08:20 UTC (an estimate)"
    assert message == f"1 GPU lacks 50 hundredths; {held_for_it}; 1st in the queue"


def known_to_end(source: ledger.Ledger, gpu: str, left: float, *, version: int = 5) -> None:
    """The deadline of the tenant of a GPU becomes another."""
    builders.put(source, tenant(f"t{gpu[-1]}", 50, gpu, left, version=version))


def two_gpus(first: float, second: float) -> ledger.Ledger:
    """Each with a tenant that ends in so many seconds."""
    return waiting_for(100, tenant("t0", 50, "GPU-n0-0", first), tenant("t1", 50, "GPU-n0-1", second), gpus=2)


def at(source: ledger.Ledger, seconds: float) -> list[str]:
    """What is held after a pass at a time."""
    source.lease(NodeName("n0"), NOW + seconds, now=NOW + seconds)
    source.tick(now=NOW + seconds)
    run(source, now=NOW + seconds)
    return held(source)


def test_a_hold_moves_where_its_job_is_expected_to_start_twice_as_soon_and_a_minute_sooner() -> None:
    source = two_gpus(4000, 5000)
    assert held(source) == ["GPU-n0-0"]
    known_to_end(source, "GPU-n0-1", 2500)
    assert at(source, 20) == ["GPU-n0-0"]
    known_to_end(source, "GPU-n0-1", 1900, version=6)
    assert at(source, 40) == ["GPU-n0-1"]


def test_a_hold_does_not_move_for_less_than_a_minute() -> None:
    source = two_gpus(100, 500)
    known_to_end(source, "GPU-n0-1", 50)
    assert at(source, 20) == ["GPU-n0-0"]


def test_a_hold_that_has_moved_moves_again_when_it_is_twice_as_old() -> None:
    source = two_gpus(40_000, 50_000)
    known_to_end(source, "GPU-n0-1", 9000)
    assert at(source, 100) == ["GPU-n0-1"]
    known_to_end(source, "GPU-n0-0", 2000, version=6)
    assert at(source, 150) == ["GPU-n0-1"]
    known_to_end(source, "GPU-n0-0", 2001, version=7)
    assert at(source, 199) == ["GPU-n0-1"]
    known_to_end(source, "GPU-n0-0", 2000, version=8)
    assert at(source, 211) == ["GPU-n0-0"]


def test_another_queue_goes_on_with_what_is_held() -> None:
    source = two_gpus(4000, 5000)
    known_to_end(source, "GPU-n0-1", 3000)
    assert source.policy is not None
    planning.Queue().plan(source, source.policy, now=NOW + 1)
    assert held(source) == ["GPU-n0-0"]


def test_many_kinds_of_guests_are_asked_about_in_several_passes() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, *(builders.pod(f"p{share}", share) for share in range(1, 31)))
    assert run(source).cut
    plan = run(source)
    assert (plan.lifts, plan.cut) == ((), False)
    builders.put(source, builders.pod("short", 30, activeDeadlineSeconds=900))
    assert lifted(source) == ["short"]


def test_a_guest_whose_run_time_becomes_known_is_let_in_after_a_while() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    raw = builders.pod("guest", 30)
    raw["metadata"]["ownerReferences"] = [{"kind": "Job", "controller": True}]
    builders.put(source, raw)
    assert lifted(source) == []
    record = source.pods[PodUID("uid-guest")]
    for number in range(3):
        gone = builders.bound(f"done{number}", 30, "n9", "GPU-n9-0", phase="Succeeded")
        gone["metadata"]["ownerReferences"] = raw["metadata"]["ownerReferences"]
        gone["status"]["startTime"] = builders.timestamp(NOW - 500)
        stopped = {"terminated": {"finishedAt": builders.timestamp(NOW - 400)}}
        gone["status"]["containerStatuses"] = [{"state": stopped}]
        source.runs.learn(records.pod_record(gone), None)
    assert source.runs.of(record.likeness) is not None
    later = NOW + holds.REVIEW_SECONDS
    source.lease(NodeName("n0"), later, now=later)
    assert queueing.lifted(source, now=later) == ["guest"]


GANG = 22


def gang_that_waits(**notes: str) -> ledger.Ledger:
    """GPUs of two nodes are held for a large gang; on the first of them a service takes room for ever."""
    source = builders.cluster(nodes=2, gpus=11, queue={"maxWaitSeconds": 60})
    places = [f"GPU-n{node}-{slot}" for node in range(2) for slot in range(11)]
    builders.put(source, *(tenant(f"t{place}", 30, place, 1000) for place in places[1:]))
    builders.put(source, tenant("t0", 20, places[0], 1000))
    builders.put(source, builders.bound("service", 20, "n0", places[0], restartPolicy="Always"))
    gang = [queueing.member(f"g{number}", 75, size=GANG, created=NOW - 61, annotations=notes) for number in range(GANG)]
    builders.put(source, *gang)
    return source


def test_few_pods_of_a_large_gang_are_forecast_in_a_pass_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    source = gang_that_waits()
    assert lifted(source) == []
    assert len(held(source)) == GANG
    asked: list[int] = []
    real = forecast.soonest

    def counted(*args: Any, **named: Any) -> forecast.Place | None:
        asked.append(GANG)
        return real(*args, **named)

    monkeypatch.setattr(forecast, "soonest", counted)
    builders.put(source, *(builders.pod(f"p{share}", share) for share in range(10, 26)))
    placed: list[str] = []
    more = True
    while more:
        asked.clear()
        plan = run(source)
        placed += [lift.record.name for lift in plan.lifts]
        # The hold itself is looked at once in a pass, and a place elsewhere once.
        assert sum(asked) <= backfill.FORECASTS + 2 * GANG
        more = plan.cut or bool(plan.lifts)
    assert sorted(placed) == sorted(f"p{share}" for share in range(10, 26))


@pytest.mark.parametrize(("is_late", "most"), [(True, 1), (False, 2)])
def test_one_guest_is_let_in_where_the_time_of_a_pass_is_over_and_else_all(is_late: bool, most: int) -> None:
    source = waiting_for(70, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, *(builders.pod(f"p{share}", share) for share in (8, 9)))
    policy, queue = source.policy, queueing.queue(source)
    assert policy is not None

    def late(part: float) -> bool:
        return is_late and part >= steps.BEGIN

    counts = [len(queue.plan(source, policy, now=NOW, late=late).lifts) for _ in range(40)]
    assert (max(counts), sum(counts)) == (most, 2)


def test_looks_at_guests_who_fit_on_one_gpu_alone_count_with_all_pods_of_the_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 10
    source = builders.cluster(gpus=size, queue={"maxWaitSeconds": 60})
    builders.put(source, *(tenant(f"t{slot}", 100, f"GPU-n0-{slot}", 1000) for slot in range(1, size)))
    builders.put(source, tenant("t0", 20, "GPU-n0-0", 1000))
    builders.put(source, builders.bound("service", 20, "n0", "GPU-n0-0", restartPolicy="Always"))
    builders.put(source, *(queueing.member(f"g{n}", 75, size=size, created=NOW - 61) for n in range(size)))
    assert lifted(source) == []
    builders.put(source, *(builders.pod(f"p{share}", share) for share in range(6, 20)))
    asked: list[int] = []
    real = forecast.soonest

    def counted(*args: Any, **named: Any) -> forecast.Place | None:
        asked.append(size)
        return real(*args, **named)

    monkeypatch.setattr(forecast, "soonest", counted)
    passes = 0
    while run(source).cut or not asked:
        passes += 1
        assert sum(asked) <= backfill.FORECASTS + 2 * size
        asked.clear()
    assert passes > 3


def test_sixteen_kinds_of_guests_are_looked_at_in_a_pass_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lasting = builders.bound("service", 20, "n0", "GPU-n0-0", restartPolicy="Always")
    source = waiting_for(75, tenant("t", 20, "GPU-n0-0", 1000), lasting)
    builders.put(source, *(builders.pod(f"p{share}", share) for share in range(6, 26)))
    reservation, asked = queueing.queue(source).reservation, list[int]()
    guests = reservation.guests

    def counted(*arguments: Any, **named: Any) -> holds.Look:
        asked.append(1)
        return guests(*arguments, **named)

    monkeypatch.setattr(reservation, "guests", counted)
    counts = []
    for _ in range(3):
        counts.append((run(source).cut, len(asked)))
        asked.clear()
    assert counts == [(True, 16), (False, 4), (False, 0)]


def test_guests_who_are_still_to_be_looked_at_hold_up_no_preemption() -> None:
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    builders.put(source, *(builders.pod(f"p{share}", share) for share in range(1, 31)))
    builders.put(source, builders.pod("urgent", 100, priority=100))
    plan = run(source)
    assert plan.cut
    assert [victim.name for eviction in plan.evictions for victim in eviction.victims] == ["t"]


def test_who_comes_later_in_the_queue_is_looked_at_although_held_nodes_change_in_every_pass() -> None:
    source = gang_that_waits(**{names.GPU_MEMORY: "100Gi"})
    for place in [f"GPU-n{node}-{slot}" for node in range(2) for slot in range(11)][1:]:
        # They were placed when a larger part of the memory was no larger share yet.
        lasting = builders.bound(f"s{place}", 1, place.split("-")[1], place, memory_mib=30_000, restartPolicy="Always")
        builders.put(source, lasting)
    assert lifted(source) == []
    builders.put(source, builders.pod("much", 10, annotations={names.GPU_MEMORY: "10Gi"}, created=NOW - 1))
    builders.put(source, builders.pod("little", 10, annotations={names.GPU_MEMORY: "4Gi"}))
    placed: list[str] = []
    for number in range(holds.MOST_CELLS + 4):
        idle = [{"name": "main", "resources": {"requests": {"cpu": "1m"}}}]
        builders.put(source, builders.pod(f"host{number}", 0, node="n0", containers=idle))
        placed += lifted(source)
    assert placed == ["little"]


@pytest.mark.parametrize(("grace", "guests"), [(None, ["guest"]), (200, ["guest"]), (400, []), (86400, [])])
def test_a_guest_ends_when_its_grace_period_after_its_deadline_is_over(grace: int | None, guests: list[str]) -> None:
    """It had a day to end, and the job waited for it."""
    source = waiting_for(100, tenant("t", 60, "GPU-n0-0", 600))
    changes = {"activeDeadlineSeconds": 300, "terminationGracePeriodSeconds": grace}
    builders.put(source, builders.pod("guest", 30, **changes))
    assert lifted(source, now=NOW + 1) == guests
