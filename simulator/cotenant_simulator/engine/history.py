"""What happened in a run, and the figures that follow from it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cotenant_api import placement
from cotenant_api.names import GPUUID


@dataclass(slots=True, kw_only=True)
class Life:
    """One job's: times in seconds since the beginning.

    Attributes:
        name: of the job.
        arrived: when it was submitted.
        alone: how long it would run alone.
        started: when it first ran; None: it never did.
        ended: when it was done; None: it never was.
        ran: how long it held GPUs, lost attempts included.
        slowest: its lowest speed beside others, of its speed alone.
        attempts: how often it was placed.
        out_of_memory: how many attempts ended for want of memory.
        evictions: how many ended for a job of higher priority.
        faults: how many ended by a fault, its own, a neighbour's or a GPU's.
        measured: how many ended because they had been measured.
        lost: seconds of work, counted alone, that attempts did for nothing.
        failed: whether it was given up.
        why: of one that was not done: the reason, a colon and a message, in the words of queue and operator.
    """

    name: str
    arrived: float
    alone: float
    started: float | None = None
    ended: float | None = None
    ran: float = 0.0
    slowest: float = 1.0
    attempts: int = 0
    out_of_memory: int = 0
    evictions: int = 0
    faults: int = 0
    measured: int = 0
    lost: float = 0.0
    failed: bool = False
    why: str = ""

    @property
    def slowdown(self) -> float:
        """How much longer it held GPUs than it would have run alone: 0 is no longer at all."""
        return self.ran / self.alone - 1 if self.alone > 0 else 0.0

    @property
    def waited(self) -> float | None:
        """From its submission until it first ran."""
        return None if self.started is None else self.started - self.arrived

    @property
    def completion(self) -> float | None:
        """From its submission to its end."""
        return None if self.ended is None else self.ended - self.arrived


class Moment(NamedTuple):
    """The cluster from one time on: sums over GPUs of 0..1, and counts.

    Attributes:
        utilization: sum over GPUs of the share of time in which a kernel runs.
        occupied: GPUs with a job that runs.
        running: jobs that run.
        waiting: pods that wait, promised GPUs or not.
    """

    seconds: float
    utilization: float
    occupied: int
    running: int
    waiting: int


class Span(NamedTuple):
    """A pod's time on a GPU, from its binding to its end.

    Attributes:
        booked: what it was given there.
        place: of its job among `History.lives`.
    """

    booked: placement.GPUBooking
    place: int
    start: float
    end: float

    @property
    def gpu(self) -> GPUUID:
        """The GPU."""
        return self.booked.uuid

    @property
    def share(self) -> int:
        """Hundredths booked."""
        return self.booked.share


class Counts(NamedTuple):
    """What happened, over all jobs."""

    done: int
    failed: int
    never_placed: int
    attempts: int
    out_of_memory: int
    evictions: int
    faults: int
    measured: int


@dataclass(slots=True, kw_only=True)
class History:
    """Of a whole run.

    Attributes:
        gpus: how many there are.
        lives: of every job, in the order given.
        moments: whenever something changed, in order; the last is the end.
        spans: in order of their ends; None: they were not asked for.
    """

    gpus: int
    lives: Sequence[Life]
    moments: list[Moment] = field(default_factory=list)
    spans: list[Span] | None = None

    def note(self, moment: Moment) -> None:
        """Note that the cluster may have changed; of several changes at one time the last stands."""
        if self.moments and self.moments[-1].seconds == moment.seconds:
            self.moments[-1] = moment
        elif not self.moments or self.moments[-1][1:] != moment[1:]:
            self.moments.append(moment)

    @property
    def makespan_seconds(self) -> float:
        """From the first arrival to the last end."""
        first = min((life.arrived for life in self.lives), default=0.0)
        return max((life.ended for life in self.lives if life.ended is not None), default=first) - first

    @property
    def utilization_percent(self) -> float:
        """Mean over GPUs and over the makespan."""
        return self._percent(lambda moment: moment.utilization)

    @property
    def occupied_percent(self) -> float:
        """GPUs with a job that runs: mean over the makespan."""
        return self._percent(lambda moment: moment.occupied)

    def _percent(self, gpus: Callable[[Moment], float]) -> float:
        """Mean over the makespan of so many GPUs, of all that there are."""
        spans = zip(self.moments, self.moments[1:], strict=False)
        busy = sum(gpus(moment) * (later.seconds - moment.seconds) for moment, later in spans)
        whole = (self.moments[-1].seconds - self.moments[0].seconds) * self.gpus if self.moments else 0.0
        return 100 * busy / whole if whole > 0 else 0.0

    @property
    def counts(self) -> Counts:
        """What happened, over all jobs."""
        lives = self.lives
        return Counts(
            done=sum(life.ended is not None for life in lives),
            failed=sum(life.failed for life in lives),
            never_placed=sum(life.attempts == 0 for life in lives),
            attempts=sum(life.attempts for life in lives),
            out_of_memory=sum(life.out_of_memory for life in lives),
            evictions=sum(life.evictions for life in lives),
            faults=sum(life.faults for life in lives),
            measured=sum(life.measured for life in lives),
        )

    @property
    def reasons(self) -> dict[str, int]:
        """How many jobs were not done, by the reason's first word."""
        found: dict[str, int] = {}
        for life in self.lives:
            if life.why:
                reason = life.why.partition(":")[0]
                found[reason] = found.get(reason, 0) + 1
        return dict(sorted(found.items()))
