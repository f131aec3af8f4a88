"""What happened in a run, and the figures that follow from it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field


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
        out_of_memory: how many attempts ended for want of memory.
        attempts: how often it was placed.
        failed: whether it was given up.
    """

    name: str
    arrived: float
    alone: float
    started: float | None = None
    ended: float | None = None
    ran: float = 0.0
    slowest: float = 1.0
    out_of_memory: int = 0
    attempts: int = 0
    failed: bool = False

    @property
    def slowdown(self) -> float:
        """How much longer it held GPUs than it would have run alone: 0 is no longer at all."""
        return self.ran / self.alone - 1 if self.alone > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The cluster from one time on: sums over GPUs of 0..1, and counts.

    Attributes:
        utilization: sum over GPUs of the share of time in which a kernel runs.
        occupied: GPUs with a job.
        running: jobs that run.
        waiting: jobs that wait.
    """

    seconds: float
    utilization: float
    occupied: int
    running: int
    waiting: int


@dataclass(slots=True, kw_only=True)
class History:
    """Of a whole run.

    Attributes:
        gpus: how many there are.
        lives: of every job, in the order given.
        moments: whenever something changed, in order; the last is the end.
    """

    gpus: int
    lives: Sequence[Life]
    moments: list[Moment] = field(default_factory=list)

    def note(self, moment: Moment) -> None:
        """The cluster changed; of several changes at one time the last stands."""
        if self.moments and self.moments[-1].seconds == moment.seconds:
            self.moments[-1] = moment
        else:
            self.moments.append(moment)

    @property
    def makespan_seconds(self) -> float:
        """From the first arrival to the last end."""
        first = min((life.arrived for life in self.lives), default=0.0)
        return max((life.ended for life in self.lives if life.ended is not None), default=first) - first

    @property
    def utilization_percent(self) -> float:
        """Mean over GPUs and over the makespan."""
        spans = zip(self.moments, self.moments[1:], strict=False)
        busy = sum(moment.utilization * (later.seconds - moment.seconds) for moment, later in spans)
        whole = (self.moments[-1].seconds - self.moments[0].seconds) * self.gpus if self.moments else 0.0
        return 100 * busy / whole if whole > 0 else 0.0
