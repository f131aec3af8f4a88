"""Jobs that were there when a fault hit their GPU and nobody knows whose it was: they are told apart."""

import json
from typing import Any

import pytest

from cotenant_api import names
from cotenant_operator import labels
from cotenant_operator.state import suspicions
from cotenant_operator.state.suspicions import Suspicion
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

START = ("create_pods", "place", "run_pods")
END = ("enforce_deadlines", "reap")
ROLL = ("roll_out", "reap", *START)


def job(cluster: Cluster, attempt: int) -> Json:
    return cluster.server.find("jobs", f"train-{attempt}") or {}


def asked(workload: Json) -> tuple[str, str | None]:
    """Share and suspicion of a workload's pods."""
    template = workload["spec"]["template"]
    limits = template["spec"]["containers"][0]["resources"]["limits"]
    return limits[names.GPU_SHARE], template["metadata"]["annotations"].get(names.SUSPECT_SECONDS)


async def hit(cluster: Cluster, *, seconds: float = 0) -> None:
    """The job runs for a while, and is hit."""
    await cluster.run(*START)
    await cluster.advance(seconds)
    await cluster.run("fault_of_unknown_cause", *END)


async def next_attempt(cluster: Cluster, attempt: int) -> Json:
    for _ in range(100):
        if job(cluster, attempt):
            break
        await cluster.advance(5)
    return job(cluster, attempt)


@pytest.mark.parametrize("replicas", [1, 3])
async def test_job_that_may_have_caused_a_fault_shares_no_gpu_with_another_suspect(
    cluster: Cluster, replicas: int
) -> None:
    cluster.apply(objects.dljob(replicas=replicas, backoffLimit=0))
    await hit(cluster, seconds=100)
    message = cluster.condition("Queued")["message"]
    assert "which of its tenants caused it is not known" in message
    assert message.endswith("counts against no limit; it shares no GPU with the others for a while")
    share, apart = asked(await next_attempt(cluster, 2))
    assert (share, apart) == (asked(job(cluster, 1))[0], "200")


async def test_job_that_is_hit_again_gets_a_gpu_to_itself(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await hit(cluster, seconds=100)
    await next_attempt(cluster, 2)
    await hit(cluster, seconds=100)
    assert "it gets a GPU to itself" in cluster.condition("Queued")["message"]
    assert asked(await next_attempt(cluster, 3)) == ("100", None)


async def test_job_that_faults_alone_is_at_fault_and_stays_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=1, replicas=1))
    for attempt in (2, 3):
        await hit(cluster, seconds=100)
        await next_attempt(cluster, attempt)
    await cluster.run(*START, "fault_alone", *START)
    assert asked(job(cluster, 3)) == ("100", None)
    await cluster.run("fault_alone", *END)
    assert cluster.condition("Failed")["reason"] == "BackoffLimitExceeded"


@pytest.mark.parametrize(("seconds", "apart"), [(201, None), (150, "200")])
async def test_job_has_cleared_itself_once_it_ran_on_for_long_enough_and_no_sooner(
    cluster: Cluster, seconds: float, apart: str | None
) -> None:
    cluster.apply(objects.dljob(backoffLimit=0, replicas=3))
    await hit(cluster, seconds=100)
    await next_attempt(cluster, 2)
    await cluster.run(*START)
    await cluster.advance(seconds)
    await cluster.run("evict", *END)
    assert asked(await next_attempt(cluster, 3))[1] == apart


async def test_pod_that_was_started_again_before_its_agent_told_of_the_fault_is_placed_anew(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=3))
    await cluster.run(*START)
    uid = cluster.server.all("pods")[0]["metadata"]["uid"]
    await cluster.run("crash", *START)
    tell(cluster, uid)
    await cluster.run(*END)
    assert asked(await next_attempt(cluster, 2))[1] is not None


async def test_pod_that_has_run_again_for_long_is_left_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=3))
    await cluster.run(*START)
    uid = cluster.server.all("pods")[0]["metadata"]["uid"]
    await cluster.run("crash", *START)
    await cluster.advance(61)
    tell(cluster, uid)
    await cluster.run(*END)
    await cluster.advance(60)
    assert not job(cluster, 2)


