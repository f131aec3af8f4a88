"""Ways to book a job: what is asked for it before it runs, and what follows from what was seen. Pure.

| way | a job's first attempt books | once it has been alone on a GPU for a minute |
|---|---|---|
| `Slot` | a whole GPU | nothing follows |
| `Predicted` | what is predicted, with its margin | nothing follows |
| `Median` | the median of what is predicted | nothing follows |
| `Reactive` | a whole GPU | it is ended, and its next attempt books what was measured |
| `Hybrid` | what is predicted, with its margin | it goes on; later jobs of its kind book what was measured |

`Reactive` and `Hybrid` are the operator's `onMissingPrediction: Profile` and `correction: Hybrid`, with its margins.
After an attempt without enough memory: a DLJob's default growth, then a whole GPU (`grown`).
"""

import enum
import math
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from cotenant_api import booking, dljob, gpunode, names, prediction
from cotenant_extender.packing import policies
from cotenant_simulator.engine import jobs

MEASURE_SECONDS: Final = float(gpunode.MEASURED_SECONDS)
"""As the reactive systems of the comparison measure, and as the operator does."""
_OOM_POLICY: Final = dljob.OOMPolicy()


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
        measured: what was seen of it, or of its kind, alone.
    """

    out_of_memory: int = 0
    booked_mib: int = 0
    measured: prediction.Prediction | None = None


NOTHING: Final = Past()


class Then(enum.Enum):
    """What follows when a job has been alone on a GPU for `MEASURE_SECONDS`."""

    NOTHING = enum.auto()
    RESTART = enum.auto()
    """It is ended, with what it had done, and comes again."""
    REMEMBER = enum.auto()
    """It goes on; jobs of its kind that come to be booked later profit."""


class Way(Protocol):
    """One way.

    Attributes:
        name: as tables show it.
        then: what follows a measurement.
    """

    name: str
    then: Then

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """What is asked for a job on one GPU."""
        ...


class Slot:
    """A whole GPU for every job, as Kubernetes gives."""

    name, then = "Slot", Then.NOTHING

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        del job, past, policy
        return WHOLE


class Predicted:
    """What is predicted before it runs."""

    name, then = "Predicted", Then.NOTHING

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        return grown(by_prediction(past.measured or job.kind.predicted, policy), past)


class Median:
    """The median of what is predicted, without a margin above it, as Horus books."""

    name, then = "Median", Then.NOTHING

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        predicted = job.kind.predicted
        return grown(by_prediction(None if predicted is None else _without_margin(predicted), policy), past)


class Hybrid(Predicted):
    """What is predicted, until it has been measured."""

    name, then = "Hybrid", Then.REMEMBER


class Reactive:
    """A whole GPU until it has been measured."""

    name, then = "Reactive", Then.RESTART

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking:
        """See `Way`."""
        del job
        return grown(by_prediction(past.measured, policy), past)


WHOLE: Final = Booking(names.HUNDREDTHS, None, None)


def by_prediction(predicted: prediction.Prediction | None, policy: policies.InForce) -> Booking:
    """Its cost on the GPU model where it is smallest, as the operator asks; a whole GPU where nothing is predicted."""
    if predicted is None:
        return WHOLE
    share = booking.requested_share(predicted.by_gpu, policy.packing, source=predicted.source)
    return Booking(share, predicted, None)


def grown(asked: Booking, past: Past) -> Booking:
    """With more memory than the last attempt had, or a whole GPU after too many."""
    if not past.out_of_memory:
        return asked
    if past.out_of_memory > _OOM_POLICY.max_resubmissions:
        return WHOLE
    return asked._replace(memory_mib=math.ceil(past.booked_mib * _OOM_POLICY.growth_percent / 100))


def seen(job: jobs.Job) -> prediction.Prediction | None:
    """What a minute alone shows, with the operator's margins; None: no graph of the job is known."""
    predicted = job.kind.predicted
    if predicted is None:
        return None
    by_gpu = {model: _measured(real) for model, real in job.kind.real.items()}
    return predicted.model_copy(update={"by_gpu": by_gpu, "source": prediction.Source.PROFILE})


def _measured(real: prediction.GPUPrediction) -> prediction.GPUPrediction:
    return real.model_copy(
        update={
            "utilization": booking.measured_utilization(real.utilization.q50),
            "sm_activity": booking.measured_utilization(real.sm_activity.q50),
            "memory_mib": booking.measured_memory(real.memory_mib.q50),
        }
    )


def _without_margin(predicted: prediction.Prediction) -> prediction.Prediction:
    by_gpu = {model: _median(found) for model, found in predicted.by_gpu.items()}
    return predicted.model_copy(update={"by_gpu": by_gpu})


def _median(found: prediction.GPUPrediction) -> prediction.GPUPrediction:
    """Of both figures that a policy may book by."""
    utilization, activity = found.utilization.q50, found.sm_activity.q50
    return found.model_copy(
        update={
            "utilization": prediction.PercentRange(q50=utilization, upper=utilization),
            "sm_activity": prediction.PercentRange(q50=activity, upper=activity),
        }
    )
