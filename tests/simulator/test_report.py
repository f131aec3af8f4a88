"""What is told of results."""

import dataclasses

import pytest

from cotenant_api import errors
from cotenant_simulator.openb import expected, experiment, replay, report, selfcheck

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
    return report.Series(trace="t", setting=key.setting, results=(result,))


def test_faults_of_all_runs_are_told_together() -> None:
    assert report.faults([series("FirstFit"), series("Spread")]) is None
    told = report.faults([series("FirstFit", faults=1), series("Spread", faults=2)])
    assert told == "3 pods were refused though they fit, 3 placements took what was not there"


def test_what_is_not_known_is_null_and_a_dash() -> None:
    (seed,) = report.document(series("FirstFit", None), tells_tenants=False)["seeds"]
    assert seed["allocated_percent"] == {"100": None, "130": None}
    assert "| FirstFit | 16 | - | - | - |" in list(report.summary([series("FirstFit", None)]))


def test_the_verdict_names_the_best_and_what_the_default_lacks_for_each_limit() -> None:
    found = [
        series("FirstFit", 50),
        series("BestFit", 52.5),
        series("FirstFit", 49, limit=3),
        series("BestFit", 48, limit=3),
    ]
    told = [line for line in report.verdicts(found) if line]
    less = "FirstFit, the default, allocates 2.50 points less"
    assert told == [
        f"At most 16 tenants per GPU: BestFit allocates most, 52.50 % over all traces; {less}.",
        "At most 3 tenants per GPU: FirstFit allocates most, 49.00 % over all traces; it is the default.",
    ]


def test_one_placement_alone_wins_nothing() -> None:
    assert list(report.verdicts([series("FirstFit")])) == []


def test_published_figures_are_means_over_the_seeds_that_were_asked_for() -> None:
    curves = {
        expected.Run("t", "FGD", seed): expected.Curve(gpus=1, percent=(value,) * 131)
        for seed, value in ((42, 90.0), (43, 92.0), (44, 0.0))
    }
    assert "| FGD | 91.00 | 91.00 |" in list(report.published(curves, ["t"], [42, 43]))
    assert list(report.published(curves, ["other"], [42])) == []


def test_faults_fail_the_self_check_even_where_the_curve_agrees() -> None:
    (result,) = series("BestFit", faults=1).results
    curve = expected.Curve(gpus=1, percent=FLAT)
    with pytest.raises(errors.PermanentError, match=r"1 placements took what was not there; 1 pods were refused"):
        selfcheck.require(result, curve)
    lawful = dataclasses.replace(result, outcome=series("BestFit").results[0].outcome)
    selfcheck.require(lawful, curve)
