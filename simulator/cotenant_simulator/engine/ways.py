"""Ways to book a job: what is asked for it before it runs, and what follows from what was seen. Pure.

| way | a job's first attempt books | once it has been alone on a GPU for a minute |
|---|---|---|
| `Slot` | a whole GPU | nothing follows |
| `Predicted` | what is predicted, with its margin; without a prediction, as the policy says | as the policy says |
| `Median` | the median of what is predicted | nothing follows |
| `Reactive` | a whole GPU | it is ended, and its next attempt books what was measured |
| `Hybrid` | what is predicted, with its margin | it goes on; later jobs of its kind book what was measured |

`Predicted` is the operator: `queue.onMissingPrediction` (Exclusive, Hold, Profile), `correction` and `placement:
Reactive` of the PackingPolicy do what they do there (`life/granting.py`, `life/profiling.py`), and jobs book the
largest memory that jobs of their kind have used (`measuring`). `Hybrid` is the same under `correction: Hybrid`.
`Reactive` and `Median` are other systems, which learn from no other job. Jobs of several GPUs a pod get whole ones.
After an attempt without enough memory: `growing`.
"""

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from cotenant_api import booking, gpunode, names, packingpolicy, prediction
from cotenant_api.names import GPUModel
from cotenant_extender.packing import policies
from cotenant_simulator.engine import growing, jobs, measuring

MEASURE_SECONDS: Final = float(gpunode.MEASURED_SECONDS)
"""As the reactive systems of the comparison measure, and as the operator does."""
HELD: Final = "PredictionMissing: held by PackingPolicy queue.onMissingPrediction: Hold until there is a prediction"
"""Why a job of which nothing is predicted is never submitted; the operator's words."""
_ANY: Final = frozenset[GPUModel]()


