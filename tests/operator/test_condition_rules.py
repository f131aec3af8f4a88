"""At every moment of every life, conditions keep the rules of `metav1.Condition`, and each other company."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cotenant_api import conditions, dljob
from cotenant_operator import reasons
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

REASON = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
KEYS = {"type", "status", "reason", "message", "observedGeneration", "lastTransitionTime"}


UNWRITTEN = {"observedGeneration": dljob.NEVER_OBSERVED}


def statuses(cluster: Cluster) -> Iterator[tuple[int, Json]]:
    """Generation and status of the DLJob each time that it was written."""
    for event in cluster.server.watched:
        # What the API server has in its place before that is no status of ours.
        if event.plural == "dljobs" and event.object.get("status", UNWRITTEN) != UNWRITTEN:
            yield event.object["metadata"]["generation"], event.object["status"]


def check(cluster: Cluster) -> set[str]:
    """Every status that there was; the types of its conditions."""
    seen: dict[str, Json] = {}
    for generation, status in statuses(cluster):
        found = {item["type"]: item for item in status["conditions"]}
        assert seen.keys() <= found.keys()
        for kind, now in found.items():
            one(now, seen.get(kind), generation)
        together(found, status)
        seen = found
    return set(seen)


def one(now: Json, before: Json | None, generation: int) -> None:
    assert set(now) == KEYS
    assert REASON.match(now["reason"])
    assert len(now["message"]) <= conditions.MAX_MESSAGE
    assert 1 <= now["observedGeneration"] <= generation
    if before is not None:
        assert now["observedGeneration"] >= before["observedGeneration"]
        same = now["status"] == before["status"]
        assert (now["lastTransitionTime"] == before["lastTransitionTime"]) or not same


def together(found: dict[str, Json], status: Json) -> None:
    """What conditions say of one moment does not contradict itself."""
    true = {kind for kind, item in found.items() if item["status"] == "True"}
    assert len(true & {dljob.QUEUED, dljob.SUSPENDED, dljob.COMPLETE, dljob.FAILED}) <= 1
    over = bool(true & {dljob.COMPLETE, dljob.FAILED})
    assert over == (status["phase"] in (dljob.Phase.SUCCEEDED, dljob.Phase.FAILED)) == ("completionTime" in status)
    assert not ("queuePosition" in status and dljob.QUEUED not in true)
    if over:
        final = found[dljob.COMPLETE if dljob.COMPLETE in true else dljob.FAILED]
        assert found[dljob.QUEUED]["reason"] == found[dljob.READY]["reason"] == final["reason"]
    assert len(true & {dljob.READY, dljob.STALLED}) <= 1, "kstatus would say Failed of what is done"
    assert (dljob.FAILED in true) <= (dljob.STALLED in true)
    assert (dljob.COMPLETE in true) <= (dljob.READY in true)


LIVES = {
    "succeeds": ("create_pods", "place", "run_pods", "succeed"),
    "fails": ("create_pods", "place", "run_pods", "fail"),
    "fails before it was placed": ("create_pods", "fail"),
}


@pytest.mark.parametrize("steps", LIVES.values(), ids=list(LIVES))
@pytest.mark.parametrize("replicas", [1, 2])
async def test_rules_hold_for_a_training_job(cluster: Cluster, steps: tuple[str, ...], replicas: int) -> None:
    cluster.apply(objects.dljob(replicas=replicas, backoffLimit=0))
    await cluster.run(*steps)
    assert check(cluster) >= {dljob.PREDICTED, dljob.QUEUED, dljob.PLACED, dljob.READY}


async def test_rules_hold_when_a_job_is_stopped_and_goes_on(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    for suspend in (True, False):
        await cluster.advance(60)
        job = cluster.dljob()
        cluster.apply(job | {"spec": job["spec"] | {"suspend": suspend}})
        await cluster.run("stop_suspended" if suspend else "create_pods")
    await cluster.run("place", "run_pods", "succeed")
    assert dljob.SUSPENDED in check(cluster)


async def test_rules_hold_when_a_gang_tries_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2, backoffLimit=1))
    for _ in range(2):
        await cluster.run("create_pods", "place", "run_pods", "fail")
        await cluster.advance(400)
    check(cluster)
    assert cluster.condition(dljob.FAILED)["reason"] == reasons.BACKOFF_LIMIT_EXCEEDED


async def test_rules_hold_for_an_inference_job(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(workloadType="Inference"))
    await cluster.run("create_pods", "place", "run_pods")
    check(cluster)
    assert cluster.condition(dljob.READY)["status"] == "True"
