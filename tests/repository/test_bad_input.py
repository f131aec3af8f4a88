"""The tables of bad input stay as large as they are meant to be, over all ways in."""

from collections import Counter

from bad_input import Case, Object, Words
from cli import bad_words
from cluster import bad_callers, bad_objects
from cotenant_api import cli

LEAST = 80
COMPONENTS = {"mps-daemons", "measurements", "profile"}
"""Without arguments of their own that can be wrong, or not without a GPU."""


def every_case() -> list[Case]:
    return [*bad_objects.OBJECTS, *bad_words.LINES, *bad_callers.LINES]


def test_there_are_enough_cases_and_none_is_there_twice() -> None:
    names = Counter((type(case).__name__, getattr(case, "kind", ""), case.name) for case in every_case())
    assert len(names) >= LEAST
    assert [name for name, count in names.items() if count > 1] == []


def test_each_case_says_what_the_answer_must_hold() -> None:
    assert [case.name for case in every_case() if not case.said or not all(case.said)] == []


def test_every_kind_of_object_and_every_command_is_in_a_table() -> None:
    kinds = {case.kind for case in every_case() if isinstance(case, Object)}
    assert kinds == {"DLJob", "Pod", "PackingPolicy"}
    commands = {case.line.split()[0] for case in every_case() if isinstance(case, Words)}
    assert cli.entries().keys() - commands == COMPONENTS


def test_wrong_arguments_are_told_apart_from_what_could_not_be_done() -> None:
    assert {case.code for case in every_case() if isinstance(case, Words)} == {1, 2}
