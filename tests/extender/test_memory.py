"""What the queue remembers as not fitting is tried again as soon as it may fit."""

from cotenant_api.names import PodUID
from cotenant_extender.queue import line
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
    gang = [member(name, 60, created=NOW - age) for age, name in enumerate("abcd")]
    builders.put(source, *gang)
    assert lifted(source) == []
    source.pod_gone(PodUID("uid-d"))
    never = {"cotenant.dev/gpu-models": "X"}
    builders.put(source, *(builders.pod(f"p{number}", 90, annotations=never) for number in range(line.MANY + 1)))
    assert lifted(source) == ["c", "b", "a"]
