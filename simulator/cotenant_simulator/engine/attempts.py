"""One attempt at a job: its pods, where they are, and how far its work has come.

    speed of an attempt = speed of its slowest pod

Work counts in seconds alone on the slowest GPU model that the attempt has. The pods of a gang wait for each other at
every step, so that none of them is faster than the slowest, nor keeps its GPU busier.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from cotenant_api import placement
from cotenant_api.names import GPUUID, PodUID
from cotenant_simulator.engine import interference, measuring, ways

_ROUNDING: Final = 1e-9


@dataclass(slots=True, eq=False, kw_only=True)
class Seat:
    """A pod on one of its GPUs.

    Attributes:
        seconds: how long the job runs alone on this GPU's model.
        booked: for it.
        speed: what its neighbours let it have, of its speed alone.
    """

    attempt: "Attempt"
    gpu: GPUUID
    tenant: interference.Tenant
    seconds: float
    booked: placement.GPUBooking
    speed: float = 0.0

    @property
    def runs(self) -> float:
        """How fast it is: no faster than its job."""
        return self.attempt.speed * self.seconds / self.attempt.whole


@dataclass(slots=True, eq=False, kw_only=True)
class Attempt:
    """One attempt.

    Attributes:
        place: of its job among the jobs given.
        past, booked: what was known when it was booked, and how it was.
        pods: all of them.
        saved: part of the work, 0..1, that was safe before it began.
        placed: the pods that are bound.
        bound: when the last of them was; None: not yet.
        seats: where it runs; empty: it does not yet.
        whole: seconds alone of the whole job.
        left: of these, what was left as of `since`.
        speed: from `since` on, of its speed alone.
        then: what follows when it has been alone for a minute.
        alone_since: since when none of its GPUs had anybody else; None: one has.
        measured: GPU models on which it was alone for long enough.
        lacks_memory: it does not come to work at all.
        turn: grows whenever it gets another speed; ends computed before are void.
        awaited: the turn of which the end is awaited.
    """

    place: int
    past: ways.Past
    booked: ways.Booking
    pods: tuple[PodUID, ...]
    saved: float
    placed: dict[PodUID, placement.Placement] = field(default_factory=dict)
    bound: float | None = None
    seats: list[Seat] = field(default_factory=list)
    whole: float = 0.0
    left: float = 0.0
    since: float = 0.0
    speed: float = 0.0
    then: ways.Then = ways.Then.NOTHING
    alone_since: float | None = None
    measured: measuring.Models = frozenset()
    lacks_memory: bool = False
    ended: bool = False
    turn: int = 0
    awaited: int = 0

    def begin(self, seats: list[Seat], *, now: float) -> None:
        """Let it run from now on."""
        self.seats, self.since = seats, now
        self.whole = max(seat.seconds for seat in seats)
        self.left = (1.0 - self.saved) * self.whole

    @property
    def bookings(self) -> list[placement.GPUBooking]:
        """Of its pods that are bound, by index."""
        return [booked for uid in self.pods if uid in self.placed for booked in self.placed[uid].gpus]

    @property
    def whole_gpus(self) -> bool:
        """Whether its pods have their GPUs to themselves."""
        return all(placed.backend is placement.Backend.WHOLE for placed in self.placed.values())

    @property
    def pace(self) -> float:
        """The speed that its pods' neighbours let it have."""
        return min(seat.speed * self.whole / seat.seconds for seat in self.seats)

    def change(self, speed: float, *, now: float) -> None:
        """Bring it as far as its speed took it, and give it another from now on."""
        self.advance(now=now)
        self.speed = speed
        self.turn += 1

    def advance(self, *, now: float) -> None:
        """Bring it as far as its speed took it."""
        if not self.lacks_memory:
            self.left -= (now - self.since) * self.speed
        self.since = now

    @property
    def end(self) -> float:
        """When it will be done if nothing changes."""
        return self.since + max(self.left, 0.0) / self.speed

    def safe(self, checkpoint_seconds: float | None) -> float:
        """Return the part of the work, 0..1, that is safe if it ends now; it is as of `since`."""
        if checkpoint_seconds is None or not self.whole:
            return self.saved
        done = (1.0 - self.saved) * self.whole - self.left
        count = math.floor(done / checkpoint_seconds + _ROUNDING)
        return min(self.saved + count * checkpoint_seconds / self.whole, 1.0)

    def lost(self, safe: float) -> float:
        """Seconds of work that it has done for nothing if only so much is safe."""
        return max((1.0 - safe) * self.whole - self.left, 0.0) if self.whole else 0.0
