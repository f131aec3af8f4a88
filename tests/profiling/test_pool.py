"""Which tenants' processes are kept, and which must go."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cotenant_predictor.profiling import sets
from cotenant_predictor.profiling.catalog import Job
from cotenant_predictor.profiling.pool import Pool, Worker
from cotenant_predictor.profiling.seats import Seat, TenantError

JOBS = {job.name: job for job in sets.smoke().jobs}
A, B, C = (Seat((name,)) for name in JOBS)
NEEDS_MIB = 400


class FakeWorker(Worker):
    """Needs 400 MiB, and is out of memory where the GPU has less left."""

    def __init__(self, seat: Seat, gpu: "Gpu") -> None:
        self.seat, self.gpu = seat, gpu
        self.overhead_mib = self.reserved_mib = 0
        self.is_loaded = self.is_ready = False

    def load(self, jobs: Sequence[Job], used_mib: Callable[[], int]) -> None:
        """Take memory."""
        if used_mib() + NEEDS_MIB > self.gpu.memory_mib:
            raise TenantError("OutOfMemory", f"{jobs[0].name} does not fit", self.seat)
        self.is_loaded, self.reserved_mib = True, NEEDS_MIB

    def await_ready(self) -> None:
        """At once."""
        self.is_ready = True

    def close(self) -> None:
        """Give the memory back."""
        self.gpu.ended.append(self.seat)
        self.is_loaded, self.reserved_mib = False, 0


class Gpu:
    """Counts what its tenants hold."""

    def __init__(self, memory_mib: int) -> None:
        self.memory_mib = memory_mib
        self.workers: list[FakeWorker] = []
        self.ended: list[Seat] = []

    def start(self, seat: Seat) -> Worker:
        """A tenant's process."""
        self.workers.append(FakeWorker(seat, self))
        return self.workers[-1]

    def used_mib(self) -> int:
        """By everyone."""
        return sum(worker.memory_mib for worker in self.workers)

    def pool(self, *, max_workers: int = 8) -> Pool:
        """A pool on it."""
        return Pool(self.start, jobs=JOBS, used_mib=self.used_mib, memory_mib=self.memory_mib, max_workers=max_workers)


def seated(pool: Pool, *seats: Seat, needed_mib: int = 0, keep: bool = True) -> list[str]:
    found = pool.seated(seats, needed_mib=needed_mib, keep=lambda _: keep)
    return [one.outcome if isinstance(one, TenantError) else one.seat.jobs[0] for one in found]


def test_a_tenant_is_kept_and_used_again() -> None:
    gpu = Gpu(10_000)
    pool = gpu.pool()
    assert seated(pool, A, B) == [A.jobs[0], B.jobs[0]]
    assert seated(pool, A, C) == [A.jobs[0], C.jobs[0]]
    assert len(gpu.workers) == 3
    assert gpu.ended == []


def test_a_run_that_wants_the_gpu_for_itself_ends_those_that_wait() -> None:
    gpu = Gpu(10_000)
    pool = gpu.pool()
    seated(pool, A, B)
    seated(pool, C, keep=False)
    assert gpu.ended == [A, B]


def test_processes_that_hold_no_memory_yet_may_wait_beside_such_a_run() -> None:
    gpu = Gpu(10_000)
    pool = gpu.pool()
    pool.prefetch([A, B])
    seated(pool, A, keep=False)
    assert gpu.ended == []
    assert all(worker.is_ready for worker in gpu.workers)
    assert pool.has([A, B])


def test_those_used_longest_ago_go_when_memory_runs_short() -> None:
    gpu = Gpu(1000)
    pool = gpu.pool()
    seated(pool, A)
    seated(pool, B)
    seated(pool, C, needed_mib=NEEDS_MIB)
    assert gpu.ended == [A]


def test_out_of_memory_beside_waiting_tenants_is_tried_again_without_them() -> None:
    gpu = Gpu(1000)
    pool = gpu.pool()
    seated(pool, A)
    seated(pool, B)
    assert seated(pool, C) == [C.jobs[0]]
    assert gpu.ended == [A, B, C]


def test_out_of_memory_on_an_empty_gpu_is_the_jobs_own() -> None:
    gpu = Gpu(100)
    assert seated(gpu.pool(), A) == ["OutOfMemory"]


def test_no_more_processes_are_kept_than_allowed() -> None:
    gpu = Gpu(10_000)
    pool = gpu.pool(max_workers=2)
    pool.prefetch([A, B, C])
    assert len(gpu.workers) == 2
    seated(pool, A, C)
    assert gpu.ended == [B]


def test_closing_ends_all() -> None:
    gpu = Gpu(10_000)
    pool = gpu.pool()
    seated(pool, A, B)
    pool.close()
    assert gpu.ended == [A, B]
    assert pool.count(lambda _: True) == 0


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Worker]:
    found = Worker(A, device="no-such-device", environment={}, log=tmp_path / "log")
    yield found
    found.close()


def test_a_process_that_ends_at_once_is_a_crash_with_its_last_words(process: Worker) -> None:
    with pytest.raises(TenantError, match="ended with") as failure:
        process.receive(time.monotonic() + 30)
    assert failure.value.outcome == "Crashed"
    assert failure.value.seat == A


def test_a_process_that_does_not_answer_is_a_timeout(process: Worker) -> None:
    with pytest.raises(TenantError) as failure:
        process.receive(time.monotonic())
    assert failure.value.outcome == "Timeout"
