"""Assumptions varied: every case has every way, is compared under its own assumption, and the answer counts them."""

import dataclasses

import pytest

from cotenant_simulator.horus import experiment, population, settings, variation
from cotenant_simulator.report import page

FIGURES = experiment.Figures(
    utilization_percent=40.0,
    makespan_seconds=1000.0,
    run_seconds=100.0,
    completion_seconds=500.0,
    slowdown_median=0.0,
    slowdown_worst=0.5,
    out_of_memory=0,
    failed=0,
)
GOOD = dataclasses.replace(FIGURES, utilization_percent=80.0, makespan_seconds=600.0, completion_seconds=300.0)


def runs(bad: str = "") -> dict[tuple[str, str], dict[int, experiment.Figures]]:
    """Ours are good in every case but one."""
    return {
        (case.name, way): dict.fromkeys((1, 2), GOOD if way == settings.DENSE_LONG and case.name != bad else FIGURES)
        for case in variation.CASES
        for way in variation.WAYS
    }


def shown(bad: str = "") -> page.Page:
    return variation.page_of(runs(bad), model="model-1", command="cotenant simulate horus --vary")


def test_every_case_has_a_row_for_every_way() -> None:
    (table,) = shown().tables
    assert [row[:2] for row in table.rows] == [[case.name, way] for case in variation.CASES for way in variation.WAYS]


def test_answer_names_the_cases_where_it_does_not_hold() -> None:
    case = variation.CASES[3].name
    every = len(variation.CASES)
    assert shown().answer.endswith(f"in {every} of {every} cases.")
    assert shown(case).answer.endswith(f"in {every - 1} of {every} cases; not where {case}.")


def test_the_page_says_how_far_the_simulated_rival_is_from_what_was_measured() -> None:
    assert any("run time +0.0 % where the study measured +8.3 %" in text for text in shown().conditions)


def test_cases_have_names_of_their_own_and_the_first_varies_nothing() -> None:
    assert len({case.name for case in variation.CASES}) == len(variation.CASES)
    assert variation.CASES[0] == variation.Case(name=variation.CASES[0].name)
    for case in variation.CASES[1:]:
        assert dataclasses.replace(case, name="") != variation.Case(name="")


@pytest.mark.parametrize("name", variation.WAYS)
def test_a_mechanism_is_that_of_every_way(name: str) -> None:
    case = variation.Case(name="in turns", mechanism=settings.TIME_SLICING)
    assert variation.setting_of(case, name).mechanism == settings.TIME_SLICING
    assert variation.setting_of(variation.CASES[0], name) == settings.named(name)


def test_the_usual_case_is_what_is_assumed_without_options() -> None:
    assert variation.CASES[0].assumed == population.Assumed()