async def test_fault_that_only_pods_of_one_job_can_have_caused_is_its_own(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run(*START)
    tell(cluster, cluster.server.all("pods")[0]["metadata"]["uid"], strangers=())
    await cluster.run("crash", *END)
    await cluster.advance(30)
    assert cluster.condition("Failed")["reason"] == "BackoffLimitExceeded"


def tell(
    cluster: Cluster, uid: str, *, strangers: tuple[str, ...] = ("uid-of-a-stranger",), culprit: str | None = None
) -> None:
    """The agent tells of a fault."""
    there = [uid, *strangers]
    named = {"suspectPodUIDs": there} if culprit is None else {"culpritPodUID": culprit}
    fault = {"id": "late", "time": cluster.time.text(), "victimPodUIDs": there, **named}
    node = objects.gpu_node(lastFault=fault)
    cluster.server.change("gpunodes", objects.NODE, lambda value: value.update(status=node["status"]), namespace="")


async def test_service_that_may_have_caused_a_fault_is_rolled_once_for_each(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run(*START)
    share = asked(deployment(cluster))[0]
    await cluster.advance(100)
    await cluster.run("fault_of_unknown_cause")
    rolled = deployment(cluster)
    assert asked(rolled) == (share, "200")
    assert any("it shares no GPU with the others for a while" in text for text in told(cluster))
    await cluster.advance(60)
    assert deployment(cluster) == rolled
    await cluster.run(*ROLL)
    await cluster.advance(100)
    assert asked(deployment(cluster)) == (share, "200")
    await cluster.run("fault_of_unknown_cause")
    assert asked(deployment(cluster)) == ("100", None)
    assert any("it gets a GPU to itself" in text for text in told(cluster))


async def test_the_pod_of_before_leaves_before_a_suspect_service_has_another(cluster: Cluster) -> None:
    """It would go on among new neighbours until the new one can start, and that one waits for its place."""
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run(*START)
    assert "strategy" not in deployment(cluster)["spec"]
    await cluster.run("fault_of_unknown_cause", *ROLL)
    assert deployment(cluster)["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


async def test_another_program_of_a_service_is_no_suspect(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run(*START)
    await cluster.run("fault_of_unknown_cause", *ROLL)
    assert labels.SUSPICION in deployment(cluster)["metadata"]["annotations"]
    cluster.server.change("dljobs", "serve", lambda value: value["spec"].update(batchSize=7))
    await cluster.run(*ROLL)
    assert asked(deployment(cluster))[1] is None
    assert json.loads(deployment(cluster)["metadata"]["annotations"].get(labels.SUSPICION, "null")) is None


def deployment(cluster: Cluster) -> Json:
    return cluster.server.find("deployments", "serve") or {}


def told(cluster: Cluster) -> list[str]:
    return [event["message"] for event in cluster.server.all("events") if event["reason"] == "SuspectedOfFault"]


async def test_service_that_was_there_twice_shares_again_when_it_has_run_alone_for_long(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run(*START)
    share = asked(deployment(cluster))[0]
    for _ in range(2):
        await cluster.run("fault_of_unknown_cause", *ROLL)
    assert asked(deployment(cluster)) == ("100", None)
    await cluster.advance(suspicions.ALONE_SECONDS - 1)
    assert asked(deployment(cluster)) == ("100", None)
    await cluster.advance(1)
    assert asked(deployment(cluster)) == (share, None)
    await cluster.run(*ROLL)
    rolled = deployment(cluster)
    await cluster.advance(suspicions.ALONE_SECONDS)
    assert deployment(cluster) == rolled


async def test_service_that_was_named_for_a_fault_of_its_gpu_stays_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run(*START)
    for _ in range(2):
        await cluster.run("fault_of_unknown_cause", *ROLL)
    (uid,) = (pod["metadata"]["uid"] for pod in cluster.server.all("pods"))
    tell(cluster, uid, strangers=(), culprit=uid)
    await cluster.advance(suspicions.ALONE_SECONDS)
    assert asked(deployment(cluster)) == ("100", None)


async def test_service_that_was_there_at_many_faults_stays_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run(*START)
    for _ in range(suspicions.MOST_FAULTS):
        await cluster.run("fault_of_unknown_cause", *ROLL)
        await cluster.advance(2 * suspicions.ALONE_SECONDS)
        await cluster.run(*ROLL)
    assert asked(deployment(cluster)) == ("100", None)
    assert told(cluster)[-1].endswith("it was there at 4 such faults: it gets a GPU to itself, for good")


@pytest.mark.parametrize(("ran", "faults"), [(100, 2), (200, 2), (201, 1)])
def test_run_of_more_than_twice_as_long_as_before_makes_the_next_fault_the_first(ran: int, faults: int) -> None:
    after = suspicions.after(Suspicion(fault="f1", seconds=100), "f2", ran)
    assert after is not None
    assert (after.faults, after.ever, after.alone, after.fault) == (faults, 2, faults > 1, "f2")


def test_job_is_alone_for_good_after_four_faults_however_long_it_runs_between_them() -> None:
    held, seconds = None, 1
    for number in range(suspicions.MOST_FAULTS):
        assert held is None or not held.alone
        held = suspicions.after(suspicions.after(held, None, 10 * seconds), f"f{number}", seconds)
        seconds *= 10
    assert held is not None
    assert held.alone
    assert suspicions.after(held, None, 10**9) == held.cleared()
    assert held.cleared().alone


def test_job_that_was_hit_by_nothing_is_no_suspect() -> None:
    assert suspicions.after(None, None, 100) is None
    cleared = suspicions.after(Suspicion(fault="f", seconds=100), None, 201)
    assert cleared is not None
    assert not cleared.suspected


@pytest.mark.parametrize(("ran", "apart"), [(0, 60), (29, 60), (100, 200), (10**6, 1800)])
def test_suspects_are_apart_for_twice_as_long_as_they_had_run_within_bounds(ran: int, apart: int) -> None:
    held = suspicions.after(None, "f", ran)
    assert held is not None
    assert held.apart_seconds == apart


@pytest.mark.parametrize("text", [None, "", "[]", '{"faults":-1,"fault":"f"}', '{"v":9,"fault":"f"}'])
def test_suspicion_that_somebody_spoilt_is_none(text: str | None) -> None:
    assert suspicions.read(text) is None


def test_suspicion_is_read_as_it_was_written() -> None:
    written = Suspicion(faults=2, fault="f", seconds=7)
    assert suspicions.read(written.to_json()) == written