class Booking(NamedTuple):
    """What is asked for each pod.

    Attributes:
        share: hundredths of a GPU, or n x 100.
        predicted: by which it is packed; None: by its share alone.
        memory_mib: memory in MiB; None: as predicted, or by its share.
        gpu_models: the only ones that it may use; empty: those that its job may use.
    """

    share: int
    predicted: prediction.Prediction | None
    memory_mib: int | None
    gpu_models: frozenset[GPUModel] = _ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of a job when it is booked.

    Attributes:
        measured: GPU models on which the job itself was alone for a minute.
        learned: what jobs of its kind have left.
        grown: what it showed to need when it ran out of memory.
        usable: memory in MiB of each GPU model that it may use.
    """

    measured: measuring.Models = frozenset()
    learned: measuring.Learned = measuring.NOTHING
    grown: growing.Grown = growing.NOTHING
    usable: Mapping[GPUModel, int] = field(default_factory=dict)


NOTHING: Final = Past()


class Then(enum.Enum):
    """What follows when a job has been alone on its GPUs for `MEASURE_SECONDS`."""

    NOTHING = enum.auto()
    RESTART = enum.auto()
    """It is ended, and comes again."""
    REMEMBER = enum.auto()
    """It goes on; it, if it has to come again, and jobs of its kind that come after its end book what was measured."""


class Way(Protocol):
    """One way.

    Attributes:
        name: as tables show it.
    """

    name: str

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking | None:
        """Return what is asked for each pod of a job; None: it is held."""
        ...

    def measured(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Then:
        """Return what follows from a minute alone, of an attempt that was booked by this past."""
        ...


class Slot:
    """A whole GPU for every job, as Kubernetes gives."""

    name = "Slot"

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking | None:
        """See `Way`."""
        del policy
        return whole(job, past)

    def measured(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Then:
        """See `Way`."""
        del job, past, policy
        return Then.NOTHING


class Predicted:
    """As the operator books, under the policy in force."""

    name = "Predicted"

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking | None:
        """See `Way`."""
        if job.gpus == 1 and self._is_missing(job, policy):
            reactive = _is_reactive(policy)
            holds = policy.spec.queue.on_missing_prediction is packingpolicy.OnMissingPrediction.HOLD
            if holds and not reactive:
                return None
        return by_prediction(job, self._document(job, past, policy), past, policy)

    def measured(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Then:
        """See `Way`."""
        if job.gpus > 1:
            return Then.NOTHING
        if self._is_missing(job, policy):
            return _first(past) if _profiles(policy) else Then.NOTHING
        return Then.REMEMBER if self._corrects(policy) else Then.NOTHING

    def _document(self, job: jobs.Job, past: Past, policy: policies.InForce) -> prediction.Prediction | None:
        if self._is_missing(job, policy):
            return measuring.profile(job.kind, past.measured) if past.measured and _profiles(policy) else None
        if not self._corrects(policy):
            return job.kind.predicted
        return measuring.corrected(job.kind, past.measured | past.learned.models)

    def _corrects(self, policy: policies.InForce) -> bool:
        return policy.spec.correction is packingpolicy.Correction.HYBRID

    def _is_missing(self, job: jobs.Job, policy: policies.InForce) -> bool:
        return job.kind.predicted is None or _is_reactive(policy)


class Hybrid(Predicted):
    """What is predicted, until it has been measured."""

    name = "Hybrid"

    def _corrects(self, policy: policies.InForce) -> bool:
        del policy
        return True


class Median:
    """The median of what is predicted, without a margin above it, as Horus books."""

    name = "Median"

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking | None:
        """See `Way`."""
        return by_prediction(job, _without_margin(job.kind), past, policy)

    def measured(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Then:
        """See `Way`."""
        del job, past, policy
        return Then.NOTHING


class Reactive:
    """A whole GPU until it has been measured."""

    name = "Reactive"

    def booking(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Booking | None:
        """See `Way`."""
        found = measuring.profile(job.kind, past.measured) if past.measured else None
        return by_prediction(job, found, past, policy)

    def measured(self, job: jobs.Job, past: Past, policy: policies.InForce) -> Then:
        """See `Way`."""
        del policy
        return _first(past) if job.gpus == 1 else Then.NOTHING


def by_prediction(
    job: jobs.Job, predicted: prediction.Prediction | None, past: Past, policy: policies.InForce
) -> Booking:
    """Its cost on the GPU model where it is smallest, as the operator asks; whole GPUs where nothing is predicted.

    Memory is what is predicted, or more where the job or its kind has shown to need more; never more for its kind's
    sake than a GPU can book, or it would wait for ever.
    """
    if predicted is None or job.gpus > 1 or past.grown.exclusive:
        return whole(job, past)
    roomy = booking.alone_on(predicted.by_gpu, past.usable, policy.packing)
    if roomy:
        return Booking(names.HUNDREDTHS, None, None, roomy)
    least = max(row.memory_mib.upper for row in predicted.by_gpu.values())
    wanted = max(least, past.grown.memory_mib, min(past.learned.memory_mib, largest_mib(past.usable, policy)))
    annotated = wanted if wanted > least else None
    share = booking.requested_share(
        predicted.by_gpu, policy.packing, source=predicted.source, gpu_mib=past.usable, annotated_mib=annotated
    )
    # Of a job that was only measured nothing is known of other GPU models.
    models = frozenset(predicted.by_gpu) if predicted.source is prediction.Source.PROFILE else _ANY
    return Booking(share, predicted, annotated, models)


def whole(job: jobs.Job, past: Past) -> Booking:
    """GPUs to itself, large enough for what it has shown to need."""
    models = growing.roomy(past.grown, past.usable) if past.grown.memory_mib else _ANY
    return Booking(names.HUNDREDTHS * job.gpus, None, None, models)


def largest_mib(memory_mib: Mapping[GPUModel, int], policy: policies.InForce) -> int:
    """Return the most memory that a shared GPU of these models can book."""
    return max((booking.bookable_mib(mib, policy.packing(model)) for model, mib in memory_mib.items()), default=0)


def _first(past: Past) -> Then:
    """Return what follows: an attempt that was measured before, or has a GPU to itself for its memory, is not ended."""
    return Then.NOTHING if past.measured or past.grown.exclusive else Then.RESTART


def _is_reactive(policy: policies.InForce) -> bool:
    return policy.spec.placement is packingpolicy.Placement.REACTIVE


def _profiles(policy: policies.InForce) -> bool:
    missing = policy.spec.queue.on_missing_prediction
    return _is_reactive(policy) or missing is packingpolicy.OnMissingPrediction.PROFILE


@functools.lru_cache(maxsize=4096)
def _without_margin(kind: jobs.Kind) -> prediction.Prediction | None:
    if kind.predicted is None:
        return None
    by_gpu = {model: _median(found) for model, found in kind.predicted.by_gpu.items()}
    return kind.predicted.model_copy(update={"by_gpu": by_gpu})


def _median(found: prediction.GPUPrediction) -> prediction.GPUPrediction:
    """Of both figures that a policy may book by."""
    utilization, activity = found.utilization.q50, found.sm_activity.q50
    return found.model_copy(
        update={
            "utilization": prediction.PercentRange(q50=utilization, upper=utilization),
            "sm_activity": prediction.PercentRange(q50=activity, upper=activity),
        }
    )
