"""Two measurements of the same pairs: how far they agree is how fine a score on either can be."""

import dataclasses

import numpy as np
import pytest

from cotenant_predictor.datasets import gavel
from cotenant_predictor.datasets.joint import Joint
from cotenant_predictor.evaluation import agreement, metrics, partners
from cotenant_predictor.evaluation.report import Row


@pytest.fixture(scope="module")
def first() -> Joint:
    return gavel.load()


@pytest.fixture(scope="module")
def second() -> Joint:
    return gavel.load_again()


def value(rows: list[Row], split: str, model: str, metric: str, group: str | None = None) -> float:
    (found,) = (
        row.value for row in rows if (row.split, row.model, row.metric, row.group) == (split, model, metric, group)
    )
    return found


def test_a_measurement_agrees_with_itself(first: Joint) -> None:
    rows = agreement.rows(first, first)
    assert value(rows, agreement.BY_SECOND, agreement.FIRST, "shareOfOracle") == pytest.approx(1.0)
    assert value(rows, agreement.SECOND, agreement.FIRST, "correlation") == pytest.approx(1.0)
    assert value(rows, agreement.SECOND, agreement.FIRST, "mape") == 0.0


def test_jobs_are_matched_by_name_and_not_by_place(first: Joint, second: Joint) -> None:
    count = len(second.jobs)
    moved = dataclasses.replace(
        second,
        jobs=second.jobs[::-1],
        runs=tuple(
            dataclasses.replace(
                run,
                tenants=tuple(dataclasses.replace(tenant, job=count - 1 - tenant.job) for tenant in run.tenants),
            )
            for run in second.runs
        ),
    )
    for metric in ("correlation", "mape"):
        names = agreement.SECOND, agreement.FIRST, metric
        assert value(agreement.rows(first, moved), *names) == pytest.approx(
            value(agreement.rows(first, second), *names)
        )


def test_the_second_measurement_is_of_the_same_jobs_on_the_same_gpus(first: Joint, second: Joint) -> None:
    assert {(job.name, job.gpu_model) for job in first.jobs} == {(job.name, job.gpu_model) for job in second.jobs}


def test_what_one_measurement_takes_for_best_is_less_so_by_the_other(first: Joint, second: Joint) -> None:
    rows = agreement.rows(first, second)
    for split, model in ((agreement.BY_SECOND, agreement.FIRST), (agreement.BY_FIRST, agreement.SECOND)):
        chosen = value(rows, split, model, "shareOfOracle")
        assert value(rows, split, partners.RANDOM, "shareOfOracle") < chosen < 0.97
    v100 = value(rows, agreement.SECOND, agreement.FIRST, "correlation", "Tesla-V100-SXM2-16GB")
    assert 0.1 < v100 < 0.5


def test_correlation_of_what_is_the_same_everywhere_is_unknown() -> None:
    assert np.isnan(metrics.correlation(np.ones(3), np.arange(3.0)))
    assert metrics.correlation(np.arange(3.0), -np.arange(3.0)) == pytest.approx(-1.0)
