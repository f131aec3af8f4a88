"""Constants of the memory formula, fitted to the memory of whole jobs that others measured.

`python -m cotenant_predictor.training.memory` prints what the formula has beside what the data say. Two kinds of data:

    peaks       what nvidia-smi showed at most, of CARMA's jobs: |log(predicted / measured)|
    brackets    of timm's models a batch that ran and the next larger one, which did not fit:
                max(0, log(ran / held), log(held / did not fit)), which is 0 where both are right

Their means, and those of training and of inference, count alike: what is odd in one job counts no more than its size.
The search goes to the best of all neighbours on the constants' grids, diagonal ones too, until none is better.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.graph import Graph
from cotenant_predictor import devices
from cotenant_predictor.datasets import carma, timm
from cotenant_predictor.jobs import memory, roofline
from cotenant_predictor.jobs.coefficients import FORMULA_1, Coefficients
from cotenant_predictor.jobs.memory import Alive

Array: TypeAlias = npt.NDArray[Any]

GRIDS: Final[Mapping[str, Array]] = MappingProxyType(
    {
        "context_mib": np.arange(0, 251, 25),
        "allocator_slack": np.arange(0, 21) / 100,
        "idle_block_share": np.arange(0, 13) / 10,
        "convolution_workspace": np.arange(2, 21) / 10,
        "half_convolution_workspace": np.arange(0, 13) / 20,
    }
)
"""The values that a constant may take; the search begins in the middle."""
_FAMILIES: Final = MappingProxyType(
    {
        "BERT_base_on_wiki": "bert",
        "BERT_large_on_wiki": "bert",
        "mobilenet": "mobilenetv",
        "mobilenet_cifar100": "mobilenetv",
        "resnet50_cifar100": "efficientnet",
    }
)
"""Of CARMA's programs whose names do not say their models' families as timm's tables do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Jobs whose memory is known; all of shape (n,)."""

    kinds: Array
    """What is averaged by itself."""
    families: Array
    alive: Alive
    """Its values are arrays."""
    more: Alive
    """The same where something is known not to fit: of the next larger batch."""
    sm_count: Array
    most: Array
    """MiB: the job needed no more than this."""
    least: Array
    """MiB: `more` needed more than this."""

    def where(self, keep: Array) -> "Rows":
        """Return some of them."""
        values = {name: value[keep] for name, value in vars(self).items() if not isinstance(value, Alive)}
        return Rows(**values, alive=_picked(self.alive, keep), more=_picked(self.more, keep))


def alive_of(graph: Graph) -> Alive:
    """Return what a job holds at its peak."""
    return memory.alive_of(graph, roofline.operators_of(graph, FORMULA_1))


def family_of(program: str) -> str:
    """Return the family that timm's tables would give to the model of one of CARMA's programs."""
    return _FAMILIES.get(program, program.removesuffix("_cifar100").lower().rstrip("0123456789"))


@functools.cache
def load() -> Rows:
    """All that ship."""
    known = devices.load()
    found = [
        (
            f"brackets {run.graph.mode}",
            run.row.family,
            alive := alive_of(run.graph),
            alive.at(run.fits_until / run.row.batch_size),
            known[run.row.gpu_model].sm_count,
            float(known[run.row.gpu_model].memory_mib),
            float(known[run.row.gpu_model].memory_mib),
        )
        for run in timm.load()
        if run.fits_until is not None and not run.row.compiled
    ]
    for job in carma.load():
        alive = alive_of(job.graph)
        sms = known[carma.GPU_MODEL].sm_count
        found.append(("peaks", family_of(job.program), alive, alive, sms, job.memory_mib, job.memory_mib))
    kinds, families, lower, upper, sm_count, most, least = zip(*found, strict=True)
    return Rows(
        kinds=np.array(kinds),
        families=np.array(families),
        alive=stacked(lower),
        more=stacked(upper),
        sm_count=np.array(sm_count),
        most=np.array(most),
        least=np.array(least),
    )


def stacked(alive: Sequence[Alive]) -> Alive:
    """One whose values are arrays of shape (n,).

    All must be of graphs whose references were followed.
    """
    names = [field.name for field in dataclasses.fields(Alive)]
    values: dict[str, Any] = {name: np.array([getattr(one, name) for one in alive]) for name in names}
    return Alive(**values)


def fitted(rows: Rows) -> Coefficients:
    """Return the formula with the constants that say most of `rows`."""
    kinds = [np.flatnonzero(rows.kinds == kind) for kind in np.unique(rows.kinds)]
    loss = functools.cache(lambda place: _loss(rows, kinds, _at(place)))
    best = tuple(len(grid) // 2 for grid in GRIDS.values())
    while True:
        found = min(_neighbours(best), key=loss)
        if loss(found) >= loss(best):
            return _at(best)
        best = found


def _neighbours(place: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    ranges = [
        range(max(0, here - 1), min(len(grid), here + 2)) for here, grid in zip(place, GRIDS.values(), strict=True)
    ]
    return itertools.product(*ranges)


def _at(place: tuple[int, ...]) -> Coefficients:
    values: dict[str, Any] = {name: float(grid[here]) for here, (name, grid) in zip(place, GRIDS.items(), strict=True)}
    return dataclasses.replace(FORMULA_1, **values)


def _loss(rows: Rows, kinds: Sequence[Array], coefficients: Coefficients) -> float:
    """Return how far off the formula is; `kinds`: positions of the rows of each kind."""
    over = np.log(memory.median_mib(rows.alive, rows.sm_count, coefficients) / rows.most)
    under = np.log(rows.least / memory.median_mib(rows.more, rows.sm_count, coefficients))
    errors = np.maximum(0.0, np.maximum(over, under))
    return float(sum(errors[of_kind].mean() for of_kind in kinds))


def _picked(alive: Alive, keep: Array) -> Alive:
    return dataclasses.replace(alive, **{name: value[keep] for name, value in vars(alive).items()})


if __name__ == "__main__":
    said = fitted(load())
    for name in GRIDS:
        print(f"{name:28} formula {getattr(FORMULA_1, name):.4g}  fitted {getattr(said, name):.4g}")
