"""Gangs that have succeeded before all of their members have. Against a cluster in memory."""

from typing import Any

import pytest

from cotenant_api import dljob, success
from cotenant_operator import labels
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

LEADER: Json = {"rules": [{"succeededIndexes": "0"}]}
ANY: Json = {"rules": [{"succeededCount": 1}]}


def job(cluster: Cluster, attempt: int = 1) -> Json:
    return cluster.server.find("jobs", f"gang-{attempt}") or {}


def member(cluster: Cluster, index: int, attempt: int = 1) -> Json:
    name = f"gang-{attempt}-{index}-"
    return next(pod for pod in cluster.server.all("pods") if pod["metadata"]["name"].startswith(name))


def take_away(cluster: Cluster, index: int, reason: str | None = "EvictionByEvictionAPI") -> None:
    """Somebody evicts a member, or deletes it (no reason): it is asked to end, and runs until it has."""
    name = member(cluster, index)["metadata"]["name"]
    target = [{"type": "DisruptionTarget", "status": "True", "reason": reason}] if reason else []
    cluster.server.change("pods", name, lambda pod: pod["status"]["conditions"].extend(target))
    cluster.server.delete("pods", name)


def end_well(cluster: Cluster, index: int) -> None:
    name = member(cluster, index)["metadata"]["name"]
    ended = {"exitCode": 0, "finishedAt": cluster.time.text()}
    states = [{"name": "main", "state": {"terminated": ended}}]
    status = {"phase": "Succeeded", "containerStatuses": states}
    cluster.server.change("pods", name, lambda pod: pod["status"].update(status))


async def begin(cluster: Cluster, policy: Json = LEADER, **fields: Any) -> Cluster:
    cluster.apply(objects.dljob("gang", replicas=3, successPolicy=policy, **fields))
    await cluster.run("create_pods", "place", "run_pods")
    return cluster


@pytest.fixture
async def gang(cluster: Cluster) -> Cluster:
    """A gang whose leader decides, running."""
    return await begin(cluster)


def check_success(cluster: Cluster) -> None:
    status = cluster.dljob("gang")["status"]
    assert (status["phase"], status["attempts"], status["failures"]) == ("Succeeded", 1, 0)
    complete = cluster.condition(dljob.COMPLETE, name="gang")
    assert (complete["status"], complete["reason"]) == ("True", "SuccessPolicy")
    assert "AttemptFailed" not in cluster.events()
    assert labels.ENDED not in job(cluster)["metadata"]["annotations"]


def check_second_attempt(cluster: Cluster) -> None:
    assert job(cluster, 2)
    assert cluster.dljob("gang")["status"]["attempts"] == 2
    assert cluster.dljob("gang")["status"]["failures"] == 0


