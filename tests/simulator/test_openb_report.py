"""What is told of results."""

import dataclasses

import pytest

from cotenant_api import errors
from cotenant_simulator.openb import expected, experiment, replay, report, selfcheck
from cotenant_simulator.report import cells, page

FLAT = (50.0,) * 131


def series(policy: str, percent: float | None = 50.0, *, limit: int = 16, faults: int = 0) -> report.Series:
    """One seed that allocated so much whatever had arrived."""
    key = experiment.Key("t", experiment.Setting(policy, limit), 42)
    outcome = replay.Outcome(
        allocated_percent=(percent,) * 131,
        fragmented_percent=(None,) * 131,
        refused_though_fitting=faults,
        violations=faults,
    )
    result = experiment.Result(key=key, outcome=outcome, seconds=1.0)
    return report.Series(trace="t", setting=key.setting, results=(result,), bounds=({100: 90.0, 130: None},))


def rows(found: list[report.Series], *, published: dict[expected.Run, expected.Curve] | None = None) -> list[list[str]]:
    """Of all tables of their page, as text."""
    made = report.shown(found, published or {}, command="cotenant")
    return [
        [cells.text(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        for table in made.tables
        for row in table.rows
    ]


def test_faults_of_all_runs_are_told_together() -> None:
    assert report.faults([series("FirstFit"), series("Spread")]) is None
    told = report.faults([series("FirstFit", faults=1), series("Spread", faults=2)])
    assert told == "3 pods were refused though they fit, 3 placements took what was not there"


def test_faults_are_told_first_of_what_a_page_rests_on() -> None:
    faulty = report.shown([series("FirstFit", faults=1)], {}, command="cotenant")
    assert faulty.conditions[0].startswith("1 pods were refused though they fit")
    lawful = report.shown([series("FirstFit")], {}, command="cotenant")
    assert lawful.conditions[0].startswith("No pod was refused that fits")


def test_what_is_not_known_is_null_and_empty() -> None:
    (seed,) = report.document(series("FirstFit", None), tells_tenants=False)["seeds"]
    assert seed["allocated_percent"] == {"100": None, "130": None}
    assert ["FirstFit", "16", "", "90.00", "", "", ""] in rows([series("FirstFit", None), series("Spread", None)])


def test_a_placement_stands_beside_its_bound() -> None:
    assert rows([series("FirstFit")])[0] == ["FirstFit", "16", "50.00", "90.00", "40.00", "50.00", ""]


def test_each_seed_is_told_where_there_is_one_series_alone() -> None:
    assert ["42", "50.00", "50.00", "", "", "90.00", "0", "0"] in rows([series("FirstFit")])
    assert "42" not in [row[0] for row in rows([series("FirstFit"), series("Spread")])]


def test_the_pages_document_has_bounds_and_no_time() -> None:
    (told,) = report.shown([series("FirstFit")], {}, command="cotenant").document["series"]
    (seed,) = told["seeds"]
    assert told["max_tenants"] == 16
    assert seed["bound_percent"] == {"100": 90.0, "130": None}
    assert "seconds" not in seed


def test_the_figure_shows_what_is_asked_for_and_idle() -> None:
    made = report.shown([series("FirstFit")], {}, command="cotenant")
    (figure,) = (part for part in made.parts if isinstance(part, page.Lines))
    idle = dict(zip(figure.series[0].x, figure.series[0].y, strict=True))
    assert (idle[60], idle[100], idle[130]) == (10, 50, 50)


def test_bars_tell_limits_apart_where_there_are_several() -> None:
    made = report.shown([series("FirstFit"), series("FirstFit", limit=3)], {}, command="cotenant")
    (bars,) = (part for part in made.parts if isinstance(part, page.Bars))
    assert list(bars.bars) == ["FirstFit, 16", "FirstFit, 3"]


def test_the_verdict_names_the_best_and_what_the_default_lacks_for_each_limit() -> None:
    found = [
        series("FirstFit", 50),
        series("BestFit", 52.5),
        series("FirstFit", 49, limit=3),
        series("BestFit", 48, limit=3),
    ]
    less = "FirstFit, the default, allocates 2.50 points less"
    assert list(report.verdicts(found)) == [
        f"At most 16 tenants per GPU: BestFit allocates most, 52.50 % over all traces; {less}.",
        "At most 3 tenants per GPU: FirstFit allocates most, 49.00 % over all traces; it is the default.",
    ]


def test_without_the_default_the_verdict_names_the_best_alone() -> None:
    (told,) = report.verdicts([series("Spread", 40), series("BestFit", 52.5)])
    assert told == "At most 16 tenants per GPU: BestFit allocates most, 52.50 % over all traces."


def test_one_placement_alone_wins_nothing_and_is_told_beside_the_bound() -> None:
    assert list(report.verdicts([series("FirstFit")])) == []
    told = report.shown([series("FirstFit")], {}, command="cotenant").answer
    assert told.startswith("FirstFit allocates 50.00 % of the GPUs")
    assert told.endswith("no placement could allocate more than 90.00 %.")


def test_published_figures_are_means_over_the_seeds_that_were_asked_for() -> None:
    curves = {
        expected.Run("t", "FGD", seed): expected.Curve(gpus=1, percent=(value,) * 131)
        for seed, value in ((42, 90.0), (43, 0.0))
    }
    assert ["FGD", "90.00", "90.00"] in rows([series("FirstFit")], published=curves)
    elsewhere = {run._replace(trace="other"): curve for run, curve in curves.items()}
    assert "FGD" not in [row[0] for row in rows([series("FirstFit")], published=elsewhere)]


def test_faults_fail_the_self_check_even_where_the_curve_agrees() -> None:
    (result,) = series("BestFit", faults=1).results
    curve = expected.Curve(gpus=1, percent=FLAT)
    with pytest.raises(errors.PermanentError, match=r"1 placements took what was not there; 1 pods were refused"):
        selfcheck.require(result, curve)
    lawful = dataclasses.replace(result, outcome=series("BestFit").results[0].outcome)
    selfcheck.require(lawful, curve)
