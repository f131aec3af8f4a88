"""A clock that is set makes nobody wait for longer than twice the pause, and ends nothing that has just begun."""

from datetime import UTC, datetime, timedelta

import pytest

from cotenant_operator import labels
from cotenant_operator.life import causes, pauses
from operator_kit import objects, quotas
from operator_kit.cluster import Cluster
from operator_kit.gangs import gang, limit, suspended

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = ("create_pods", "place", "run_pods")


@pytest.mark.parametrize(
    ("since", "due"), [(-10, None), (-9, 1), (0, 10), (10, 20), (11, None), (3600, None)], ids=lambda value: f"{value}"
)
def test_no_pause_takes_more_than_twice_its_length(since: int, due: int | None) -> None:
    expected = None if due is None else NOW + timedelta(seconds=due)
    assert pauses.due(NOW + timedelta(seconds=since), 10, NOW) == expected


def test_no_pause_is_over_at_once() -> None:
    assert pauses.due(NOW, 0, NOW) is None


async def test_the_next_attempt_comes_although_the_clock_was_set_back(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN, "fail", "reap")
    assert cluster.condition("Queued")["reason"] == "RestartBackoff"
    cluster.time.skew -= 3600
    await cluster.advance(20)
    assert len(cluster.attempts()) == 2


async def test_a_graph_that_is_missing_is_waited_for_no_longer_where_the_clock_was_set_back(cluster: Cluster) -> None:
    cluster.server.delete("configmaps", "toy")
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "PredictionPending"
    cluster.time.skew -= 3600
    await cluster.advance(60)
    assert len(cluster.attempts()) == 1


async def test_a_gang_of_which_pods_are_refused_is_suspended_where_the_clock_was_set_back(cluster: Cluster) -> None:
    cluster.apply(gang())
    await cluster.settle()
    limit(cluster, gpu_share="250")
    await cluster.run("create_pods", "count_quota")
    cluster.time.skew -= 3600
    for _ in range(3):
        await cluster.advance(30)
    assert suspended(cluster)
    await cluster.run("stop_suspended", "reap", "count_quota")
    quotas.resize(cluster.server, gpu_share="1000")
    cluster.time.skew -= 3600
    await cluster.advance(60)
    assert not suspended(cluster)


@pytest.mark.parametrize("skew", [-3600, 0, 3600])
async def test_a_pod_that_does_not_start_has_its_time_whatever_the_clock(cluster: Cluster, skew: int) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "hinder")
    cluster.time.skew += skew
    await cluster.advance(290)
    assert labels.ENDED not in cluster.attempts()[0]["metadata"]["annotations"]
    cluster.work.enqueue(cluster.store.keys())
    await cluster.advance(20)
    assert labels.ENDED in cluster.attempts()[0]["metadata"]["annotations"]


@pytest.mark.parametrize("skew", [-3600, 0, 3600])
async def test_a_pod_that_its_agent_refuses_has_its_time_whatever_the_clock(cluster: Cluster, skew: int) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place")
    (pod,) = cluster.server.all("pods")
    refused = {"refused": [{"podUID": pod["metadata"]["uid"], "reason": "no such GPU"}]}
    cluster.server.change("gpunodes", objects.NODE, lambda node: node["status"].update(refused), namespace="")
    await cluster.settle()
    cluster.time.skew += skew
    await cluster.advance(causes.REFUSED_SECONDS - 5)
    assert labels.ENDED not in cluster.attempts()[0]["metadata"]["annotations"]
    cluster.work.enqueue(cluster.store.keys())
    await cluster.advance(10)
    assert labels.ENDED in cluster.attempts()[0]["metadata"]["annotations"]


async def test_a_gang_that_is_refused_is_stopped_although_the_clock_was_ahead_when_it_was_the_last_time(
    cluster: Cluster,
) -> None:
    def is_refused() -> None:
        status = {"startTime": cluster.time.text(), "active": 2}
        cluster.server.change("jobs", "train-1", lambda job: job.setdefault("status", {}).update(status))
        quotas.tell(cluster.server, cluster.attempts()[0], "exceeded quota: hidden", time=cluster.time.text())

    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    is_refused()
    cluster.time.skew = 3600
    await cluster.advance(20)
    assert suspended(cluster)
    cluster.time.skew = 0
    await cluster.run("stop_suspended")
    cluster.server.change("jobs", "train-1", lambda job: job["status"].update(active=0))
    await cluster.advance(20)
    assert not suspended(cluster)
    is_refused()
    for _ in range(6):
        await cluster.advance(30)
        quotas.tell(cluster.server, cluster.attempts()[0], "exceeded quota: hidden", time=cluster.time.text())
    assert suspended(cluster)
