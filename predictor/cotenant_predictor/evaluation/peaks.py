"""How far off the peak memory of whole jobs is, as CARMA measured it, beside the authors' estimator.

    constant       the mean of the programs that are not scored
    fake-tensors   the authors' estimate, as published: one forward and backward pass, and nothing beside it
    fake-tensors+  the same with a context and a slack fitted to the programs that are not scored
    cotenant       the formula; context, slack and workspace fitted to the programs that are not scored
    shipped        the formula with the constants that ship, which were chosen on these very jobs

Fitted is by least squares of relative errors: three values, none below 0. Programs at several batch sizes, and those
that run the same model, are one group.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from cotenant_api.graph import Graph
from cotenant_predictor import devices
from cotenant_predictor.datasets import carma
from cotenant_predictor.evaluation import metrics, scores, splits
from cotenant_predictor.evaluation.report import Row, scored
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import memory, roofline
from cotenant_predictor.jobs.memory import Alive

Array: TypeAlias = npt.NDArray[Any]

CHOSEN: Final = "chosen-on-these"
"""The constants that ship were chosen by looking at these jobs: no blind test."""
SAME: Final = {"resnet50_cifar100": "efficientNet_cifar100"}
"""Programs that run another's model."""


def rows(*, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Scores with each group held out, and of the constants that ship."""
    runs = carma.load()
    progress(f"{len(runs)} jobs whose memory was measured")
    groups = [SAME.get(run.program, run.program) for run in runs]
    measured = np.array([run.memory_mib for run in runs])
    alive = [alive_of(run.graph) for run in runs]
    parts = {
        "constant": np.ones((len(runs), 1)),
        "fake-tensors+": np.array([(1.0, run.estimated_mib) for run in runs]),
        "cotenant": np.array([_parts(one) for one in alive]),
    }
    predicted = {"fake-tensors": np.array([run.estimated_mib for run in runs])}
    predicted |= {name: _held_out(columns, measured, groups) for name, columns in parts.items()}
    found = [
        _scored(measured, values, groups, model=name, split=splits.LEAVE_GROUP_OUT)
        for name, values in predicted.items()
    ]
    return [*found, *_shipped(alive, measured, groups)]


def alive_of(graph: Graph) -> Alive:
    """Say what a job holds at its peak, by the constants that ship."""
    return memory.alive_of(graph, roofline.operators_of(graph, constants.FORMULA_1), constants.FORMULA_1)


def _parts(alive: Alive) -> tuple[float, float, float]:
    """What the formula adds up, in MiB: the context, what is alive, and what the largest convolution moves."""
    moved = alive.workspace / constants.FORMULA_1.convolution_workspace
    return 1.0, (alive.exact + alive.estimated) / memory.MIB, moved / memory.MIB


def _held_out(columns: Array, measured: Array, groups: Sequence[str]) -> Array:
    """What is said of each row by values that were fitted without its group."""
    found, labels = np.empty_like(measured), np.array(groups)
    for group in dict.fromkeys(groups):
        mine = labels == group
        weights, _ = nnls(columns[~mine] / measured[~mine, None], np.ones(int((~mine).sum())))
        found[mine] = columns[mine] @ weights
    return found


def _shipped(alive: Sequence[Alive], measured: Array, groups: Sequence[str]) -> Iterator[Row]:
    device = devices.load()[carma.GPU_MODEL]
    needs = [memory.needed(one, device, constants.FORMULA_1) for one in alive]
    median, upper = (np.array([getattr(need, name) for need in needs], dtype=np.float64) for name in ("q50", "upper"))
    yield _scored(measured, median, groups, model="shipped", split=CHOSEN)
    for metric, statistic in (
        ("underAtSafeBound", metrics.under_share),
        ("overReservationFactor", metrics.over_reservation_factor),
    ):
        row = Row(target=scores.MEMORY, split=CHOSEN, model="shipped", metric=metric, value=0.0, n=0)
        yield scored(row, statistic, (measured, upper), groups)


def _scored(measured: Array, predicted: Array, groups: Sequence[str], *, model: str, split: str) -> Row:
    row = Row(target=scores.MEMORY, split=split, model=model, metric="mape", value=0.0, n=0)
    return scored(row, metrics.mape, (measured, predicted), groups)
