"""The rates of whole models, fitted to measured steps: few values, the same on every GPU model.

With t_i the formula's time of step i and y_i the measured one, the values r minimise

    sum rho(log t_i(r) - log y_i) + (SPREAD / LOOSE)^2 sum (log r - log r_0)^2

rho is quadratic up to `SPREAD` and linear beyond, so that a step that ran under other conditions than its graph says
bends nothing; r_0 is what the formula assumes, and stays where nothing was measured. The cache is not fitted: on two
GPU models it would take the blame for all else that sets them apart.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from cotenant_api.graph import Graph
from cotenant_predictor import devices
from cotenant_predictor.datasets.timm import Run
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import host, rates, roofline
from cotenant_predictor.jobs.rates import Rates
from cotenant_predictor.jobs.roofline import Devices, KernelTimes, Operators
from cotenant_predictor.kernels.model import KernelModel

Array: TypeAlias = npt.NDArray[Any]

CACHE: Final = 1.0
"""Assumption: what was written last is in all of the cache."""
PRIOR: Final = dataclasses.replace(rates.FORMULA_1, convolution=1.0, cache=CACHE)
FITTED: Final = tuple(name for name in rates.NAMES if name != "cache")
SPREAD: Final = 0.12
"""Of the logarithm of a time, where graph and conditions are right."""
LOOSE: Final = 1.0
"""Of the logarithm of a rate around what is assumed."""
MOST_CALLS: Final = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class Steps:
    """Steps with everything that does not depend on the rates; of one GPU model in each part."""

    parts: tuple["_Part", ...]
    count: int

    @classmethod
    def of(cls, graphs: Sequence[Graph], gpus: Sequence[Device], kernels: KernelModel | None) -> Self:
        """One step of each graph on the GPU model at the same position."""
        members: dict[str, list[int]] = collections.defaultdict(list)
        for index, gpu in enumerate(gpus):
            members[str(gpu.name)].append(index)
        parts = (_part([graphs[i] for i in found], gpus[found[0]], found, kernels) for found in members.values())
        return cls(parts=tuple(parts), count=len(graphs))

    def seconds(self, values: Rates) -> Array:
        """Return the formula's time of every step, shape (n_steps,)."""
        result = np.empty(self.count)
        for part in self.parts:
            result[part.steps] = part.seconds(values)
        return result


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    """The operators of several steps in a row, on one GPU model."""

    steps: Array
    """Positions of the steps, shape (n,)."""
    step_of: Array
    """Of each operator, 0..n-1."""
    launch: Array
    operators: Operators
    gpus: Devices
    kernels: KernelTimes | None

    def seconds(self, values: Rates) -> Array:
        rated = dataclasses.replace(self.operators.rated, rates=values)
        busy = roofline.busy(
            dataclasses.replace(self.operators, rated=rated),
            self.gpus,
            sm_share=np.ones_like(self.gpus.sm_count),
            coefficients=constants.FORMULA_1,
            kernels=self._kernels_at(values),
        )
        return np.maximum(np.bincount(self.step_of, busy.seconds[0], minlength=len(self.steps)), self.launch)

    def _kernels_at(self, values: Rates) -> KernelTimes | None:
        """From the times at `PRIOR`, in proportion: all but the second kernel of a split reduction is."""
        if self.kernels is None:
            return None
        slower = self._arithmetic(PRIOR) / self._arithmetic(values)
        return dataclasses.replace(
            self.kernels, tiles=self.kernels.tiles * slower, compute=self.kernels.compute * slower
        )

    def _arithmetic(self, values: Rates) -> Array:
        """Shares of the rate of those operators whose kernels are known."""
        tensor = roofline.on_tensor_cores(self.operators, self.gpus)
        index = slice(None) if self.kernels is None else self.kernels.index
        share: Array = dataclasses.replace(self.operators.rated, rates=values).arithmetic(tensor)[:, index]
        return share


def steps_of(runs: Sequence[Run], kernels: KernelModel | None) -> Steps:
    """Return the steps of a set of whole models."""
    known = devices.load()
    return Steps.of([run.graph for run in runs], [known[run.row.gpu_model] for run in runs], kernels)


def seconds_of(runs: Sequence[Run]) -> Array:
    """Return what was measured of them, shape (n_runs,)."""
    return np.array([run.row.step_seconds for run in runs])


def fitted(steps: Steps, seconds: Array, *, keep: Array | None = None) -> Rates:
    """Return the rates that measured steps teach.

    Args:
        steps: what ran.
        seconds: measured, shape (n_steps,).
        keep: which steps are learned from, shape (n_steps,); none: all.
    """
    chosen = np.ones(steps.count, dtype=np.bool_) if keep is None else keep
    measured, start = np.log(seconds)[chosen], _logs(PRIOR)

    def errors(logs: Array) -> Array:
        off = np.log(steps.seconds(_rates(logs)))[chosen] - measured
        return np.concatenate([off / SPREAD, (logs - start) / LOOSE])

    found = least_squares(errors, start, loss="soft_l1", max_nfev=MOST_CALLS, xtol=1e-4, ftol=1e-5)
    return _rates(found.x)


def _logs(values: Rates) -> Array:
    return np.log([getattr(values, name) for name in FITTED])


def _rates(logs: Array) -> Rates:
    named = dict(zip(FITTED, np.exp(logs).tolist(), strict=True))
    return dataclasses.replace(PRIOR, **named)


def _part(graphs: Sequence[Graph], gpu: Device, positions: Sequence[int], kernels: KernelModel | None) -> _Part:
    gpus = roofline.devices_of([gpu])
    prior = dataclasses.replace(constants.FORMULA_1, rates=PRIOR)
    found = [roofline.operators_of(graph, prior) for graph in graphs]
    times = [roofline.kernel_times(operators, gpus, kernels) for operators in found]
    starts = np.cumsum([0, *(len(operators.repeat) for operators in found)])
    return _Part(
        steps=np.array(positions),
        step_of=np.repeat(np.arange(len(found)), np.diff(starts)),
        launch=np.array(
            [host.launch_seconds(g, o, constants.FORMULA_1) for g, o in zip(graphs, found, strict=True)],
        ),
        operators=_operators(found),
        gpus=gpus,
        kernels=_times([(time, start) for time, start in zip(times, starts, strict=False) if time is not None]),
    )


def _operators(found: Sequence[Operators]) -> Operators:
    """All operators in a row; families are left out: their times are known already."""
    fields = [field.name for field in dataclasses.fields(Operators) if field.name not in {"rated", "families"}]
    columns: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in found]) for name in fields}
    parts = ("compute", "memory", "further", "layout")
    rated = {name: np.concatenate([getattr(one.rated, name) for one in found]) for name in parts}
    return Operators(**columns, rated=rates.Rated(rates=PRIOR, **rated))


def _times(found: Sequence[tuple[KernelTimes, int]]) -> KernelTimes | None:
    if not found:
        return None
    names = [field.name for field in dataclasses.fields(KernelTimes) if field.name != "index"]
    columns = {name: np.concatenate([getattr(time, name) for time, _ in found], axis=-1) for name in names}
    return KernelTimes(index=np.concatenate([time.index + start for time, start in found]), **columns)
