"""Work in steps: what changes between two steps is not lost, and another policy in the middle begins anew."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import garbage, leader, records, steps, takeover, turns
from cotenant_extender.ledger import drift, earmarks, fleets, ledger, lists
from cotenant_extender.packing import fleet
from cotenant_extender.queue import line, passes, planning
from extender import builders, queueing, running, virtual
from extender.builders import NOW
from extender.running import until

NODES = 3 * fleets.NODES_PER_STEP
SOME = st.lists(st.sampled_from(range(NODES)), max_size=6)


def record(name: str, share: int = 40, *, node: str = "n0", version: int = 1) -> records.Pod:
    return records.pod_record(builders.bound(name, share, node, f"GPU-{node}-0", version=version))


def behind(source: ledger.Ledger, *, done: int) -> None:
    """Make all nodes stale, and do so many steps of what is behind."""
    assert source.policy is not None
    source.policy_changed(builders.in_force(generation=2))
    for _ in range(done):
        source.advance()


def anew(source: ledger.Ledger) -> list[object]:
    """What a fleet says that is made at once of what the ledger knows."""
    assert source.policy is not None
    nodes = [source.nodes[name].seen_anew(source.policy, source.finished) for name in source.order]
    return list(fleet.Fleet.of(nodes, source.policy).nodes)


@settings(deadline=None, max_examples=60)
@given(events=st.lists(st.tuples(st.sampled_from(["book", "free", "gone", "new", "policy"]), SOME), max_size=12))
def test_whatever_happens_between_two_steps_the_fleet_is_what_the_ledger_knows(
    events: list[tuple[str, list[int]]],
) -> None:
    source = builders.cluster(nodes=NODES)
    for number, (what, where) in enumerate(events):
        for index in where:
            name = f"n{index}"
            if what == "book":
                builders.put(source, builders.bound(f"b{index}", 40, name, f"GPU-{name}-0"))
            elif what == "free":
                queueing.end(source, f"b{index}") if PodUID(f"uid-b{index}") in source.pods else None
            elif what == "gone":
                source.gpunode_gone(NodeName(name))
            elif what == "new":
                builders.add_node(source, name)
        if what == "policy":
            source.policy_changed(builders.in_force(generation=number + 2))
        source.advance()
    assert list(source.seen().nodes) == anew(source)
    assert source.behind == 0
    assert drift.differences(source) == []


def test_who_asks_in_the_middle_gets_the_whole_fleet() -> None:
    source = builders.cluster(nodes=NODES)
    behind(source, done=1)
    assert source.behind >= NODES
    assert [node.name for node in source.seen().nodes] == source.order
    assert source.behind == 0


def test_the_steps_end_by_themselves() -> None:
    source = builders.cluster(nodes=NODES)
    behind(source, done=0)
    for _ in range(10 * NODES):
        source.advance()
    assert source.behind == 0


def test_another_policy_in_the_middle_begins_anew() -> None:
    source = builders.cluster(nodes=NODES)
    behind(source, done=2)
    last = builders.in_force(generation=3, maxTenantsPerGPU=7)
    source.policy_changed(last)
    source.advance()
    seen = source.seen()
    assert seen.policy is last
    assert set(seen.tenants_left[seen.present].tolist()) == {7}


def test_without_a_policy_nothing_is_behind() -> None:
    source = builders.cluster(nodes=NODES)
    source.policy = None
    source.advance()
    assert source.behind == 0


@virtual.time
async def test_however_many_wait_for_the_fleet_each_turn_does_one_step() -> None:
    source = builders.cluster(nodes=NODES)
    counted: list[int] = []
    freshness = turns.Freshness(source)
    waiting = [asyncio.create_task(freshness.wait()) for _ in range(5)]
    while not all(task.done() for task in waiting):
        counted.append(source.behind)
        await asyncio.sleep(0)
    assert source.behind <= turns.FEW
    # Reading the nodes takes 3 steps, and writing the rows one more: all five waited for the same.
    assert len(counted) > NODES // fleets.NODES_PER_STEP


@virtual.time
async def test_work_that_is_not_wanted_any_more_ends_without_a_result() -> None:
    done: list[int] = []

    def work() -> steps.Steps[str]:
        for number in range(9):
            done.append(number)
            yield
        return "whole"

    assert await turns.run(work()) == "whole"
    done.clear()
    assert await turns.run(work(), wanted=lambda: len(done) < 3) is None
    assert done == [0, 1, 2]


def interrupted(work: steps.Steps[None], between: Callable[[], None]) -> None:
    """Do the first step, then something else, then the rest."""
    next(work)
    between()
    steps.finish(work)


def many(count: int = lists.PER_STEP) -> list[records.Pod]:
    return [record(f"m{number:04}", 1) for number in range(count)]


def test_a_pod_that_goes_between_two_steps_of_a_list_stays_gone() -> None:
    source, last = builders.cluster(), record("z", 30)
    builders.put(source, builders.bound("z", 30, "n0", "GPU-n0-0"))
    work = lists.pods(source, [*many(), last], version=5, now=NOW)
    interrupted(work, lambda: source.pod_gone(last.uid))
    assert last.uid not in source.pods
    assert drift.differences(source) == []


def test_a_pod_that_changes_between_two_steps_of_a_list_keeps_the_change() -> None:
    source, last = builders.cluster(), record("z", 30, version=3)
    work = lists.pods(source, [*many(), last], version=5, now=NOW)
    interrupted(work, lambda: source.pod(record("z", 70, version=9), now=NOW))
    assert source.pods[last.uid].version == 9


def test_a_pod_that_comes_between_two_steps_of_a_list_is_not_gone() -> None:
    source, late = builders.cluster(), record("late", version=9)
    interrupted(lists.pods(source, many(), version=5, now=NOW), lambda: source.pod(late, now=NOW))
    assert late.uid in source.pods


def test_a_pod_that_changes_while_those_are_removed_that_a_list_lacks_is_not_gone() -> None:
    source = builders.cluster()
    for one in many(2 * lists.PER_STEP):
        source.pod(one, now=NOW)
    last = list(source.pods.values())[-1]
    newer = record(last.name, 1, version=9)
    interrupted(lists.pods(source, [], version=5, now=NOW), lambda: source.pod(newer, now=NOW))
    assert list(source.pods) == [last.uid]


def test_a_list_touches_nothing_that_is_as_it_is_known() -> None:
    source = builders.cluster()
    bound = [builders.bound(f"b{number:04}", 1, "n0", "GPU-n0-0") for number in range(1000)]
    ended = [builders.bound(f"e{number:04}", 1, "n0", "GPU-n0-0", phase="Succeeded") for number in range(1000)]
    waiting = [builders.pod(f"w{number:04}", 95) for number in range(1000)]
    listed = [records.pod_record(raw) for raw in (*bound, *ended, *waiting)]
    steps.finish(lists.pods(source, listed, version=5, now=NOW))
    source.seen()
    known, version = dict(source.pods), source.version
    source.touched.clear()
    source.news_of_pods.begin()
    again = [records.pod_record(raw) for raw in (*bound, *ended, *waiting)]
    again[0] = replace(again[0], version=9, ready=True)
    steps.finish(lists.pods(source, again, version=9, now=NOW + 60))
    assert source.touched == {again[0].uid}
    assert all(source.pods[uid] is record for uid, record in known.items() if uid != again[0].uid)
    assert (source.version, source.behind) == (version, 0)
    assert drift.differences(source) == []


def test_a_list_of_gpunodes_has_nothing_read_again_that_is_as_it_is_known() -> None:
    source = builders.cluster(nodes=lists.GPUNODES_PER_STEP + 1)
    source.seen()
    equipment = source.equipment
    listed = [records.gpunode_record(builders.gpunode(name)) for name in sorted(source.nodes)]
    steps.finish(lists.gpunodes(source, listed, version=5, now=NOW))
    assert (source.behind, source.equipment) == (0, equipment)


def restored(source: ledger.Ledger, listed: list[records.Pod], between: Callable[[], None]) -> None:
    """A list of version 5, asked for after another of version 90; something happens between its first two steps."""
    source.news_of_pods.end(90)
    source.news_of_pods.begin()
    interrupted(lists.pods(source, listed, version=5, now=NOW), between)
    assert drift.differences(source) == []


def test_a_list_from_after_a_restore_is_believed_in_each_of_its_steps() -> None:
    source, old = builders.cluster(), record("old", 30, version=80)
    source.pod(old, now=NOW)
    source.pod(record("z", 30, version=80), now=NOW)
    restored(source, [*many(), record("z", 50, version=3)], lambda: None)
    assert source.pods[PodUID("uid-z")].version == 3
    assert old.uid not in source.pods
    source.pod(record("z", 60, version=6), now=NOW)
    assert source.pods[PodUID("uid-z")].version == 6


def test_a_pod_that_goes_between_two_steps_of_a_list_from_after_a_restore_stays_gone() -> None:
    source, last = builders.cluster(), record("z", 30, version=3)
    source.pod(last, now=NOW)
    restored(source, [*many(), last], lambda: source.pod_gone(last.uid))
    assert last.uid not in source.pods


def test_a_pod_that_went_before_the_list_was_asked_for_is_back_in_a_later_step() -> None:
    source, last = builders.cluster(), record("z", 30, version=3)
    source.pod(last, now=NOW)
    source.pod_gone(last.uid)
    restored(source, [*many(), last], lambda: None)
    assert source.pods[last.uid].version == 3


def test_a_gpunode_that_changes_between_two_steps_of_a_list_keeps_the_change() -> None:
    source = builders.cluster(nodes=lists.GPUNODES_PER_STEP + 1)
    listed = [records.gpunode_record(builders.gpunode(name, version=3)) for name in sorted(source.nodes)]
    last = listed[-1].name
    source.news_of_gpunodes.begin()
    newer = records.gpunode_record(builders.gpunode(last, version=9))
    interrupted(lists.gpunodes(source, listed, version=5, now=NOW), lambda: source.gpunode(newer, now=NOW))
    assert source.nodes[last].agent == newer


@pytest.fixture
def waiting() -> ledger.Ledger:
    """Twice as many pods as are taken in a step wait for GPUs; the smaller, the older."""
    source = builders.cluster(nodes=2)
    for number in range(2 * line.ENTRIES_PER_STEP):
        builders.put(source, builders.pod(f"p{number:04}", 1 + number % 90, created=NOW - 1 - number % 7))
    return source


def names_of(found: planning.Queue) -> list[str]:
    return [member.name for entry in found.line.entries for member in entry.members]


def until_in_the_line(work: steps.Steps[None], source: ledger.Ledger) -> None:
    """Do the steps up to the middle of making the line: pods were read, entries are made."""
    for _ in range(2 + len(source.pods) // line.PODS_PER_STEP):
        next(work)


def test_what_happens_while_a_queue_is_prepared_is_in_the_next_pass(waiting: ledger.Ledger) -> None:
    queue = planning.Queue()
    policy = waiting.policy
    assert policy is not None
    work = queue.prepare(waiting, policy, now=NOW)
    until_in_the_line(work, waiting)
    assert names_of(queue) == []
    builders.put(waiting, builders.pod("late", 95))
    waiting.pod_gone(PodUID("uid-p0001"))
    builders.put(waiting, builders.pod("p0002", 3, gates=("cotenant.dev/packing", "other"), version=2))
    steps.finish(work)
    lifted = [lift.record.name for lift in queue.plan(waiting, policy, now=NOW).lifts]
    assert lifted[0] == "late"
    queue.plan(waiting, policy, now=NOW)
    assert names_of(queue) == queueing.ordered(waiting)


def test_a_prepared_queue_places_what_one_does_that_is_not(waiting: ledger.Ledger) -> None:
    policy = waiting.policy
    assert policy is not None
    prepared, other = planning.Queue(), planning.Queue()
    steps.finish(prepared.prepare(waiting, policy, now=NOW))
    before = names_of(prepared)
    assert before == queueing.ordered(waiting)
    found = prepared.plan(waiting, policy, now=NOW)
    waiting.end_all_earmarks()
    assert [lift.record for lift in other.plan(waiting, policy, now=NOW).lifts] == [lift.record for lift in found.lifts]


def test_another_order_in_the_middle_of_preparing_begins_anew(waiting: ledger.Ledger) -> None:
    queue, first = planning.Queue(), waiting.policy
    assert first is not None
    until_in_the_line(queue.prepare(waiting, first, now=NOW), waiting)
    fifo = builders.in_force(generation=2, queue={"order": "FIFO"})
    waiting.policy_changed(fifo)
    builders.put(waiting, builders.pod("oldest", 1, created=NOW - 9))
    steps.finish(queue.prepare(waiting, fifo, now=NOW))
    assert names_of(queue)[0] == "oldest"
    assert names_of(queue) == queueing.ordered(waiting)


def test_a_pass_that_does_not_wait_for_what_is_prepared_knows_all(waiting: ledger.Ledger) -> None:
    queue, policy = planning.Queue(), waiting.policy
    assert policy is not None
    until_in_the_line(queue.prepare(waiting, policy, now=NOW), waiting)
    assert queue.plan(waiting, policy, now=NOW).lifts
    queue.plan(waiting, policy, now=NOW)
    assert names_of(queue) == queueing.ordered(waiting)


def lifted_pod(name: str, *, version: int = 2, **changes: str) -> records.Pod:
    note = earmarks.Note(node=NodeName("n0"), gpus=(GPUUID("GPU-n0-0"),), attempt=1).to_json()
    return records.pod_record(
        builders.pod(name, 1, gates=(), version=version, annotations={"cotenant.dev/earmark": note}, **changes)
    )


def test_a_pod_that_is_bound_between_two_steps_of_a_take_over_is_promised_nothing_more() -> None:
    source = builders.cluster()
    pods = [lifted_pod(f"l{number:02}") for number in range(takeover.PODS_PER_STEP + 1)]
    for pod in pods:
        source.pod(pod, now=NOW)
    interrupted(takeover.adopting(source, lambda: NOW), lambda: source.pod(record("l10", 1, version=3), now=NOW))
    assert pods[-1].uid == "uid-l10"
    assert source.earmarks.get(pods[-1].uid) is None
    assert source.earmarks.get(pods[0].uid) is not None
    assert drift.differences(source) == []


@pytest.mark.parametrize(
    ("cells", "took", "cut", "expected"),
    [
        (1_000_000, 2 * leader.PASS_SECONDS, True, 500_000),
        (1_000_000, 2 * leader.PASS_SECONDS, False, 1_000_000),
        (1_000_000, leader.PASS_SECONDS / 2, True, 2_000_000),
        (passes.CELLS_PER_PASS, 0.0, True, passes.CELLS_PER_PASS),
        (1, 100.0, True, 1),
    ],
)
def test_after_a_long_pass_shorter_ones_follow(cells: int, took: float, cut: bool, expected: int) -> None:
    assert leader.cells_after(cells, took=took, cut=cut) == expected


def test_a_pass_that_may_look_at_few_gpus_places_the_first_and_goes_on_later(waiting: ledger.Ledger) -> None:
    queue, policy = planning.Queue(), waiting.policy
    assert policy is not None
    found = queue.plan(waiting, policy, now=NOW, cells=1)
    assert (len(found.lifts), found.cut) == (1, True)


def test_of_aged_jobs_that_no_gpu_suits_others_still_get_theirs_held() -> None:
    source = queueing.full(shares=(90, 90))
    old = {"created": NOW - 1000}
    builders.put(source, *(builders.pod(f"hopeless{number}", 800, **old) for number in range(3)))
    builders.put(source, builders.pod("suited", 50, created=NOW - 900))
    queueing.run(source)
    assert len(queueing.held(source)) == 1


@virtual.time
async def test_a_policy_that_changes_twice_at_once_is_in_force_as_it_was_last() -> None:
    to = running.server(nodes=NODES)
    async with running.extender(to) as rig:
        await rig.serving()
        for number in range(9):
            to.put("/api/v1/namespaces/team/pods", builders.pod(f"p{number}", 60, namespace="team"))
        for generation in (2, 3):
            to.put(
                "/apis/cotenant.dev/v1alpha1/packingpolicies",
                builders.policy(generation, maxTenantsPerGPU=generation),
            )
        await until(lambda: len(rig.extender.ledger.earmarks) == 9, "all are promised GPUs")
        policy = rig.extender.ledger.policy
        assert policy is not None
        assert policy.generation == 3
        assert rig.extender.ledger.seen().policy is policy


@pytest.fixture
def searches() -> Iterator[None]:
    """The settings of Python's search for garbage are as before afterwards."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.callbacks[:] = [found for found in gc.callbacks if found is not garbage.keep]
    gc.unfreeze()


@pytest.mark.usefixtures("searches")
def test_what_was_looked_at_twice_is_not_searched_again() -> None:
    garbage.look_in_short_turns()
    standing = gc.get_freeze_count()
    kept = [[number] for number in range(1000)]
    gc.collect(0)
    assert gc.get_freeze_count() < standing + len(kept)
    gc.collect(1)
    assert gc.get_freeze_count() >= standing + len(kept)


@pytest.mark.parametrize(("took", "expected"), [(0.0, 0.5), (0.04, 0.5), (0.2, 2.0), (3.0, 5.0)])
def test_who_waits_is_told_again_the_later_the_longer_that_takes(took: float, expected: float) -> None:
    assert leader.rest_after(took) == pytest.approx(expected)
