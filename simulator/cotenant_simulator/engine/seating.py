"""How an attempt comes to sit on its GPUs, and whether its memory suffices there."""

from collections.abc import Mapping

from cotenant_api.names import GPUUID
from cotenant_simulator.engine import attempts, floor, interference, jobs
from cotenant_simulator.twin import sites


def seats(attempt: attempts.Attempt, job: jobs.Job, gpus: Mapping[GPUUID, sites.GPU]) -> list[attempts.Seat]:
    """One for each pod and each of its GPUs; all pods are bound."""
    found = []
    for booked in attempt.bookings:
        gpu = gpus[booked.uuid]
        tenant = interference.Tenant(
            real=job.kind.real[gpu.model],
            gpu_memory_mib=gpu.memory_mib,
            threads=booked.active_thread_percentage,
            priority=booked.client_priority,
            kind=job.kind.name,
        )
        seat = attempts.Seat(
            attempt=attempt, gpu=gpu.uuid, tenant=tenant, seconds=job.seconds[gpu.model], booked=booked
        )
        found.append(seat)
    return found


def lacks_memory(attempt: attempts.Attempt, here: floor.Floor, *, mechanism: str) -> bool:
    """Under MPS each pod has a limit of its own; without, who comes last finds what the others left."""
    if mechanism == interference.MPS and not attempt.whole_gpus:
        return any(_needed_mib(seat) > seat.booked.memory_mib for seat in attempt.seats)
    return any(
        sum(_needed_mib(other) for other in here.on(seat.gpu)) > seat.tenant.gpu_memory_mib for seat in attempt.seats
    )


def had_mib(attempt: attempts.Attempt) -> int:
    """Return the most memory that one of its pods had to itself: a GPU's, or what was booked."""
    return max(_had_mib(seat) for seat in attempt.seats)


def peak_mib(attempt: attempts.Attempt) -> int:
    """Return the most memory that one of its pods was seen to use: what it needs, as far as it had that."""
    return max(
        min(_needed_mib(seat), _had_mib(seat)) if attempt.lacks_memory else _needed_mib(seat) for seat in attempt.seats
    )


def _had_mib(seat: attempts.Seat) -> int:
    return seat.tenant.gpu_memory_mib if seat.attempt.whole_gpus else seat.booked.memory_mib


def _needed_mib(seat: attempts.Seat) -> int:
    return seat.tenant.real.memory_mib.q50
