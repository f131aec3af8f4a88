"""Work that is late ends its turn: what is decided in the end is the same, and however slow it is, it gets done."""

from collections.abc import Callable, Sequence

import pytest

from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import view
from cotenant_extender.queue import earmarking, order, planning, preemption, reporting, seating
from extender import builders
from extender.builders import NOW
from extender.queueing import end, held, run, runs, teller

PASSES = 200
ON_N0 = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
        }
    }
}
OLD = {"created": NOW - 4000}


def always(_part: float) -> bool:
    """There is no time at all."""
    return True


def crowd() -> ledger.Ledger:
    """Two GPUs are full; a gang fits on others, an aged job waits, one of higher priority may evict, small ones fit."""
    source = builders.cluster(nodes=8, gpus=2)
    runs(source, "low", 90, "GPU-n0-0")
    runs(source, "other", 90, "GPU-n0-1", priority=9)
    builders.put(source, builders.pod("old", 800, **OLD), builders.pod("aged", 200, priority=3, **OLD))
    builders.put(source, *(builders.pod(f"g{number}", 40, annotations=builders.gang("g", 4)) for number in range(4)))
    builders.put(source, *(builders.pod(f"s{number}", 10 + number) for number in range(12)))
    builders.put(source, *(builders.pod(f"high{number}", 100, priority=8) for number in range(8)))
    builders.put(source, builders.pod("there", 100, priority=7, affinity=ON_N0))
    return source


def decided(source: ledger.Ledger, *, late: bool) -> tuple[set[str], set[str], list[str]]:
    """Who is lifted, who is evicted, and what is held in the end."""
    queue, policy = planning.Queue(), source.policy
    assert policy is not None
    lifted, evicted = set(), set()
    for number in range(PASSES):
        now = NOW + 0.3 * number
        plan = queue.plan(source, policy, now=now, late=always) if late else queue.plan(source, policy, now=now)
        lifted |= {lift.record.name for lift in plan.lifts}
        evicted |= {victim.name for eviction in plan.evictions for victim in eviction.victims}
    return lifted, evicted, held(source)


def test_passes_that_are_always_late_decide_in_the_end_what_others_do() -> None:
    found = decided(crowd(), late=True)
    assert found == decided(crowd(), late=False)
    assert {"g0", "s0", "high0"} <= found[0]
    assert found[1] == {"low"}


def gang_of_four() -> ledger.Ledger:
    source = builders.cluster(nodes=2)
    builders.put(source, *(builders.pod(f"g{number}", 100, annotations=builders.gang("g", 4)) for number in range(4)))
    return source


def passes(source: ledger.Ledger, between: Callable[[int], None], *, count: int) -> list[int]:
    """How many pods each of so many passes that are late lifts; a first that is late tries nobody, the next does."""
    queue, policy, found = planning.Queue(), source.policy, []
    assert policy is not None
    for number in range(count):
        found.append(len(queue.plan(source, policy, now=NOW, late=always).lifts))
        between(number)
    return found


def test_a_late_pass_that_found_that_a_gang_fits_leaves_the_rest_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[order.Entry] = []
    seats = earmarking.seats

    def counted(source: ledger.Ledger, entry: order.Entry) -> list[seating.Seat] | None:
        asked.append(entry)
        return seats(source, entry)

    monkeypatch.setattr(earmarking, "seats", counted)
    assert passes(gang_of_four(), lambda _: None, count=4) == [0, 0, 0, 4]
    assert len(asked) == 1


def occupied(source: ledger.Ledger) -> None:
    """A pod that never waited is bound to one of the GPUs."""
    builders.put(source, builders.bound("loose", 100, "n0", "GPU-n0-0"))


