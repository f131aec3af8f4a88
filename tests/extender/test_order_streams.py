"""The default order under load: who keeps coming does not keep the small ones waiting."""

import pytest

from extender import builders
from extender.streams import Job, Stream

RUN_SECONDS = 600.0


def whole_gpus_for_ever(*, gpus: int, seconds: float) -> list[Job]:
    """As many as are served, and always one more that waits."""
    backlog = [Job(f"backlog{number}", 100, 0.0, RUN_SECONDS) for number in range(gpus + 1)]
    every = RUN_SECONDS / gpus
    count = int(seconds / every)
    return [*backlog, *(Job(f"whole{number}", 100, every * (number + 1), RUN_SECONDS) for number in range(count))]


def test_a_small_job_does_not_wait_for_a_stream_of_whole_gpus_to_end() -> None:
    """It waited until `maxWaitSeconds`, an hour, as each whole GPU that came went first."""
    stream = Stream(builders.cluster(nodes=1, gpus=4))
    small = Job("small", 10, 1000.0, RUN_SECONDS)
    stream.run([*whole_gpus_for_ever(gpus=4, seconds=8000.0), small], seconds=8000.0, until="small")
    # Joined 3600 / 24 x log2(100 / 10) = 498 s later, a whole GPU no longer goes first; then one more GPU ends.
    assert stream.waited["small"] < 500 + 2 * RUN_SECONDS / 4 + 10


@pytest.mark.parametrize("order", ["DecreasingShare", "FIFO"])
def test_a_whole_gpu_does_not_wait_for_a_stream_of_small_jobs_to_end(order: str) -> None:
    stream = Stream(builders.cluster(nodes=1, gpus=1, queue={"order": order}))
    small = [Job(f"small{number}", 30, 100.0 * number, 450.0) for number in range(100)]
    stream.run([*small, Job("whole", 100, 1000.0, RUN_SECONDS)], seconds=8000.0, until="whole")
    assert stream.waited["whole"] <= 3600 + 450 + 10
