"""Reports: the JSON shape that others read, and tables for people."""

import dataclasses
import json
import math
from typing import Any

import numpy as np

from cotenant_predictor.evaluation import metrics, report
from cotenant_predictor.evaluation.report import Row

ROW = Row(target="utilization", split="random", model="physics", metric="mae", value=4.0, low=3.0, high=5.5, n=20)


def row(**changes: Any) -> Row:
    return dataclasses.replace(ROW, **changes)


def test_a_row_has_exactly_the_agreed_keys() -> None:
    assert report.document([ROW]) == {
        "rows": [
            {"target": "utilization", "split": "random", "model": "physics", "metric": "mae",
             "value": 4.0, "low": 3.0, "high": 5.5, "n": 20}
        ]
    }  # fmt: skip


def test_further_keys_are_there_only_where_they_say_something() -> None:
    written = row(group="NVIDIA-L4", training_rows=40, simulated=True, worst="vgg").to_object()
    assert {key: written[key] for key in ("group", "trainingRows", "simulated", "worst")} == {
        "group": "NVIDIA-L4",
        "trainingRows": 40,
        "simulated": True,
        "worst": "vgg",
    }


def test_what_cannot_be_computed_is_null_and_the_document_is_strict_json() -> None:
    text = json.dumps(report.document([row(value=math.nan, low=math.inf, high=math.nan)]), allow_nan=False)
    assert json.loads(text)["rows"][0]["value"] is None
    assert json.loads(text)["rows"][0]["low"] is None


def test_a_score_comes_with_its_interval_and_number_of_rows() -> None:
    measured, predicted = np.arange(20.0), np.arange(20.0) + np.tile([1.0, 3.0], 10)
    scored = report.scored(row(n=0), metrics.mae, [measured, predicted], [str(number % 5) for number in range(20)])
    assert (scored.value, scored.n) == (2.0, 20)
    assert scored.low <= 2.0 <= scored.high


def test_a_table_has_a_line_per_model_and_a_column_per_metric() -> None:
    rows = [ROW, row(model="cotenant", value=2.0), row(model="cotenant", metric="coverage", value=0.9)]
    lines = list(report.tables(rows))
    assert lines[0] == "**utilization**, random"
    assert lines[2] == "| model | mae | coverage | n |"
    assert lines[4] == "| physics | 4.000 (3.000 to 5.500) |  | 20 |"
    assert lines[5].startswith("| cotenant | 2.000 (3.000 to 5.500) | 0.900")


def test_tables_say_what_is_simulated() -> None:
    assert next(report.tables([row(simulated=True)])) == "**utilization**, random (simulated)"


def test_groups_and_learning_curves_have_tables_of_their_own() -> None:
    rows = [row(group="a"), row(group="b", value=math.nan), row(training_rows=7, metric="fitSeconds", value=123.4)]
    assert list(report.tables(rows)) == []
    assert list(report.group_tables(rows))[:5] == [
        "**utilization**, random, mae of each",
        "",
        "| model | a | b |",
        "|---|---|---|",
        "| physics | 4.000 | - |",
    ]
    assert "| utilization | random | physics | 7 | fitSeconds | 123 (3.000 to 5.500) |" in report.learning_table(rows)


def test_what_is_next_to_nothing_is_shown_as_zero() -> None:
    assert "| physics | 0.000 | 20 |" in report.tables([row(value=-1e-9, low=math.nan)])


def test_without_a_learning_curve_there_is_no_table_of_it() -> None:
    assert list(report.learning_table([ROW])) == []
