"""What kube-scheduler's tries of one pod tell."""

from cotenant_api.names import PodUID
from cotenant_extender.ledger import tries

A = PodUID("uid-a")


def begun() -> tries.Tries:
    """A pod's first try has begun."""
    found = tries.Tries()
    found.start()
    found.began(A)
    return found


def test_a_try_that_ends_without_a_question_is_silent_once() -> None:
    found = begun()
    found.ended(A)
    assert [found.silent(), found.silent()] == [[A], []]


def test_after_a_try_with_a_question_one_without_is_silent() -> None:
    found = begun()
    assert found.asked(A)
    found.ended(A)
    assert found.silent() == []
    found.ended(A)
    assert found.silent() == [A]


def test_of_a_pod_that_is_not_being_tried_an_end_tells_nothing() -> None:
    found = tries.Tries()
    found.start()
    for _ in range(2):
        found.ended(A)
    assert found.silent() == []


def test_while_another_answers_nothing_is_noted() -> None:
    found = tries.Tries()
    found.began(A)
    assert not found.asked(A)
    found.start()
    found.ended(A)
    assert found.silent() == []
