"""What measuring a job alone for a minute teaches, by the operator's rules. Pure.

| operator | here |
|---|---|
| a prediction of source Profile (`life/profiling.py`) | `profile` |
| `correction: Hybrid` (`life/profiling.py`) | `corrected` |
| what an attempt that ended leaves to later jobs of its graph in the namespace (`learning/`) | `Lessons` |

A profile is of the GPU models where the job was measured and no others: its utilization the measured mean, the bound 10
points more; SM and DRAM activity, which no agent sees, with these values as bounds; its memory the peak, the bound 20 %
more; 100 % of the threads. A correction changes the utilization on those models; all else is as predicted. An attempt
that was evicted, or a victim, leaves nothing; others leave what was measured, and the peak of memory and 10 % more.
What a minute shows is the truth (`jobs.Kind.real`): its noise is in the operator's margins.
"""

import functools
from typing import Final, NamedTuple

from cotenant_api import booking, prediction
from cotenant_api.names import GPUModel, GraphDigest, Namespace
from cotenant_simulator.engine import jobs

LEARNED_PERCENT: Final = 110
"""Of the largest peak; `learning/ledger.py` of the operator."""
_KEPT: Final = 4096
_NO_GRAPH: Final = GraphDigest("sha256:" + "0" * 64)
"""Of a job of which nothing was known."""

Models = frozenset[GPUModel]


class Learned(NamedTuple):
    """What is known of a kind in a namespace.

    Attributes:
        models: on which one was measured alone.
        memory_mib: what later ones book at least.
    """

    models: Models = frozenset()
    memory_mib: int = 0


NOTHING: Final = Learned()


class Lessons:
    """What attempts that ended have left, by namespace and kind."""

    def __init__(self) -> None:
        self._known: dict[tuple[Namespace, jobs.Kind], Learned] = {}

    def of(self, job: jobs.Job) -> Learned:
        """Return what is known when a job is submitted; of one without a graph there is nothing to know it by."""
        return self._known.get((job.namespace, job.kind), NOTHING)

    def ended(self, job: jobs.Job, *, measured: Models, peak_mib: int) -> None:
        """Learn from an attempt that has ended by itself."""
        if job.kind.predicted is None or job.gpus > 1:
            return
        before, learned_mib = self.of(job), -(-peak_mib * LEARNED_PERCENT // 100)
        self._known[job.namespace, job.kind] = Learned(before.models | measured, max(before.memory_mib, learned_mib))


@functools.lru_cache(maxsize=_KEPT)
def profile(kind: jobs.Kind, models: Models) -> prediction.Prediction:
    """Return the prediction of a job that was only measured, on these GPU models."""
    predicted = kind.predicted
    return prediction.Prediction(
        graph=_NO_GRAPH if predicted is None else predicted.graph,
        source=prediction.Source.PROFILE,
        model="measured",
        by_gpu={model: _profile(kind.real[model]) for model in sorted(models)},
    )


@functools.lru_cache(maxsize=_KEPT)
def corrected(kind: jobs.Kind, models: Models) -> prediction.Prediction | None:
    """Return what is predicted of a kind, with the utilization that was measured; None: nothing is predicted."""
    predicted = kind.predicted
    if predicted is None or not models & predicted.by_gpu.keys():
        return predicted
    by_gpu = {
        model: row.model_copy(update={"utilization": _utilization(kind.real[model])}) if model in models else row
        for model, row in predicted.by_gpu.items()
    }
    return predicted.model_copy(update={"by_gpu": by_gpu, "model": f"{predicted.model}+measured"})


def _profile(real: prediction.GPUPrediction) -> prediction.GPUPrediction:
    utilization = _utilization(real)
    return real.model_copy(
        update={
            "utilization": utilization,
            "sm_activity": utilization,
            "dram_activity": utilization,
            "memory_mib": booking.measured_memory(real.memory_mib.q50),
            "thread_percentage": 100,
        }
    )


def _utilization(real: prediction.GPUPrediction) -> prediction.PercentRange:
    return booking.measured_utilization(real.utilization.q50)
