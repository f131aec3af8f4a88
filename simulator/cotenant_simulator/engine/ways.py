"""Ways to book a job: what is asked for it before it runs, and what follows from what was seen. Pure.

| way | before its first attempt | after |
|---|---|---|
| `Slot` | a whole GPU | the same |
| `Predicted` | what is predicted | the same |
| `Median` | the median of what is predicted | the same |
| `Reactive` | a whole GPU, until it was measured alone for a minute | what was measured, in place |
| `Hybrid` | what is predicted | what was measured, if it happened to be alone for a minute |

After an attempt without enough memory: the policy's growth, then a whole GPU (`grown`).
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from cotenant_api import booking, names, prediction
from cotenant_extender.packing import policies
from cotenant_simulator.engine import jobs

MEASURE_SECONDS: Final = 60.0
"""As the reactive systems of the comparison measure, and as the operator does."""
GROWTH: Final = 1.5
MOST_RESUBMISSIONS: Final = 3
"""Defaults of a DLJob."""


class Booking(NamedTuple):
    """What is asked for.

    Attributes:
        share: hundredths of a GPU, or n x 100.
        predicted: by which it is packed; None: by its share alone.
        memory_mib: memory in MiB; None: as predicted, or by its share.
    """

    share: int
    predicted: prediction.Prediction | None
    memory_mib: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of a job when it is booked.

    Attributes:
        out_of_memory: how many attempts ended so.
        booked_mib: memory that the last of them had booked.
        measured: what was seen of it alone, as a prediction document.
    """

    out_of_memory: int = 0
    booked_mib: int = 0
    measured: prediction.Prediction | None = None


NOTHING: Final = Past()


class Way(Protocol):
    """One way.

    Attributes:
        name: as tables show it.
        measures: whether a job that was alone for `MEASURE_SECONDS` is booked by what was seen, in place.
    """

    name: str
    measures: bool

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """What is asked for a job on one GPU."""
        ...


class Slot:
    """A whole GPU for every job, as Kubernetes gives."""

    name, measures = "Slot", False

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        del job, past, policy
        return WHOLE


class Predicted:
    """What is predicted before it runs."""

    name, measures = "Predicted", False

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        return grown(by_prediction(past.measured or job.kind.predicted, policy), past)


class Median:
    """The median of what is predicted, without a margin above it, as Horus books."""

    name, measures = "Median", False

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        predicted = job.kind.predicted
        return grown(by_prediction(None if predicted is None else _without_margin(predicted), policy), past)


class Hybrid(Predicted):
    """What is predicted, until it has been measured."""

    name, measures = "Hybrid", True


class Reactive:
    """A whole GPU until it has been measured."""

    name, measures = "Reactive", True

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        del job
        return grown(by_prediction(past.measured, policy), past)


WHOLE: Final = Booking(names.HUNDREDTHS, None, None)


def by_prediction(predicted: prediction.Prediction | None, policy: policies.InForce) -> Booking:
    """Its cost on the GPU model where it is smallest, as the operator asks; a whole GPU where nothing is predicted."""
    if predicted is None:
        return WHOLE
    return Booking(booking.requested_share(predicted.by_gpu, policy.packing), predicted, None)


def grown(asked: Booking, past: Past) -> Booking:
    """With more memory than the last attempt had, or a whole GPU after too many."""
    if not past.out_of_memory:
        return asked
    if past.out_of_memory > MOST_RESUBMISSIONS:
        return WHOLE
    return asked._replace(memory_mib=math.ceil(past.booked_mib * GROWTH))


def seen(job: jobs.Job) -> prediction.Prediction | None:
    """What a measurement of the job alone shows: the truth, without a margin above it."""
    predicted = job.kind.predicted
    if predicted is None:
        return None
    by_gpu = {model: _exactly(real) for model, real in job.kind.real.items()}
    return predicted.model_copy(update={"by_gpu": by_gpu, "source": prediction.Source.PROFILE})


def _without_margin(predicted: prediction.Prediction) -> prediction.Prediction:
    by_gpu = {model: _exactly(found) for model, found in predicted.by_gpu.items()}
    return predicted.model_copy(update={"by_gpu": by_gpu})


def _exactly(real: prediction.GPUPrediction) -> prediction.GPUPrediction:
    exact = {
        name: prediction.PercentRange(q50=found.q50, upper=found.q50)
        for name in ("utilization", "sm_activity", "dram_activity")
        for found in (getattr(real, name),)
    }
    memory = prediction.MemoryRange(q50=real.memory_mib.q50, upper=real.memory_mib.q50)
    return real.model_copy(update={**exact, "memory_mib": memory})
