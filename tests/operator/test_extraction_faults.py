"""Faults while a graph is extracted: crashes, lost replies and refusals at every write, events late and twice."""

from typing import Any

import pytest

from cotenant_operator.kube import api
from operator_kit import extractions, faults, objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]


def attempts(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.attempts()]


async def lives(fault_at: int, fault: Fault) -> int:
    """An extraction and a run with one fault at the n-th write; how many writes there were."""
    cluster = Cluster()
    for plural, value in (("packingpolicies", objects.policy()), ("gpunodes", objects.gpu_node())):
        cluster.apply(value, plural=plural)

    def counts(request: api.Request) -> bool:
        # A conflict about a deletion says that the object is another one.
        return faults.changes_something(request) and (request.method, fault.status) != ("DELETE", 409)

    faulty = cluster.server.fault = faults.AtWrite(fault_at, fault, counts=counts)
    await cluster.start()
    cluster.apply(extractions.dljob())
    for step in (extractions.start, extractions.write, extractions.succeed):
        await recovered(cluster)
        step(cluster)
        alive = [job for job in extractions.jobs(cluster) if not job.get("status")]
        assert len(alive) <= 1
    for program in ("create_pods", "place", "run_pods", "succeed"):
        await recovered(cluster)
        await cluster.run(program)
    await recovered(cluster)
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert attempts(cluster) == ["train-1"]
    assert extractions.left(cluster) == extractions.NOTHING
    return faulty.writes


async def recovered(cluster: Cluster) -> None:
    """What failed once has been tried again."""
    for _ in range(3):
        await cluster.advance(15)


async def test_crash_at_any_write_loses_nothing_and_leaves_nothing() -> None:
    total = await lives(0, Fault(effect=True, status=-1))
    assert total > 15
    for effect in (True, False):
        for at in range(1, total + 1):
            await lives(at, Fault(effect=effect, status=-1))


@pytest.mark.parametrize("status", [0, 409, 500])
async def test_lost_or_refused_reply_at_any_write_makes_nothing_twice(status: int) -> None:
    total = await lives(0, Fault(effect=True, status=status))
    for at in range(1, total + 1):
        await lives(at, Fault(effect=status == 0, status=status))


async def test_events_that_come_twice_and_late_change_nothing(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await extractions.go_on(cluster)
    for event in list(cluster.server.watched):
        await cluster.tell(event)
        await cluster.settle()
    assert extractions.jobs(cluster) == []
    assert attempts(cluster) == ["train-1"]


async def test_result_that_comes_between_reading_and_the_end_of_the_job_is_not_missed(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    extractions.start(cluster)
    await cluster.settle()
    extractions.write(cluster)
    # The Job's end is known before the result was looked for again.
    extractions.succeed(cluster)
    await cluster.settle()
    assert cluster.condition("Predicted")["status"] == "True"