async def test_the_policy_is_that_of_the_job(cluster: Cluster) -> None:
    await begin(cluster, {"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}, {"succeededCount": 3}]})
    assert job(cluster)["spec"]["successPolicy"] == cluster.dljob("gang")["spec"]["successPolicy"]


async def test_a_gang_without_a_policy_has_none(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("gang", replicas=3))
    await cluster.settle()
    assert "successPolicy" not in job(cluster)["spec"]


@pytest.mark.parametrize("end", ["leave", "reap"], ids=["the others end with 0", "the others fail when they are ended"])
async def test_a_gang_whose_leader_is_done_has_succeeded(gang: Cluster, end: str) -> None:
    """Also while the others are being deleted and the Job does not say why yet."""
    await gang.run("lead")
    assert gang.dljob("gang")["status"]["phase"] == "Running"
    await gang.run("delete_others")
    await gang.advance(60)
    assert labels.ENDED not in job(gang)["metadata"]["annotations"]
    assert "activeDeadlineSeconds" not in job(gang)["spec"]
    await gang.run("judge", end, "conclude")
    check_success(gang)


async def test_it_has_succeeded_whenever_the_operator_starts_again(gang: Cluster) -> None:
    for step in ("lead", "delete_others", "judge", "leave", "conclude"):
        getattr(gang, step)()
        gang.restart()
        await gang.start()
        await gang.settle()
    check_success(gang)


async def test_it_has_succeeded_while_no_operator_runs(gang: Cluster) -> None:
    for step in ("lead", "judge", "leave", "conclude"):
        getattr(gang, step)()
    gang.restart()
    await gang.start()
    await gang.settle()
    check_success(gang)


async def test_members_that_are_evicted_after_the_policy_is_met_say_nothing(gang: Cluster) -> None:
    await gang.run("lead", "judge")
    gang.disrupt()
    await gang.run("leave", "conclude")
    check_success(gang)


async def test_a_gang_is_done_although_a_member_was_taken_away_when_its_leader_had_ended(gang: Cluster) -> None:
    """The Job controller has not looked yet: the leader was done before."""
    gang.lead()
    take_away(gang, 1)
    await gang.settle()
    await gang.run("judge", "leave", "conclude")
    check_success(gang)


async def test_a_gang_that_was_disrupted_before_its_leader_was_done_begins_anew(gang: Cluster) -> None:
    """What is written on the Job first decides: the attempt is being ended, and the leader ends with 0 after that."""
    take_away(gang, 1)
    await gang.settle()
    assert labels.ENDED in job(gang)["metadata"]["annotations"]
    gang.lead()
    await gang.run("judge", "enforce_deadlines", "reap")
    await gang.advance(400)
    check_second_attempt(gang)


async def test_a_gang_that_was_ended_as_disrupted_is_not_done_by_a_policy_that_is_met_later(gang: Cluster) -> None:
    """A Job that has just begun may be complete before its deadline is over."""
    take_away(gang, 1)
    await gang.settle()
    gang.lead()
    take_away(gang, 2, reason=None)
    gang.end_job("gang-1", "Complete", reason="SuccessPolicy")
    await gang.run("reap")
    await gang.advance(400)
    check_second_attempt(gang)


@pytest.mark.parametrize("reason", ["EvictionByEvictionAPI", None], ids=["evicted", "deleted"])
async def test_a_leader_that_ended_well_because_it_was_stopped_is_not_done(gang: Cluster, reason: str | None) -> None:
    """The Job controller counts it, and its sync comes before the operator has seen anything."""
    take_away(gang, 0, reason)
    end_well(gang, 0)
    gang.judge()
    await gang.settle()
    await gang.run("leave", "conclude", "reap")
    await gang.advance(400)
    check_second_attempt(gang)


async def test_a_stopped_member_does_not_count_towards_the_policy(cluster: Cluster) -> None:
    gang = await begin(cluster, {"rules": [{"succeededCount": 2}]})
    gang.lead()
    take_away(gang, 1)
    end_well(gang, 1)
    gang.judge()
    await gang.settle()
    await gang.run("leave", "conclude", "reap")
    await gang.advance(400)
    check_second_attempt(gang)


async def test_any_member_may_meet_a_policy_of_a_count(cluster: Cluster) -> None:
    gang = await begin(cluster, ANY)
    end_well(gang, 2)
    await gang.run("judge", "reap", "conclude")
    check_success(gang)


async def test_a_member_that_is_done_while_the_policy_is_not_met_ends_nothing(cluster: Cluster) -> None:
    gang = await begin(cluster)
    end_well(gang, 2)
    await gang.run("judge", "create_pods")
    assert gang.dljob("gang")["status"]["phase"] == "Running"
    await gang.run("lead", "judge", "reap", "conclude")
    check_success(gang)


@pytest.mark.parametrize("seen", [True, False])
async def test_a_job_that_is_suspended_after_its_policy_was_met_has_succeeded(gang: Cluster, seen: bool) -> None:
    gang.lead()
    gang.judge()
    if seen:
        await gang.settle()
    gang.server.change("dljobs", "gang", lambda value: value["spec"].update(suspend=True))
    await gang.run("stop_suspended", "leave", "conclude")
    check_success(gang)


async def test_members_that_were_suspended_before_the_policy_was_met_are_not_done(gang: Cluster) -> None:
    gang.server.change("dljobs", "gang", lambda value: value["spec"].update(suspend=True))
    await gang.run("stop_suspended")
    await gang.run("leave", "judge", "conclude")
    gang.server.change("dljobs", "gang", lambda value: value["spec"].update(suspend=False))
    await gang.advance(400)
    check_second_attempt(gang)


async def test_a_job_whose_policy_was_met_before_somebody_suspended_it_has_succeeded(gang: Cluster) -> None:
    """Kueue, say, stops the members that are still in their grace period."""
    await gang.run("lead", "judge")
    gang.time.seconds += 2
    gang.server.change("jobs", "gang-1", lambda value: value["spec"].update(suspend=True))
    await gang.run("stop_suspended", "leave", "conclude")
    check_success(gang)


async def test_a_job_whose_policy_was_met_in_the_second_of_its_suspension_is_not_done(gang: Cluster) -> None:
    await gang.run("lead")
    gang.server.change("jobs", "gang-1", lambda value: value["spec"].update(suspend=True))
    gang.server.change("jobs", "gang-1", lambda job: job["status"].update(conditions=[suspended(gang)]))
    gang.judge()
    await gang.run("leave", "conclude", "reap")
    await gang.advance(400)
    check_second_attempt(gang)


def suspended(cluster: Cluster) -> Json:
    return {"type": "Suspended", "status": "True", "lastTransitionTime": cluster.time.text()}


async def test_a_worker_that_fails_before_the_leader_is_done_fails_the_attempt(gang: Cluster) -> None:
    gang.fail()
    await gang.settle()
    await gang.advance(10)
    assert gang.dljob("gang")["status"]["failures"] == 1


async def test_a_changed_policy_waits_for_a_next_attempt(gang: Cluster) -> None:
    gang.server.change("dljobs", "gang", lambda value: value["spec"].update(successPolicy=ANY))
    await gang.settle()
    assert job(gang)["spec"]["successPolicy"] == LEADER
    assert gang.condition(dljob.CURRENT, name="gang")["reason"] == "SpecChangeIgnored"


@pytest.mark.parametrize(
    ("rules", "succeeded", "met"),
    [
        ([{"succeededIndexes": "0"}], {0}, True),
        ([{"succeededIndexes": "0"}], {1, 2}, False),
        ([{"succeededIndexes": "0,2-4"}], {0, 2, 3}, False),
        ([{"succeededIndexes": "0,2-4"}], {0, 2, 3, 4}, True),
        ([{"succeededIndexes": "1-4", "succeededCount": 3}], {1, 3, 5}, False),
        ([{"succeededIndexes": "1-4", "succeededCount": 3}], {1, 3, 4}, True),
        ([{"succeededCount": 2}], {7}, False),
        ([{"succeededCount": 2}], {7, 9}, True),
        ([{"succeededCount": 9}, {"succeededIndexes": "7"}], {7}, True),
        ([{"succeededCount": 1}], set(), False),
    ],
)
def test_a_policy_is_met_as_the_job_controller_has_it(rules: list[Json], succeeded: set[int], met: bool) -> None:
    """The example of k8s.io/api/batch/v1 among them."""
    policy = success.SuccessPolicy.model_validate({"rules": rules})
    assert success.is_met(policy, frozenset(succeeded)) is met


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "0,,1", "1-2-3", "٣", "99999", "0-99999"])
def test_indexes_that_cannot_be_read_are_none(text: str) -> None:
    assert success.indexes(text) == frozenset()
