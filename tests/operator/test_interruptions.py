"""Evicted is not done: who was asked to end, and ended well, is run again. Against a cluster in memory."""

import json
from typing import Any

import pytest

from cotenant_operator import labels
from cotenant_operator.state import endings, reading
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.neighbours import QUEUE

Json = dict[str, Any]

RUN = ("create_pods", "place", "run_pods")
REASONS = {
    "preemption by the packing queue, kubectl drain": "EvictionByEvictionAPI",
    "preemption by kube-scheduler": "PreemptionByScheduler",
    "a taint, as of a node that is lost": "DeletionByTaintManager",
    "a node that is gone": "DeletionByPodGC",
    "a node that shuts down, as of a spot interruption": "TerminationByKubelet",
}


async def finish(cluster: Cluster, attempt: int) -> Json:
    """Let the next attempt run to its end."""
    await cluster.run("reap")
    await cluster.advance(60)
    await cluster.run(*RUN, "succeed")
    status: Json = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], status["failures"]) == ("Succeeded", attempt, 0)
    return status


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS.keys())
@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_pod_that_was_taken_away_and_exits_with_0_is_not_done(
    cluster: Cluster, replicas: int, reason: str
) -> None:
    cluster.apply(objects.dljob(replicas=replicas, backoffLimit=0))
    await cluster.run(*RUN)
    cluster.disrupt(reason)
    await cluster.run("leave", "enforce_deadlines")
    assert cluster.dljob()["status"]["phase"] == "Queued" or cluster.condition("Queued")["reason"] == "RestartBackoff"
    await finish(cluster, attempt=2)
    assert cluster.events().count("AttemptFailed") == 1


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_pod_that_somebody_deleted_and_that_exits_with_0_is_not_done(cluster: Cluster, replicas: int) -> None:
    cluster.apply(objects.dljob(replicas=replicas, backoffLimit=0))
    await cluster.run(*RUN, "remove_pods", "leave", "enforce_deadlines")
    assert cluster.condition("Queued")["reason"] == "RestartBackoff"
    await finish(cluster, attempt=2)


# The pod is deleted and evicted at 30 s. Clocks may differ by a minute.
@pytest.mark.parametrize(("finished", "stopped"), [("2025-12-31T23:59:29Z", False), ("2025-12-31T23:59:30Z", True)])
def test_a_pod_is_taken_for_stopped_unless_it_had_surely_ended_before(finished: str, stopped: bool) -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}
    status = succeeded(finished=finished)
    assert endings.was_told_to_end(metadata, status) is stopped
    assert not endings.was_told_to_end({}, status)
    status["conditions"] = [EVICTION]
    assert (endings.of_pod(status) is not None) is stopped


def succeeded(*, finished: str) -> Json:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": finished}}}
    return {"phase": "Succeeded", "containerStatuses": [ended]}


EVICTION: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "lastTransitionTime": "2026-01-01T00:00:30Z",
}


