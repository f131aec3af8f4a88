"""What kube-scheduler's tries of one pod tell."""

from typing import Any

import numpy as np

from cotenant_api.names import PodUID
from cotenant_extender import records
from cotenant_extender.ledger import tries
from extender import builders
from extender.builders import NOW

A = PodUID("uid-a")
PLUGINS = "0/3 nodes are available: 3 node(s) had no free ports"
FILTER = "0/3 nodes are available: 1 node(s) had no free ports, 2 InsufficientShare: 1 GPU lacks share"


class Told:
    """A pod, and what its states tell."""

    def __init__(self) -> None:
        self.tries = tries.Tries()
        self.tries.start()
        self.record = self._pod()

    def _pod(self, **changes: Any) -> records.Pod:
        return records.pod_record(builders.pod("a", gates=(), **changes))

    def shows(self, **changes: Any) -> list[PodUID]:
        """The pod is like this now; whose last try was silent."""
        known, self.record = self.record, self._pod(**changes)
        self.tries.observe(known, self.record)
        return self.tries.silent(most=99)

    def learns(self, *, silent: bool = False) -> None:
        """What was asked, or that nothing was, is made an answer."""
        answer = tries.Answer.of({}, np.zeros(0, dtype=np.bool_), silent=silent, now=NOW)
        self.tries.learn(A, answer)

    @property
    def answered(self) -> bool:
        """Whether it is known what kube-scheduler found."""
        return self.tries.tells_of(A, ())


def test_a_report_without_a_word_of_filters_is_of_a_silent_try_and_told_once() -> None:
    told = Told()
    assert told.shows(unschedulable=PLUGINS) == [A]
    assert told.shows(unschedulable=PLUGINS) == []


def test_a_report_with_filters_words_is_of_no_silent_try() -> None:
    told = Told()
    told.tries.asked(A, left=False)
    assert told.shows(unschedulable=FILTER) == []


def test_a_silent_try_is_heard_after_one_in_which_filter_was_asked_and_that_was_not_reported() -> None:
    told = Told()
    for _ in range(2):
        told.tries.asked(A, left=False)
        assert told.shows(unschedulable=FILTER) == []
    assert told.shows(unschedulable=PLUGINS) == [A]


def test_filter_may_be_asked_before_the_lifted_gate_is_seen() -> None:
    told = Told()
    told.record = records.pod_record(builders.pod("a"))
    told.tries.asked(A, left=False)
    told.learns()
    told.shows()
    assert told.shows(unschedulable=FILTER) == []
    assert told.answered


def test_after_a_report_that_was_taken_back_the_same_one_is_heard() -> None:
    told = Told()
    assert told.shows(unschedulable=PLUGINS) == [A]
    assert told.shows() == []
    assert told.shows(unschedulable=PLUGINS) == [A]


def test_where_filter_left_a_node_a_report_without_its_words_tells_nothing() -> None:
    told = Told()
    told.learns()
    told.tries.asked(A, left=True)
    assert told.shows(unschedulable=PLUGINS) == []
    assert not told.answered


def test_news_of_a_silent_try_after_the_question_of_the_next_one_are_taken_back_by_its_report() -> None:
    told = Told()
    told.tries.asked(A, left=False)
    assert told.shows(unschedulable=PLUGINS) == [A]
    told.learns(silent=True)
    told.shows(unschedulable=FILTER)
    assert not told.answered


def test_an_error_tells_of_no_node() -> None:
    told = Told()
    told.learns()
    assert told.shows(errored="binding rejected: 403") == []
    assert told.answered


def test_a_question_makes_the_silent_try_before_it_old() -> None:
    told = Told()
    told.tries.observe(told.record, records.pod_record(builders.pod("a", gates=(), unschedulable=PLUGINS)))
    told.tries.asked(A, left=False)
    assert told.tries.silent(most=99) == []


def test_while_another_answers_nothing_is_noted() -> None:
    told = Told()
    told.tries.stop()
    assert not told.tries.asked(A, left=False)
    assert told.shows(unschedulable=PLUGINS) == []
