"""The mutants themselves: the planted table names what is there, and every edit is one."""

import ast

import pytest

from mutants import cli, defects, equivalent, kept, mutation, planted, sampling, stages, tables

SOURCE = '''
import logging

LOG = logging.getLogger(__name__)
LIMIT = 3


def f(values: list[int] | None, *, least: int = 1) -> int:
    """Docstrings stay: 1 < 2."""
    LOG.info("so do log calls %d", 1 + 2)
    if values is None or len(values) < least:
        return 0
    return min(values) + 1
'''


@pytest.mark.parametrize("defect", planted.DEFECTS, ids=lambda defect: defect.name)
def test_the_text_of_a_planted_defect_occurs_once(defect: defects.Defect) -> None:
    mutant = planted.mutant(defect)
    ast.parse(mutant.content)
    assert mutant.content != (mutation.SOURCES / mutant.file).read_text()


def test_at_least_forty_defects_are_planted_each_with_a_name_of_its_own() -> None:
    assert len({defect.name for defect in planted.DEFECTS}) == len(planted.DEFECTS) >= 40


def test_a_defect_whose_text_is_gone_says_so() -> None:
    defect = defects.Defect("gone", "leadership.py", "no such text", "", "nothing")
    with pytest.raises(ValueError, match=r"gone: 'no such text' occurs 0 times in leadership\.py"):
        planted.mutant(defect)


def test_the_sample_edits_conditions_numbers_statements_and_calls_and_nothing_that_only_people_read() -> None:
    edits = {(mutant.old, mutant.new) for mutant in sampling.of_file("packing", "packing/x.py", SOURCE)}
    assert edits == {
        ("3", "4"),
        ("3", "2"),
        ("1", "2"),
        ("1", "(0)"),
        ("values is None or len(values) < least", "not (values is None or len(values) < least)"),
        ("values is None or len(values) < least", "(values is None and len(values) < least)"),
        ("values is None", "(values is not None)"),
        ("len(values) < least", "(len(values) <= least)"),
        ("len(values) < least", "(len(values) >= least)"),
        ("return 0", "pass"),
        ("0", "1"),
        ("0", "(-1)"),
        ("min(values) + 1", "(min(values) - 1)"),
        ("min(values)", "(max(values))"),
    }


def test_the_sample_is_drawn_from_every_package_and_every_mutant_of_it_is_python() -> None:
    found = sampling.candidates()[: cli.SAMPLE]
    assert len({mutant.key for mutant in found}) == cli.SAMPLE
    assert {mutant.group for mutant in found} == set(tables.GROUPS)
    for mutant in found:
        ast.parse(mutant.content)


def test_whatever_is_said_to_change_nothing_has_a_reason_of_its_own() -> None:
    assert len({entry[:5] for entry in equivalent.EQUIVALENT}) == len(equivalent.EQUIVALENT)
    assert all(entry.reason for entry in equivalent.EQUIVALENT)


def test_whatever_is_said_to_change_nothing_is_an_edit_of_the_sources_as_they_are() -> None:
    edits = {(one.file, one.name, one.old, one.new, one.number) for one in sampling.candidates()}
    assert [entry for entry in equivalent.EQUIVALENT if entry[:5] not in edits] == []


def found(group: str, **result: object) -> tables.Found:
    mutant = mutation.Mutant(group=group, name="f", file="x.py", first=1, last=1, old="a", new="b", content=str(result))
    made = kept.Result()
    for field, value in result.items():
        setattr(made, field, value)
    return tables.Found(mutant, made)


def test_a_table_counts_what_killed_and_what_survives() -> None:
    lived: dict[str, set[str]] = {stage: set() for stage in stages.Stage}
    some = [
        found(mutation.PLANTED, stage="simulation", killer="seed 3"),
        found("queue", lived=lived, survived=True, late="t"),
        found("queue", stage="tests that run the line", killer="t"),
        found("queue", lived=lived, survived=True),
        found("queue", lived={stages.Stage.TESTS: set()}),
    ]
    assert tables.table(some)[2:] == [
        "| planted by hand | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 100.0 % |",
        "| sampled: queue | 4 | 1 | 0 | 0 | 1 | 0 | 1 | 1 | 25.0 % |",
        "| all of the sample | 4 | 1 | 0 | 0 | 1 | 0 | 1 | 1 | 25.0 % |",
    ]
    assert not tables.good(some)
    assert tables.good([some[0], some[2]])
    told = list(tables.survivors(some))
    assert told[:2] == ["x.py:1 (f): a  ->  b: runs out of CPU time in t", "x.py:1 (f): a  ->  b: survives"]
