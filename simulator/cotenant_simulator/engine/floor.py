"""Who is on which GPU, how fast that lets them be, and how busy the GPUs are.

Whenever the tenants of a GPU change, all of them get the speeds that the new set has; a gang is as fast as its slowest
pod. Where a gang waits for a pod elsewhere, its GPUs are less busy; that their other tenants could be faster meanwhile
is left out.
"""

from collections.abc import Iterable

from cotenant_api.names import GPUUID
from cotenant_simulator.engine import attempts, interference


class Floor:
    """All GPUs.

    Attributes:
        utilization: sum over GPUs of the share of time in which a kernel runs.
    """

    def __init__(self, speeds: interference.Speeds) -> None:
        self.utilization = 0.0
        self._speeds = speeds
        self._seats: dict[GPUUID, list[attempts.Seat]] = {}
        self._busy: dict[GPUUID, float] = {}

    @property
    def occupied(self) -> int:
        """GPUs on which somebody runs."""
        return len(self._seats)

    def on(self, gpu: GPUUID) -> list[attempts.Seat]:
        """Who runs on a GPU, in the order in which they came."""
        return list(self._seats.get(gpu, ()))

    def alone(self, attempt: attempts.Attempt) -> bool:
        """Return whether it shares none of its GPUs, not even with itself."""
        return all(len(self._seats[seat.gpu]) == 1 for seat in attempt.seats)

    def enter(self, attempt: attempts.Attempt, *, now: float) -> list[attempts.Attempt]:
        """Let it run from now on; return whose speed, or company, is another."""
        for seat in attempt.seats:
            self._seats.setdefault(seat.gpu, []).append(seat)
        return self._changed(attempt, now=now)

    def leave(self, attempt: attempts.Attempt, *, now: float) -> list[attempts.Attempt]:
        """Let it run no longer; return whose speed, or company, is another."""
        for seat in attempt.seats:
            here = self._seats[seat.gpu]
            here.remove(seat)
            if not here:
                del self._seats[seat.gpu]
        return self._changed(attempt, now=now)

    def _changed(self, by: attempts.Attempt, *, now: float) -> list[attempts.Attempt]:
        gpus = dict.fromkeys(seat.gpu for seat in by.seats)
        met: dict[attempts.Attempt, None] = {}
        for gpu in gpus:
            here = self._seats.get(gpu, ())
            found = self._speeds.together([seat.tenant for seat in here])
            for seat, speed in zip(here, found.speeds, strict=True):
                seat.speed = speed
                met[seat.attempt] = None
            self._set_busy(gpu, found.utilization)
        apart: dict[GPUUID, None] = {}
        for attempt in met:
            pace = attempt.pace
            if pace != attempt.speed:
                attempt.change(pace, now=now)
            if len(attempt.seats) > 1:
                apart.update(dict.fromkeys(seat.gpu for seat in attempt.seats))
        self._recount(apart)
        if not self._seats:
            self.utilization = 0.0  # what rounding has left
        return list(met)

    def _recount(self, gpus: Iterable[GPUUID]) -> None:
        """GPUs of which a tenant may wait for its gang."""
        for gpu in gpus:
            here = self._seats[gpu]
            busy = sum(seat.runs * seat.tenant.real.utilization.q50 / 100 for seat in here)
            self._set_busy(gpu, min(1.0, busy))

    def _set_busy(self, gpu: GPUUID, busy: float) -> None:
        self.utilization += busy - self._busy.get(gpu, 0.0)
        self._busy[gpu] = busy
