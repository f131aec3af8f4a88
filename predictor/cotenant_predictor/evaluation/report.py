"""Rows of an evaluation: one score of one model on one split, as JSON and as readable tables. Pure; writes no file."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from cotenant_predictor.evaluation import intervals

SHOWN_DIGITS: Final = 3
LOWER_IS_BETTER: Final = frozenset({"rmsle", "mae", "rmse", "mape", "mdape"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One score with its interval; what cannot be computed is NaN here and null in JSON."""

    target: str
    split: str
    model: str
    metric: str
    value: float
    low: float = math.nan
    high: float = math.nan
    n: int
    """Rows that were scored."""
    group: str | None = None
    """The group, family or GPU model of which the row speaks; none: all of them."""
    worst: str | None = None
    """The group that scored worst, where the score is that group's."""
    training_rows: int | None = None
    simulated: bool = False
    """Whether the score rests on simulated lines."""

    def to_object(self) -> dict[str, Any]:
        """As JSON; the keys from `group` on are there only where they say something."""
        figures = {name: _number(getattr(self, name)) for name in ("value", "low", "high")}
        more: dict[str, Any] = {
            "group": self.group,
            "worst": self.worst,
            "trainingRows": self.training_rows,
            "simulated": self.simulated,
        }
        named = {"target": self.target, "split": self.split, "model": self.model, "metric": self.metric}
        return {**named, **figures, "n": self.n, **{key: value for key, value in more.items() if value}}


def scored(row: Row, statistic: Callable[..., float], arrays: Sequence[Any], groups: Sequence[str]) -> Row:
    """`row` with the value of a statistic of arrays of shape (n_rows,), and its interval over groups."""
    columns = [np.asarray(array) for array in arrays]

    def of(index: Any) -> float:
        return statistic(*(column[index] for column in columns))

    low, high = intervals.over_groups(of, groups)
    return dataclasses.replace(row, value=statistic(*columns), low=low, high=high, n=len(columns[0]))


def document(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the JSON document of an evaluation."""
    return {"rows": [row.to_object() for row in rows]}


def tables(rows: Iterable[Row]) -> Iterator[str]:
    """Lines of Markdown tables: one per target and split, a row per model, a column per metric."""
    by_table: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.group is None and row.training_rows is None:
            by_table.setdefault((row.target, row.split), []).append(row)
    for (target, split), found in by_table.items():
        label = " (simulated)" if any(row.simulated for row in found) else ""
        yield f"**{target}**, {split}{label}"
        yield ""
        yield from _table(found)
        yield ""


def group_tables(rows: Iterable[Row]) -> Iterator[str]:
    """Yield what each held-out group, family or GPU model scores.

    A row per model, a column per group, the first metric.
    """
    by_table: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.group is not None:
            by_table.setdefault((row.target, row.split), []).append(row)
    for (target, split), found in by_table.items():
        metric = found[0].metric
        label = " (simulated)" if any(row.simulated for row in found) else ""
        by_model: dict[str, dict[str, Row]] = {}
        for row in found:
            if row.metric == metric:
                by_model.setdefault(row.model, {})[str(row.group)] = dataclasses.replace(row, low=math.nan)
        names = sorted({str(row.group) for row in found})
        yield f"**{target}**, {split}, {metric} of each{label}"
        yield ""
        yield from _grid(["model", *names], by_model, names)
        yield ""


def learning_table(rows: Iterable[Row]) -> Iterator[str]:
    """Score and fit time against the number of training rows."""
    found = [row for row in rows if row.training_rows is not None]
    if not found:
        return
    yield "| target | split | model | training rows | metric | value |"
    yield "|---|---|---|---|---|---|"
    for row in found:
        yield f"| {row.target} | {row.split} | {row.model} | {row.training_rows} | {row.metric} | {_shown(row)} |"
    yield ""


def _table(rows: Sequence[Row]) -> Iterator[str]:
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.metric] = row
    metrics = list(dict.fromkeys(row.metric for row in rows))
    yield from _grid(["model", *metrics, "n"], by_model, metrics)


def _grid(header: Sequence[str], by_model: Mapping[str, Mapping[str, Row]], columns: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    counts = len(header) > 1 + len(columns)
    for model, row in by_model.items():
        cells = [_shown(row[name]) if name in row else "" for name in columns]
        cells += [str(max(entry.n for entry in row.values()))] if counts else []
        yield f"| {model} | {' | '.join(cells)} |"


def _shown(row: Row) -> str:
    if math.isnan(row.value):
        return "-"
    value = _figure(row.value)
    return value if math.isnan(row.low) else f"{value} ({_figure(row.low)} to {_figure(row.high)})"


def _figure(value: float) -> str:
    value = value if abs(value) >= 0.5 * 10**-SHOWN_DIGITS else 0.0
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.{1 if abs(value) >= 10 else SHOWN_DIGITS}f}"


def _number(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