def without_cpu(source: ledger.Ledger) -> None:
    """A pod without a share takes the CPU of a node."""
    daemon = builders.pod("daemon", 0, node="n0", gates=(), phase="Running")
    daemon["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
    builders.put(source, daemon)


@pytest.mark.parametrize("happen", [occupied, without_cpu])
def test_a_gang_is_not_promised_seats_that_were_found_before_somebody_else_came(
    happen: Callable[[ledger.Ledger], None],
) -> None:
    source = gang_of_four()
    assert passes(source, lambda number: happen(source) if number == 2 else None, count=8) == [0] * 8
    assert held(source) == []
    assert source.seen().free.min() >= 0


def test_a_gang_gets_its_seats_where_they_are_when_another_node_comes_first() -> None:
    source = gang_of_four()

    def come(number: int) -> None:
        if number == 2:
            source.gpunode(records.gpunode_record(builders.gpunode("a", gpus=0, ready="False")), now=NOW)

    assert sum(passes(source, come, count=8)) == 4
    assert sorted(earmark.placed.node for _, earmark in source.earmarks.items()) == ["n0", "n0", "n1", "n1"]


def test_a_gang_that_fits_is_not_put_off_for_ever_by_one_ahead_that_does_not() -> None:
    source = builders.cluster(nodes=4)
    ahead = (builders.pod(f"b{n}", 100, priority=3, annotations=builders.gang("b", 9)) for n in range(9))
    builders.put(source, *ahead, *(builders.pod(f"a{n}", 100, annotations=builders.gang("a", 4)) for n in range(4)))
    builders.put(source, builders.pod("z", 10, priority=-1))
    runs(source, "t0", 10, "GPU-n3-1")

    def change(number: int) -> None:
        end(source, f"t{number}")
        runs(source, f"t{number + 1}", 10, "GPU-n3-1")

    assert sum(passes(source, change, count=40)) == 5


@pytest.mark.parametrize("used", [0.1, 0.3, 0.6])
def test_a_job_whose_victims_left_in_vain_waits_for_them_no_longer_however_long_a_pass_takes(used: float) -> None:
    source = builders.cluster(nodes=2, gpus=1)
    runs(source, "low", 100, "GPU-n0-0")
    runs(source, "other", 100, "GPU-n1-0", started=NOW - 9000)
    builders.put(source, builders.pod("p", 100, priority=5))
    queue, policy, evicted = planning.Queue(), source.policy, list[str]()
    assert policy is not None
    for number in range(60):
        plan = queue.plan(source, policy, now=NOW + number, late=lambda part: part <= used)
        evicted += [victim.name for eviction in plan.evictions for victim in eviction.victims]
        if evicted and PodUID("uid-low") in source.pods:
            end(source, "low")
            without_cpu(source)
    assert evicted == ["low"]
    assert held(source) != ["GPU-n0-0"]


def test_a_gang_is_not_put_off_again_although_the_ledger_changes_after_each_pass() -> None:
    source = gang_of_four()

    def change(number: int) -> None:
        builders.put(source, builders.pod(f"new{number}", 800))

    assert sum(passes(source, change, count=8)) == 4


def test_who_changes_while_a_late_reporter_lets_others_have_their_turn_is_not_told() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("big", 100, "n0", "GPU-n0-0"))
    builders.put(source, *(builders.pod(name) for name in ("a", "b")))
    reporter, told = reporting.Reporter(), []
    run(source)
    why = teller(source)
    assert list(reporter.waiting(source, why, now=NOW)) == []
    for report in reporter.waiting(source, why, now=NOW + reporting.FIRST_SECONDS, late=always):
        if report is not None:
            told.append(report.record.name)
            builders.put(source, builders.pod("b", gates=(), version=2))
    assert told == ["a"]


@pytest.mark.parametrize("share", [1, 800])
def test_a_gang_is_put_off_once_however_much_time_others_ahead_of_it_take_in_each_pass(share: int) -> None:
    source = builders.cluster(nodes=40, gpus=8)
    runs(source, "low", 100, "GPU-n0-0")
    builders.put(source, *(builders.pod(f"g{number}", 100, annotations=builders.gang("g", 4)) for number in range(4)))
    queue, policy = planning.Queue(), source.policy
    assert policy is not None
    found = []
    for step in range(4):
        builders.put(source, builders.pod(f"s{step}", share, priority=1, created=NOW + step))
        plan = queue.plan(source, policy, now=NOW + step, late=lambda part: part <= 0.6)
        found.append(sorted(lift.record.name for lift in plan.lifts if lift.record.name[0] == "g"))
    assert found == [[], ["g0", "g1", "g2", "g3"], [], []]


def test_promises_that_a_gang_can_have_are_taken_back_by_the_pass_that_promises_them_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = builders.cluster(nodes=2, gpus=2)
    builders.put(source, *(builders.pod(f"low{number}", 99) for number in range(4)))
    queue, policy, used = planning.Queue(), source.policy, [0.1]
    assert policy is not None
    queue.plan(source, policy, now=NOW)
    gang = (builders.pod(f"g{number}", 99, priority=5, annotations=builders.gang("g", 2)) for number in range(2))
    builders.put(source, *gang)
    choose = preemption.choose

    def slow(field: preemption.Field, requests: Sequence[view.Request]) -> preemption.Choice | None:
        used[0] = 0.6
        return choose(field, requests)

    monkeypatch.setattr(preemption, "choose", slow)
    found = []
    for step in range(1, 3):
        builders.put(source, builders.pod(f"s{step}", 1, priority=9, created=NOW + step))
        queue.plan(source, policy, now=NOW + step / 10, late=lambda part: part <= used[0])
        found.append(sorted(uid for uid, _ in source.earmarks.items() if uid != "uid-s1"))
    lows = [f"uid-low{number}" for number in range(4)]
    assert found == [lows, ["uid-g0", "uid-g1", *lows[2:]]]