@pytest.mark.parametrize("finished", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"])
async def test_what_was_seen_of_a_pod_counts_and_no_clock(cluster: Cluster, finished: str) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    (runs,) = cluster.server.all("pods")
    metadata = {**runs["metadata"], "deletionTimestamp": "2026-01-01T00:30:00Z", "deletionGracePeriodSeconds": 30}
    done = succeeded(finished=finished)
    ended = reading.pod({**runs, "status": done})
    removed = {**runs, "metadata": metadata, "status": {**done, "conditions": [EVICTION]}}
    assert not reading.pod(removed, before=ended).taken_away
    # Who sees it for a third time still knows.
    assert not reading.pod(removed, before=reading.pod(removed, before=ended)).taken_away
    deleted = reading.pod({**runs, "metadata": metadata})
    after = reading.pod({**removed, "status": done}, before=deleted)
    assert after.told_to_end
    assert reading.pod({**removed, "status": done}, before=after).told_to_end
    evicted = reading.pod({**runs, "status": {**runs["status"], "conditions": [EVICTION]}})
    assert reading.pod({**runs, "status": removed["status"]}, before=evicted).taken_away


async def test_a_member_that_is_drained_after_it_has_ended_leaves_its_gang_running(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN, "lead")
    cluster.drain_ended()
    for _ in range(4):
        await cluster.deliver(1)
        while await cluster.step():
            pass
    (job,) = cluster.attempts()
    assert not {labels.DISRUPTED, labels.ENDED} & job["metadata"]["annotations"].keys()
    await cluster.run("succeed")
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"]) == ("Succeeded", 1)


@pytest.mark.parametrize("grace", [10**14, 2**62])
def test_a_grace_period_longer_than_any_time_is_read(grace: int) -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:29Z"}}}
    metadata = {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": grace}
    assert endings.was_told_to_end(metadata, {"phase": "Succeeded", "containerStatuses": [ended]})


async def test_why_is_told(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "disrupt", "leave")
    queued = cluster.condition("Queued")
    assert queued["reason"] == "RestartBackoff"
    assert "was taken away and ended well after that" in queued["message"]
    assert queued["message"].endswith("counts against no limit")


async def test_it_is_known_although_the_operator_dies_before_the_pod_ends(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "disrupt")
    cluster.leave()
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "RestartBackoff"


async def test_it_is_known_where_nobody_saw_the_pod_but_when_it_had_ended(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.disrupt()
    for pod in cluster.server.all("pods"):
        cluster.server.change("pods", pod["metadata"]["name"], lambda value: value["status"].update(phase="Succeeded"))
    cluster.end_job("train-1", "Complete", reason="CompletionsReached")
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "RestartBackoff"


@pytest.mark.parametrize("steps", [("disrupt",), ("remove_pods",)], ids=["evicted", "deleted"])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_it_is_known_to_an_operator_that_watched_while_nobody_led(
    cluster: Cluster, replicas: int, steps: tuple[str, ...]
) -> None:
    cluster.apply(objects.dljob(replicas=replicas))
    await cluster.run(*RUN)
    for step in (*steps, "leave"):
        getattr(cluster, step)()
        await cluster.deliver()
    assert not cluster.server.all("pods")
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "RestartBackoff"
    await finish(cluster, attempt=2)


async def test_a_member_that_left_while_nobody_led_ends_the_attempt_of_its_gang(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN)
    name = cluster.server.all("pods")[0]["metadata"]["name"]
    cluster.server.delete("pods", name)
    await cluster.deliver()
    cluster.leave()
    await cluster.deliver()
    assert len(cluster.server.all("pods")) == 1
    await cluster.run("enforce_deadlines", "reap")
    await finish(cluster, attempt=2)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_pod_that_another_one_followed_while_nobody_led_says_nothing(cluster: Cluster, replicas: int) -> None:
    cluster.apply(objects.dljob(replicas=replicas))
    await cluster.run(*RUN)
    cluster.remove_pods()
    await cluster.deliver()
    # Whoever deletes them by force waits for no end.
    cluster.reap()
    await cluster.deliver()
    for step in (*RUN, "succeed"):
        getattr(cluster, step)()
        await cluster.deliver()
    await cluster.settle()
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"]) == ("Succeeded", 1)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_job_that_was_suspended_and_whose_pods_exit_with_0_is_not_done(cluster: Cluster, replicas: int) -> None:
    cluster.apply(objects.dljob(replicas=replicas))
    await cluster.run(*RUN)
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=True))
    await cluster.run("stop_suspended", "leave")
    await cluster.advance(60)
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=False))
    await cluster.settle()
    await finish(cluster, attempt=2)


