"""GPUs held for a job that waits too long, in hours of virtual time: where it starts soonest, and not in vain."""

from typing import Any

from cotenant_api import names
from extender import builders
from extender.streams import Job, Stream

HOURS = 3600.0
SERVES: dict[str, Any] = {"namespace": "others", "restartPolicy": "Always"}


def small_jobs_for_ever(*, hours: float) -> list[Job]:
    """One every two minutes; each runs for eight."""
    return [Job(f"small{number}", 30, 120.0 * number, 480.0) for number in range(int(hours * 30))]


def test_a_whole_gpu_is_not_held_beside_a_service_that_never_ends() -> None:
    """It was held there for 22.9 hours, as the service had the least booked, and the job was never placed."""
    stream = Stream(builders.cluster(nodes=1, gpus=2))
    service = Job("service", 10, 0.0, None, SERVES)
    stream.run(
        [service, *small_jobs_for_ever(hours=23), Job("whole", 100, 60.0, 600.0)], seconds=23 * HOURS, until="whole"
    )
    assert stream.waited["whole"] <= HOURS + 480 + 10
    assert stream.placed["whole"] != stream.placed["service"]
    assert stream.idle < 0.5 * HOURS


def test_a_hold_leaves_a_gpu_on_which_somebody_runs_much_longer_than_expected() -> None:
    """Nothing says that the pod serves for ever; it had just begun when the hold was placed beside it."""
    stream = Stream(builders.cluster(nodes=1, gpus=2))
    others = {"namespace": "others"}
    first, hidden = Job("first", 60, 0.0, 3000.0, others), Job("hidden", 30, 2900.0, None, others)
    jobs = [*small_jobs_for_ever(hours=23), Job("whole", 100, 60.0, 600.0)]
    stream.run([first, hidden, *jobs], seconds=23 * HOURS, until="whole")
    assert stream.placed["whole"] != stream.placed["hidden"]
    assert stream.waited["whole"] <= 2 * HOURS


def test_jobs_that_end_in_time_use_the_gpus_that_are_held_for_another() -> None:
    """One GPU of two is empty at once, the other in three hours: jobs of an hour are done on the first meanwhile."""
    stream = Stream(builders.cluster(nodes=1, gpus=2))
    long = Job("long", 80, 0.0, 6.2 * HOURS, {"activeDeadlineSeconds": int(6.2 * HOURS)})
    hour = {"activeDeadlineSeconds": int(HOURS)}
    jobs = [Job(f"hour{number}", 90, 0.5 * HOURS * number + 1, 0.9 * HOURS, hour) for number in range(20)]
    stream.run([long, Job("pair", 200, 2 * HOURS, 600.0), *jobs], seconds=23 * HOURS, until="pair")
    assert stream.waited["pair"] <= 4.2 * HOURS
    begun = [job.arrives + stream.waited[job.name] for job in jobs if job.name in stream.placed]
    assert len([time for time in begun if time > 3.01 * HOURS]) >= 2


def test_a_gpu_is_held_beside_pods_that_end_and_only_say_that_they_serve() -> None:
    """Their word was believed, nothing was held, and the job was never placed."""
    stream = Stream(builders.cluster(nodes=1, gpus=2, queue={"maxWaitSeconds": 60}))
    says = {"annotations": {names.WORKLOAD_TYPE: "Inference"}, "restartPolicy": "Never"}
    jobs = [Job(f"small{number}", 30, 15.0 * number, 200.0, dict(says)) for number in range(480)]
    stream.run([*jobs, Job("whole", 100, 100.0, 50.0)], seconds=2 * HOURS, until="whole")
    assert stream.waited["whole"] <= 60 + 2 * 200 + 10
