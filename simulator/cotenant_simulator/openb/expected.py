"""Reads the published curves: allocation by arrived demand, for a trace, a policy and a seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cotenant_simulator.openb import accounts, arrivals, csvfile, trace

FILE: Final = "expected_allocation_percent.csv"

_COLUMNS: Final = tuple(str(place) for place in range(accounts.LAST + 1))
_KEYS: Final = ("workload", "sc_policy", "tune", "seed", "total_gpus")


class Run(NamedTuple):
    """Which published run.

    Attributes:
        trace: the trace's name, as in the name of its file.
        policy: the policy's name, without its number.
    """

    trace: str
    policy: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What a run allocated.

    Attributes:
        gpus: how many the cluster had.
        percent: by column, 0 to `accounts.LAST`.
    """

    gpus: int
    percent: tuple[float, ...]


def read(folder: Path) -> Mapping[Run, Curve] | None:
    """All published runs at the published load; None where the folder does not hold them.

    Raises:
        InvalidInputError: a cell cannot be used; it names file, line and column.
    """
    file = folder / FILE
    return dict(filter(None, csvfile.rows(file, (*_KEYS, *_COLUMNS), _run))) if file.exists() else None


def _run(row: csvfile.Row) -> tuple[Run, Curve] | None:
    if _decimal(row, "tune") != arrivals.LOAD:
        return None
    run = Run(
        trace=row.text("workload").removeprefix(trace.PODS_PREFIX),
        policy=row.text("sc_policy").lstrip("0123456789").removeprefix("-"),
        seed=row.number("seed"),
    )
    percent = tuple(_decimal(row, place) for place in _COLUMNS)
    return run, Curve(gpus=row.number("total_gpus", least=1), percent=percent)


def _decimal(row: csvfile.Row, column: str) -> float:
    try:
        value = float(row.text(column))
    except ValueError:
        value = -1.0
    if not 0 <= value <= accounts.LAST:
        raise row.error(column, f"must be a number from 0 to {accounts.LAST}")
    return value
