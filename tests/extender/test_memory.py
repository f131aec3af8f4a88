"""What the queue remembers as not fitting is tried again as soon as it may fit."""

from cotenant_api.names import PodUID
from cotenant_extender import records, steps
from cotenant_extender.queue import line, memory
from extender import builders, forgetful
from extender.builders import NOW
from extender.queueing import full, held, lifted, member, queue, run, words


def test_a_gpu_that_a_hold_gives_back_in_the_middle_of_a_pass_is_tried_by_those_that_it_kept_away() -> None:
    source = full(shares=(60,))
    first = builders.pod("first", 100, created=NOW - 90)
    never = builders.pod("never", 200, created=NOW - 80)
    builders.put(source, first, never, builders.pod("small", 40))
    assert lifted(source) == []
    assert held(source) == ["GPU-n0-0"]
    source.pod_gone(PodUID("uid-first"))
    builders.put(source, builders.pod("new", 70))
    # The pass in which the hold ends; nobody can hold GPUs after it, and what is free changes no more.
    assert words(source, "small")[1].startswith("1 GPU is held")
    run(source)
    assert held(source) == []
    assert lifted(source) == ["small"]
    assert forgetful.held_back(source, queue(source), now=NOW) == []


def test_a_gang_that_became_smaller_while_many_others_came_is_tried_again() -> None:
    source = builders.cluster(gpus=3)
    gang = [member(name, 60, size=4, created=NOW - age) for age, name in enumerate("abcd")]
    builders.put(source, *gang)
    assert lifted(source) == []
    notes = builders.gang("g", 4)
    builders.put(source, builders.bound("d", 60, "n0", "GPU-n0-0", phase="Succeeded", version=2, annotations=notes))
    never = {"cotenant.dev/gpu-models": "X"}
    builders.put(source, *(builders.pod(f"p{number}", 90, annotations=never) for number in range(line.MANY + 1)))
    assert lifted(source) == ["c", "b", "a"]


def test_who_joins_the_line_while_it_is_numbered_is_tried_and_so_are_all_others() -> None:
    source, found = builders.cluster(gpus=1, queue={"order": "FIFO"}), memory.Memory()
    for number in range(2 * memory.ENTRIES_PER_STEP):
        builders.put(source, builders.pod(f"p{number:04}", created=NOW - 1 - number))
    policy, waiting = source.policy, line.Line()
    assert policy is not None
    waiting.update(source, policy.spec.queue, set(source.pods), now=NOW)
    work = found.prepare(source, waiting)
    next(work)
    builders.put(source, builders.pod("first", 70, created=NOW - 9999), builders.pod("last", 80))
    waiting.update(source, policy.spec.queue, {PodUID("uid-first"), PodUID("uid-last")}, now=NOW)
    steps.finish(work)
    found.follow(source, waiting)
    found.begin(source)
    kinds = found.columns.kind.tolist()
    assert len(kinds) == len(waiting.entries)
    assert len({kinds[0], kinds[1], kinds[-1]}) == 3
    assert set(kinds[1:-1]) == {kinds[1]}


def test_a_gpu_that_a_gang_gives_back_because_a_node_closed_is_tried_by_those_that_it_kept_away() -> None:
    source = builders.cluster(nodes=2, gpus=1, queue={"maxWaitSeconds": 60})
    builders.put(source, *(builders.bound(f"b{n}", 60, f"n{n}", f"GPU-n{n}-0") for n in range(2)))
    gang = (builders.pod(name, 100, annotations=builders.gang("g", 2), created=NOW - 90) for name in "xy")
    builders.put(source, *gang, builders.pod("small", 40))
    assert lifted(source) == []
    assert held(source) == ["GPU-n0-0", "GPU-n1-0"]
    source.node(records.node_record(builders.node("n1", gpus=1, unschedulable=True)))
    # Who comes now does not fit either: it is tried after the hold ended, and nothing else is written.
    builders.put(source, builders.pod("new", 50))
    assert lifted(source) + lifted(source) == ["small"]