async def test_a_pod_that_was_taken_away_and_failed_is_replaced_within_the_attempt(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run(*RUN, "evict")
    await finish(cluster, attempt=1)
    assert "AttemptFailed" not in cluster.events()


async def test_a_pod_that_ends_well_after_one_that_was_taken_away_is_done(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "disrupt")
    (job,) = cluster.attempts()
    assert job["metadata"]["annotations"][labels.DISRUPTED]
    await finish(cluster, attempt=1)
    (job,) = cluster.attempts()
    assert labels.DISRUPTED not in job["metadata"]["annotations"]


async def test_the_next_attempt_knows_what_the_one_that_was_taken_away_had_learned(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "run_out_of_memory", "enforce_deadlines", "reap", *RUN, "disrupt", "leave")
    await cluster.advance(60)
    carried = (cluster.server.find("jobs", "train-3") or {})["metadata"]["annotations"][labels.CARRIED]
    assert json.loads(carried)["outOfMemory"] == 1
    await finish(cluster, attempt=3)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_job_that_is_resumed_while_its_pods_still_end_is_not_done_by_them(
    cluster: Cluster, replicas: int
) -> None:
    cluster.apply(objects.dljob(replicas=replicas))
    await cluster.run(*RUN)
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=True))
    await cluster.run("stop_suspended")
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=False))
    await cluster.advance(60)
    (job,) = cluster.attempts()
    assert job["spec"]["suspend"]
    await cluster.run("leave")
    assert cluster.dljob()["status"]["phase"] != "Succeeded"
    await finish(cluster, attempt=2)


async def test_an_older_pod_that_failed_takes_no_note_away(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "crash")
    await cluster.advance(10)
    await cluster.run(*RUN, "disrupt")
    pod = next(pod for pod in cluster.server.all("pods") if pod["status"]["phase"] == "Running")["metadata"]["name"]
    cluster.server.change("pods", pod, lambda value: value["status"].update(phase="Succeeded"))
    cluster.server.delete("pods", pod)
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    cluster.end_job("train-1", "Complete", reason="CompletionsReached")
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "RestartBackoff"


def suspend(cluster: Cluster, *, suspend: bool) -> None:
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=suspend))


async def queued_or_not(cluster: Cluster, queue: str, **spec: Any) -> None:
    value = objects.dljob(**spec)
    value["metadata"]["labels"] = {QUEUE: queue} if queue else {}
    cluster.apply(value)
    await cluster.run("admit", *RUN)


@pytest.mark.parametrize("queue", ["", "team"])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_work_that_was_done_before_its_dljob_was_suspended_is_done(
    cluster: Cluster, replicas: int, queue: str
) -> None:
    await queued_or_not(cluster, queue, replicas=replicas)
    await cluster.run("finish_work")
    cluster.time.seconds += 300
    suspend(cluster, suspend=True)
    await cluster.settle()
    (job,) = cluster.attempts()
    assert not job["spec"]["suspend"]
    assert "activeDeadlineSeconds" not in job["spec"]
    cluster.end_job("train-1", "Complete", reason="CompletionsReached")
    await cluster.settle()
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"]) == ("Succeeded", 1)


@pytest.mark.parametrize("queue", ["", "team"])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_work_that_was_done_before_another_suspended_its_job_is_done(
    cluster: Cluster, replicas: int, queue: str
) -> None:
    await queued_or_not(cluster, queue, replicas=replicas)
    await cluster.run("finish_work", "hold", "stop_suspended")
    count = {"succeeded": replicas}
    cluster.server.change("jobs", "train-1", lambda value: value["status"].update(count))
    await cluster.settle()
    cluster.end_job("train-1", "Complete", reason="CompletionsReached")
    await cluster.advance(60)
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"]) == ("Succeeded", 1)


async def test_work_of_which_a_member_was_done_before_the_suspension_is_not_done(cluster: Cluster) -> None:
    await queued_or_not(cluster, "", replicas=2)
    name = cluster.server.all("pods")[0]["metadata"]["name"]
    cluster.server.change("pods", name, lambda value: value["status"].update(phase="Succeeded"))
    await cluster.settle()
    suspend(cluster, suspend=True)
    await cluster.run("stop_suspended", "leave")
    cluster.end_job("train-1", "Complete", reason="CompletionsReached")
    await cluster.advance(60)
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    suspend(cluster, suspend=False)
    await cluster.settle()
    await finish(cluster, attempt=2)


async def test_a_dljob_that_cannot_be_read_leaves_work_that_is_done_to_be_counted(cluster: Cluster) -> None:
    await queued_or_not(cluster, "")
    await cluster.run("finish_work")
    cluster.server.change(
        "dljobs", "train", lambda value: value.update(spec={**value["spec"], "suspend": True, "replicas": "x"})
    )
    await cluster.settle()
    assert not cluster.attempts()[0]["spec"]["suspend"]
