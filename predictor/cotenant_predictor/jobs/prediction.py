"""What a job will need of each GPU model: the formula, corrected where measurements exist. Pure functions.

Without a correction for a target its upper bound is the median times a constant that `coefficients` states, and
nothing is claimed of that bound's coverage.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from cotenant_api.graph import Graph
from cotenant_api.prediction import GPUPrediction, MemoryRange, PercentRange, Prediction, Source
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import features
from cotenant_predictor.jobs import step as steps
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.guarded import Guarded
from cotenant_predictor.jobs.roofline import Array
from cotenant_predictor.jobs.step import Step
from cotenant_predictor.kernels.model import KernelModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What predictions of single jobs rest on."""

    name: str
    """What a prediction says of its origin: `formula-1`, or a model as `name@sha256:..`."""
    coefficients: Coefficients = constants.FORMULA_1
    kernels: KernelModel | None = None
    """Measured kernels; without them what `coefficients` assume."""
    residuals: Mapping[str, Guarded] = dataclasses.field(default_factory=dict)
    """Corrections by target, of `features.TARGETS`."""

    @property
    def source(self) -> Source:
        """Formula, where nothing was learned."""
        return Source.MODEL if self.residuals or self.kernels is not None else Source.FORMULA


FORMULA: Final = Knowledge(name=constants.FORMULA_1.name)
"""Nothing learned: the graph and data sheets alone."""


def predict(
    graph: Graph, gpus: Iterable[Device], *, cpu_cores: float | None = None, knowledge: Knowledge = FORMULA
) -> Prediction:
    """Return what `graph` will need on each of `gpus`.

    Args:
        graph: one step of the job.
        gpus: the GPU models, at least one (`devices.select`).
        cpu_cores: cores that the job has for loading its input; unknown: as many as it has workers.
        knowledge: what the prediction rests on.

    Raises:
        InvalidInputError: no GPU model, no CPU core, or amounts from which no finite time follows.
    """
    step = step_of(graph, gpus, cpu_cores=cpu_cores, knowledge=knowledge)
    corrected = _Corrected(step, knowledge)
    by_gpu = {device.name: corrected.on(index) for index, device in enumerate(step.devices)}
    digest = graph.digest or graph.computed_digest()
    return Prediction(graph=digest, source=knowledge.source, model=knowledge.name, by_gpu=by_gpu)


def step_of(
    graph: Graph, gpus: Iterable[Device], *, cpu_cores: float | None = None, knowledge: Knowledge = FORMULA
) -> Step:
    """Return the formula's step with this knowledge of kernels; arguments and errors as of `predict`."""
    return steps.of(graph, gpus, cpu_cores=cpu_cores, coefficients=knowledge.coefficients, kernels=knowledge.kernels)


class _Corrected:
    """Medians and bounds of every target on every device."""

    def __init__(self, step: Step, knowledge: Knowledge) -> None:
        self._step = step
        self._median = features.estimates(step)
        self._upper = features.bounds(step, knowledge.coefficients)
        self._outside = step.outside
        if knowledge.residuals:
            self._correct(knowledge.residuals)

    def on(self, index: int) -> GPUPrediction:
        """Return the prediction for the device at `index`."""
        seconds = self._median["stepMilliseconds"][index] / 1e3
        device = self._step.devices[index]
        memory = MemoryRange(q50=self._mib(self._median, index), upper=self._mib(self._upper, index))
        return GPUPrediction(
            utilization=self._range("utilization", index),
            sm_activity=self._range("smActivity", index),
            dram_activity=self._range("dramActivity", index),
            memory_utilization=self._range("memoryUtilization", index),
            memory_mib=memory,
            step_milliseconds=round(1e3 * float(seconds), 6),
            step_joules=round(float(self._median["powerWatts"][index] * seconds / self._step.duty[index]), 6),
            thread_percentage=min(100, max(1, math.ceil(round(float(self._median["threadPercentage"][index]), 6)))),
            regime=self._step.regime(index),
            out_of_domain=bool(self._outside[index]) or memory.upper > device.memory_mib,
        )

    def _correct(self, residuals: Mapping[str, Guarded]) -> None:
        rows = features.rows_of(self._step)
        for target, corrections in residuals.items():
            said = corrections.of(rows, median=self._median[target], upper=self._upper[target])
            self._median[target], self._upper[target] = said.median, said.upper
            self._outside = self._outside | said.outside

    def _range(self, target: str, index: int) -> PercentRange:
        median = min(100.0, float(self._median[target][index]))
        upper = min(100.0, float(self._upper[target][index]))
        return PercentRange(q50=round(median, 2), upper=round(max(median, upper), 2))

    def _mib(self, values: Mapping[str, Array], index: int) -> int:
        return math.ceil(float(np.maximum(1.0, values["memoryPeakMiB"][index])))
