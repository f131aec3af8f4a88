"""Pods that were taken away and are gone: of each replica of a Job the last one, while the Job is there."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from cotenant_operator.state import reading, views
from cotenant_operator.state.departed import Departed
from operator_kit import objects
from operator_kit.cluster import Cluster

KEY = views.Key("team", "train")


async def gang(cluster: Cluster) -> tuple[dict[str, views.Job], tuple[views.Pod, ...]]:
    """The Job of a gang that runs, and its pods as they are when they are told to end."""
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    job = reading.job(cluster.attempts()[0])
    pods = tuple(replace(reading.pod(pod), told_to_end=True) for pod in cluster.server.all("pods"))
    return {job.meta.uid: job}, pods


def went(found: Departed, jobs: dict[str, views.Job], *pods: views.Pod) -> int:
    for pod in pods:
        found.went(KEY, pod, jobs)
    return len(found)


async def test_they_are_kept_until_others_come_or_their_job_goes(cluster: Cluster) -> None:
    found, (jobs, pods) = Departed(), await gang(cluster)
    assert went(found, jobs, *pods) == 2
    assert found.of(KEY, pods[0].dljob_uid) == pods
    assert found.of(KEY, "another") == ()
    older = replace(pods[0].meta, created=pods[0].meta.created - timedelta(seconds=1), uid="older")
    found.came(KEY, replace(pods[0], meta=older))
    assert found.of(KEY, pods[0].dljob_uid) == pods
    found.came(KEY, pods[0])
    assert found.of(KEY, pods[0].dljob_uid) == pods[1:]
    found.forget(KEY, next(iter(jobs)))
    assert len(found) == 0


async def test_what_was_not_taken_away_or_names_no_member_of_a_job_is_not_kept(cluster: Cluster) -> None:
    found, (jobs, (pod, _)) = Departed(), await gang(cluster)
    others: tuple[dict[str, Any], ...] = (
        {"told_to_end": False},
        {"phase": "Failed"},
        {"index": None},
        {"index": 2},
        {"index": -1},
        {"meta": replace(pod.meta, owner_uid="nobody")},
    )
    assert went(found, jobs, *(replace(pod, **fields) for fields in others)) == 0
