"""Since when the pods of a training job count as waiting. Against a cluster in memory."""

from datetime import datetime, timedelta
from typing import Any

from cotenant_api import names
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import START

RUN = ("create_pods", "place", "run_pods")
WEEK = 7 * 86400


def since(cluster: Cluster, name: str = "train-1") -> float:
    """Seconds from the start of the test to the place of a Job's pods."""
    notes = (cluster.server.find("jobs", name) or {})["spec"]["template"]["metadata"]["annotations"]
    return (datetime.fromisoformat(notes[names.QUEUED_SINCE]) - START).total_seconds()


def age(cluster: Cluster) -> float:
    """Seconds since the start of the test."""
    return (datetime.fromisoformat(cluster.time.text()) - START) / timedelta(seconds=1)


def edit(cluster: Cluster, **fields: Any) -> None:
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], **fields}))


async def test_a_job_waits_from_its_creation(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert since(cluster) == 0


async def test_a_job_that_was_suspended_for_a_week_waits_from_when_it_is_resumed(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(suspend=True))
    await cluster.settle()
    await cluster.advance(WEEK)
    edit(cluster, suspend=False)
    await cluster.run("create_pods")
    assert age(cluster) - since(cluster) < 60


async def test_so_does_one_that_ran_before(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    await cluster.advance(WEEK)
    edit(cluster, suspend=False)
    await cluster.run("create_pods")
    assert age(cluster) - since(cluster) < 60
    (pod,) = cluster.server.all("pods")
    assert (
        pod["metadata"]["annotations"][names.QUEUED_SINCE]
        == cluster.attempts()[0]["spec"]["template"]["metadata"]["annotations"][names.QUEUED_SINCE]
    )


async def test_one_whose_pods_are_still_there_is_resumed_when_they_are_gone(cluster: Cluster) -> None:
    """The API server changes no template of a Job that has pods."""
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended")
    edit(cluster, suspend=False)
    await cluster.settle()
    assert cluster.attempts()[0]["spec"]["suspend"]
    await cluster.run("reap")
    assert not cluster.attempts()[0]["spec"]["suspend"]


async def test_a_job_whose_attempts_had_ended_when_it_was_suspended_waits_from_when_it_is_resumed(
    cluster: Cluster,
) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN, "fail", "reap")
    edit(cluster, suspend=True)
    await cluster.advance(WEEK)
    edit(cluster, suspend=False)
    await cluster.settle()
    assert age(cluster) - since(cluster, "train-2") < 60


async def test_the_next_attempt_keeps_the_place(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN)
    await cluster.advance(WEEK)
    await cluster.run("fail", "reap")
    await cluster.advance(60)
    assert since(cluster, "train-2") == 0


async def test_another_spec_has_waited_for_a_quarter_of_an_hour_at_most(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    await cluster.advance(WEEK)
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert age(cluster) - since(cluster) <= 900


async def test_so_has_the_next_attempt_of_one_that_was_edited_while_it_ran(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN)
    await cluster.advance(WEEK)
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    await cluster.run("fail", "reap")
    await cluster.advance(60)
    assert age(cluster) - since(cluster, "train-2") <= 900 + 60


async def test_of_pods_that_kueue_has_made_nothing_is_said(cluster: Cluster) -> None:
    value = objects.dljob()
    value["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    cluster.apply(value)
    await cluster.settle()
    assert names.QUEUED_SINCE not in cluster.attempts()[0]["spec"]["template"]["metadata"]["annotations"]


async def test_a_place_that_somebody_spoilt_is_begun_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN)
    await cluster.advance(WEEK)
    notes = {names.QUEUED_SINCE: "0001-01-01T00:00:00"}
    cluster.server.change(
        "jobs", "train-1", lambda job: job["spec"]["template"]["metadata"]["annotations"].update(notes)
    )
    await cluster.run("fail", "reap")
    await cluster.advance(60)
    assert age(cluster) - since(cluster, "train-2") <= 900 + 60
