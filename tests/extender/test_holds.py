"""GPUs held for the oldest job that waits too long, and the bound on waiting."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import earmarks, ledger
from cotenant_extender.queue import forecast, holds
from extender import builders, queueing
from extender.builders import NOW
from extender.queueing import booked, end, full, held, lifted, member, run, told


def test_the_oldest_pod_that_waited_too_long_holds_the_gpu_with_the_least_booked() -> None:
    source = full()
    builders.put(source, builders.pod("old", 90, created=NOW - 61), builders.pod("new", 20))
    assert lifted(source) == ["new"]
    assert held(source) == ["GPU-n0-0"]
    assert booked(source) == {"GPU-n0-0": 50, "GPU-n0-1": 90}


def test_nothing_is_held_for_a_pod_that_has_not_waited_too_long() -> None:
    source = full()
    builders.put(source, builders.pod("big", 90, created=NOW - 59), builders.pod("new", 20))
    lifted(source)
    assert held(source) == []


def test_a_held_gpu_goes_to_its_holder_when_it_is_free_and_is_held_no_more() -> None:
    source = full()
    builders.put(source, builders.pod("old", 90, created=NOW - 61))
    run(source)
    end(source, "b00")
    builders.put(source, builders.pod("new", 60))
    assert lifted(source) == ["old"]
    assert held(source) == []
    assert booked(source) == {"GPU-n0-0": 90, "GPU-n0-1": 70}


def test_a_hold_stays_where_it_is_although_another_gpu_has_less_booked_now() -> None:
    source = full()
    builders.put(source, builders.pod("old", 100, created=NOW - 61))
    run(source)
    end(source, "b01")
    builders.put(source, builders.bound("b2", 10, "n0", "GPU-n0-1"))
    run(source)
    assert held(source) == ["GPU-n0-0"]


def test_a_hold_moves_when_its_gpu_closes() -> None:
    source = full()
    builders.put(source, builders.pod("old", 100, created=NOW - 61))
    run(source)
    sick = builders.gpunode("n0")
    sick["status"]["gpus"][0]["health"] = "Suspect"
    source.gpunode(records.gpunode_record(sick), now=NOW)
    run(source)
    assert held(source) == ["GPU-n0-1"]


def test_several_whole_gpus_are_held_on_one_node() -> None:
    source = full(nodes=2, shares=(50, 50))
    end(source, "b10")
    builders.put(source, builders.pod("old", 200, created=NOW - 61))
    run(source)
    assert held(source) == ["GPU-n1-0", "GPU-n1-1"]


def test_what_can_never_fit_holds_nothing_and_the_next_does() -> None:
    source = full()
    builders.put(source, builders.pod("never", 90, created=NOW - 90, annotations={"cotenant.dev/gpu-models": "X"}))
    builders.put(source, builders.pod("old", 80, created=NOW - 61))
    run(source)
    assert [hold.holders for hold in source.holds] == [{"uid-old"}]


def asking(raw: dict[str, Any], **requests: str) -> dict[str, Any]:
    """The pod, requesting this of its node, too."""
    raw["spec"]["containers"][0]["resources"].setdefault("requests", {}).update(requests)
    return raw


def test_what_exceeds_allocatable_cpu_or_memory_of_every_node_holds_nothing_and_the_next_does() -> None:
    asked = {"cpu": "65", "memory": "500Ti"}
    lacks = {"cpu": "65 CPUs, and no node that it may use has more than 64 CPUs", "memory": "has more than 262144 MiB"}
    for asks in ({name: amount} for name, amount in asked.items()):
        source = full()
        never = asking(builders.pod("never", 90, created=NOW - 90), **asks)
        builders.put(source, never, builders.pod("old", 80, created=NOW - 61), builders.pod("new", 20))
        _, message = told(source, "never")
        assert "no GPU is held for it, as it requests" in message
        assert lacks[next(iter(asks))] in message
        assert [hold.holders for hold in source.holds] == [{"uid-old"}]
        assert booked(source)["GPU-n0-1"] == 90


def test_looking_again_at_what_no_node_can_take_leaves_the_hold_of_the_next_as_it_is() -> None:
    source = full()
    never = asking(builders.pod("never", 90, created=NOW - 90), cpu="65")
    builders.put(source, never, builders.pod("old", 80, created=NOW - 61))
    run(source)
    standing = list(source.holds)
    later = NOW + holds.HOPELESS_SECONDS + 1
    source.lease(NodeName("n0"), later, now=later)
    run(source, now=later)
    assert list(source.holds) == standing


def test_a_gang_whose_pods_exceed_allocatable_cpu_together_holds_nothing() -> None:
    source = full(nodes=2, shares=(70, 70))
    builders.put(source, *(asking(member(name, 50, created=NOW - 61), cpu="33") for name in "abc"))
    _, message = told(source, "a")
    assert held(source) == []
    assert "no GPU is held for it, as nodes never have enough for all 3 pods at once" in message


def test_nothing_is_held_where_a_service_keeps_the_cpu() -> None:
    source = builders.cluster(gpus=2, queue={"maxWaitSeconds": 60})
    service = builders.bound("service", 50, "n0", "GPU-n0-0", restartPolicy="Always")
    builders.put(source, asking(service, cpu="40"), builders.bound("other", 50, "n0", "GPU-n0-1"))
    builders.put(source, asking(builders.pod("old", 90, created=NOW - 61), cpu="30"))
    run(source)
    assert held(source) == []


def test_for_a_gang_gpus_are_held_for_all_of_its_pods() -> None:
    source = full(nodes=2, shares=(70, 60, 50))
    gang = [member(name, 50, created=NOW - 61) for name in "abc"]
    builders.put(source, *gang, builders.pod("new", 30))
    assert lifted(source) == ["new"]
    assert held(source) == ["GPU-n0-2", "GPU-n1-2"]
    assert booked(source)["GPU-n0-0"] == 100


def test_a_hold_ends_with_its_pod() -> None:
    source = full()
    builders.put(source, builders.pod("old", 90, created=NOW - 61))
    run(source)
    source.pod_gone(PodUID("uid-old"))
    run(source)
    assert held(source) == []


def test_who_waits_for_a_held_gpu_is_told() -> None:
    source = full(shares=(50,))
    builders.put(source, builders.pod("old", 90, created=NOW - 61), builders.pod("new", 20))
    assert told(source, "new") == (
        PackedReason.WAITING_FOR_TURN,
        "1 GPU is held for a job that waits longer; 2nd in the queue",
    )


def test_while_one_pod_is_bound_all_the_time_the_one_that_waits_is_placed_within_the_bound() -> None:
    """New small pods come for ever; the large one is placed when the first tenants of its held GPU have ended."""
    source = builders.cluster(gpus=1, queue={"maxWaitSeconds": 60})
    builders.put(source, builders.pod("large", 100, created=NOW))
    running: list[tuple[float, str]] = []
    builders.put(source, builders.bound("first", 30, "n0", "GPU-n0-0"))
    running.append((NOW + 20, "first"))
    placed_at = None
    for step in range(200):
        now = NOW + step
        source.tick(now=now)
        source.lease(NodeName("n0"), now, now=now)
        for _, name in [item for item in running if item[0] <= now]:
            end(source, name)
        running = [item for item in running if item[0] > now]
        builders.put(source, builders.pod(f"small{step}", 30, created=now))
        for name in lifted(source, now=now):
            if name == "large":
                placed_at = now
            else:
                builders.put(source, builders.bound(name, 30, "n0", "GPU-n0-0", version=2))
                running.append((now + 20, name))
        if placed_at is not None:
            break
    assert placed_at is not None
    assert 60 < placed_at - NOW <= 60 + 20 + 1


def test_where_nothing_changes_it_is_forecast_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    source = full()
    builders.put(source, builders.pod("old", 90, created=NOW - 61))
    run(source)
    run(source, now=NOW + 1)
    asked: list[int] = []
    real = forecast.soonest

    def counted(*args: Any, **named: Any) -> forecast.Place | None:
        asked.append(1)
        return real(*args, **named)

    monkeypatch.setattr(forecast, "soonest", counted)
    for seconds in (2, 3, 4):
        run(source, now=NOW + seconds)
    assert asked == []
    run(source, now=NOW + 1 + holds.REVIEW_SECONDS)
    assert asked != []


def fails(source: ledger.Ledger, name: str, share: int, *, version: int, now: float, **changes: Any) -> None:
    """kube-scheduler takes up a pod that is promised GPUs, and fails."""
    earmark = source.earmarks.get(PodUID(f"uid-{name}"))
    assert earmark is not None
    notes = {names.EARMARK: earmark.note().to_json()}
    ungated = {"gates": (), "annotations": notes, **changes}
    builders.put(source, builders.pod(name, share, version=version, **ungated), now=now)
    errored = f"binding volumes: timed out ({version})"
    builders.put(source, builders.pod(name, share, version=version + 1, errored=errored, **ungated), now=now)


def test_a_job_that_kube_scheduler_failed_to_bind_keeps_what_it_waited_for() -> None:
    """Newer jobs had it a pass later, and a whole drain began anew."""
    source = queueing.waiting_for(100, queueing.tenant("t", 60, "GPU-n0-0", 600))
    builders.put(source, *(builders.pod(f"small{number}", 30) for number in range(3)))
    end(source, "t")
    assert lifted(source, now=NOW + 2) == ["old"]
    fails(source, "old", 100, version=3, now=NOW + 3, created=NOW - 61)
    assert lifted(source, now=NOW + 4) == []
    assert held(source) == ["GPU-n0-0"]
    assert lifted(source, now=NOW + 5) == ["old"]


def test_a_job_that_kube_scheduler_fails_to_bind_again_and_again_keeps_nothing() -> None:
    source = queueing.waiting_for(100, queueing.tenant("t", 60, "GPU-n0-0", 600))
    builders.put(source, builders.pod("small", 30))
    end(source, "t")
    now = NOW + 2
    for failures in range(earmarks.KEEPING_SETBACKS + 1):
        assert lifted(source, now=now) == ["old"]
        fails(source, "old", 100, version=3 + 2 * failures, now=now, created=NOW - 61)
        assert lifted(source, now=now) == ([] if failures < earmarks.KEEPING_SETBACKS else ["small"])
        now += earmarks.BACKOFF_SECONDS * 2**failures


def test_a_job_that_kube_scheduler_failed_to_bind_keeps_what_victims_left() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    queueing.runs(source, "low", 100, "GPU-n0-0")
    builders.put(source, builders.pod("high", 100, priority=10))
    assert queueing.evicted(source, now=NOW + 1) == ["low"]
    builders.put(source, builders.pod("equal", 30, priority=10, created=NOW - 60))
    end(source, "low")
    assert lifted(source, now=NOW + 2) == ["high"]
    fails(source, "high", 100, version=3, now=NOW + 3, priority=10)
    assert lifted(source, now=NOW + 4) == []
    assert lifted(source, now=NOW + 5) == ["high"]
