"""How far off the peak memory of whole jobs is, as CARMA measured it, beside the authors' estimator.

    constant       the mean of the programs that are not scored
    fake-tensors   the authors' estimate, as published: one forward and backward pass, and nothing beside it
    fake-tensors+  the same with a context and a slack fitted to the programs that are not scored
    cotenant       the formula; its constants fitted to other families of models, here and in timm's brackets
    shipped        the formula with the constants that ship, which were fitted to these jobs, too

`constant` and `fake-tensors+` are fitted by least squares of relative errors: no value below 0. Programs of one family
of models, at whatever batch size, are held out together.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from cotenant_predictor import devices
from cotenant_predictor.datasets import carma
from cotenant_predictor.datasets.carma import Run
from cotenant_predictor.evaluation import metrics, scores, splits
from cotenant_predictor.evaluation.report import Row, scored
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import memory
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.training import memory as training

Array: TypeAlias = npt.NDArray[Any]

CHOSEN: Final = "chosen-on-these"
"""The constants that ship were fitted to these jobs, too: no blind test."""


def rows(*, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Scores with each family held out, and of the constants that ship."""
    runs = carma.load()
    progress(f"{len(runs)} jobs whose memory was measured")
    families = _families(runs)
    row = Row(target=scores.MEMORY, split=splits.LEAVE_FAMILY_OUT, model="", metric="mape", value=0.0, n=0)
    found = _baselines(row, runs)
    without = constants_without(families)
    found += _bounded(dataclasses.replace(row, model="cotenant"), runs, [without[family] for family in families])
    shipped = dataclasses.replace(row, split=CHOSEN, model="shipped")
    return [*found, *_bounded(shipped, runs, [constants.FORMULA_1] * len(runs))]


def _baselines(row: Row, runs: Sequence[Run]) -> list[Row]:
    """Those of the estimator are of the jobs of which it said something."""
    told = [run for run in runs if run.estimated_mib is not None]
    estimates = np.array([run.estimated_mib for run in told], dtype=np.float64)
    learned: dict[str, tuple[Sequence[Run], Array]] = {
        "constant": (runs, np.ones((len(runs), 1))),
        "fake-tensors+": (told, np.column_stack([np.ones(len(told)), estimates])),
    }
    predicted: dict[str, tuple[Sequence[Run], Array]] = {"fake-tensors": (told, estimates)}
    for name, (members, columns) in learned.items():
        predicted[name] = (members, _held_out(columns, _measured(members), _families(members)))
    return [
        scored(dataclasses.replace(row, model=name), metrics.mape, (_measured(members), values), _families(members))
        for name, (members, values) in predicted.items()
    ]


def _measured(runs: Sequence[Run]) -> Array:
    return np.array([run.memory_mib for run in runs])


def _families(runs: Sequence[Run]) -> list[str]:
    return [training.family_of(run.program) for run in runs]


def constants_without(families: Sequence[str]) -> dict[str, Coefficients]:
    """Return the formula's constants, fitted to all whose memory is known but one family; of each."""
    return {family: _without(family) for family in dict.fromkeys(families)}


@functools.cache
def _without(family: str) -> Coefficients:
    known = training.load()
    return training.fitted(known.where(known.families != family))


def _held_out(columns: Array, measured: Array, groups: Sequence[str]) -> Array:
    """Return what is said of each row by values that were fitted without its group."""
    found, labels = np.empty_like(measured), np.array(groups)
    for group in dict.fromkeys(groups):
        mine = labels == group
        weights, _ = nnls(columns[~mine] / measured[~mine, None], np.ones(int((~mine).sum())))
        found[mine] = columns[mine] @ weights
    return found


def _bounded(row: Row, runs: Sequence[Run], used: Sequence[Coefficients]) -> Iterator[Row]:
    """Of the median and of the upper bound, each job by its constants."""
    families, measured = _families(runs), _measured(runs)
    device = devices.load()[carma.GPU_MODEL]
    alive = [training.alive_of(run.graph) for run in runs]
    needs = [memory.needed(one, device, coefficients) for one, coefficients in zip(alive, used, strict=True)]
    median, upper = (np.array([getattr(need, name) for need in needs], dtype=np.float64) for name in ("q50", "upper"))
    for metric, statistic, values in (
        ("mape", metrics.mape, median),
        ("underAtSafeBound", metrics.under_share, upper),
        ("overReservationFactor", metrics.over_reservation_factor, upper),
    ):
        yield scored(dataclasses.replace(row, metric=metric), statistic, (measured, values), families)
