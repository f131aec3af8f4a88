"""Attempts and their ends: what counts, what does not, and what the next one gets. Against a cluster in memory."""

import json
from typing import Any

import pytest

from cotenant_api import dljob, names
from cotenant_operator import labels
from cotenant_operator.workloads import builders
from operator_kit import ends, objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

START = ("create_pods", "place", "run_pods")
END = ("enforce_deadlines", "reap")


def jobs(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.server.all("jobs")]


def job(cluster: Cluster, name: str) -> Json:
    return cluster.server.find("jobs", name) or {}


def carried(cluster: Cluster, name: str) -> Json:
    return dict(json.loads(job(cluster, name)["metadata"]["annotations"][labels.CARRIED]))


@pytest.mark.parametrize("replicas", [1, 3])
async def test_pods_that_never_started_are_made_again_and_count_against_no_limit(
    cluster: Cluster, replicas: int
) -> None:
    cluster.apply(objects.dljob(replicas=replicas, backoffLimit=0))
    waits = []
    for attempt in range(1, 4):
        await cluster.run("create_pods", "place", "never_start", *END)
        start = cluster.time.seconds
        while f"train-{attempt + 1}" not in jobs(cluster):
            await cluster.advance(5)
        waits.append(cluster.time.seconds - start)
    assert waits == [10, 20, 40]
    assert carried(cluster, "train-4")["failures"] == 0
    await cluster.run(*START, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_why_a_pod_could_not_start_is_told(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "never_start", *END)
    queued = cluster.condition("Queued")
    assert queued["reason"] == "RestartBackoff"
    assert "before any container started: UnexpectedAdmissionError" in queued["message"]
    assert queued["message"].endswith("the next attempt follows after 10 s and counts against no limit")
    assert cluster.events().count("AttemptFailed") == 1


@pytest.mark.parametrize("replicas", [1, 3])
async def test_victims_of_anothers_fault_are_made_again_and_count_against_no_limit(
    cluster: Cluster, replicas: int
) -> None:
    cluster.apply(objects.dljob(replicas=replicas, backoffLimit=0))
    await cluster.run(*START, "fault", *END)
    assert "victim of another tenant's fault" in cluster.condition("Queued")["message"]
    await cluster.advance(10)
    assert jobs(cluster) == ["train-1", "train-2"]
    await cluster.run(*START, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


def publish(cluster: Cluster, **gpu: Any) -> None:
    """A stranger is on the GPU; and what else its agent tells."""
    stranger = {"podUID": ends.STRANGER, "namespace": "other", "pod": "stranger"}
    node = objects.gpu_node(tenants=(stranger,), **gpu)
    cluster.server.change("gpunodes", objects.NODE, lambda value: value.update(status=node["status"]), namespace="")


async def test_a_fault_told_late_is_waited_for_before_a_job_with_company_is_given_up(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run(*START)
    publish(cluster)
    await cluster.run("crash")
    assert "Failed" not in {item["type"] for item in cluster.dljob()["status"]["conditions"]}
    victim = cluster.server.all("pods")[0]["metadata"]["uid"]
    publish(cluster, lastFault={"id": "f1", "time": cluster.time.text(), "victimPodUIDs": [victim]})
    await cluster.advance(10)
    assert "train-2" in jobs(cluster)


async def test_a_job_with_company_and_no_fault_is_given_up_in_the_end(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run(*START)
    publish(cluster)
    await cluster.run("crash")
    await cluster.advance(10)
    assert cluster.condition("Failed")["reason"] == "BackoffLimitExceeded"


async def test_ordinary_failures_of_a_single_replica_are_the_job_controllers(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=2))
    for _ in range(2):
        await cluster.run(*START, "crash")
    assert jobs(cluster) == ["train-1"]
    await cluster.run(*START, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_the_next_attempt_of_a_single_replica_has_what_was_left_of_its_limit(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=3))
    await cluster.run(*START, "crash", *START, "crash", "create_pods", "place", "never_start", *END)
    await cluster.advance(10)
    assert job(cluster, "train-2")["spec"]["backoffLimit"] == 1
    assert carried(cluster, "train-2") == {
        "exclusive": False, "failures": 2, "memoryMiB": None, "outOfMemory": 0, "uncounted": 1, "v": 1
    }  # fmt: skip
    await cluster.run(*START, "crash", *START, "crash")
    assert cluster.condition("Failed")["reason"] == "BackoffLimitExceeded"


async def test_what_the_job_controller_counted_while_nobody_looked_is_given_back(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=1))
    await cluster.run("create_pods", "place")
    cluster.never_start()
    for program in START:
        getattr(cluster, program)()
    cluster.crash()
    await cluster.run(*END)
    await cluster.advance(10)
    assert jobs(cluster) == ["train-1", "train-2"]
    assert job(cluster, "train-2")["spec"]["backoffLimit"] == 0


async def test_counted_failures_of_a_gang_go_on_counting_across_uncounted_ones(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2, backoffLimit=1))
    await cluster.run(*START, "crash")
    await cluster.advance(10)
    await cluster.run("create_pods", "place", "never_start", *END)
    await cluster.advance(10)
    assert carried(cluster, "train-3") == {**carried(cluster, "train-3"), "failures": 1, "uncounted": 1}
    await cluster.run(*START, "crash")
    assert cluster.condition("Failed")["reason"] == "BackoffLimitExceeded"
    assert jobs(cluster) == ["train-1", "train-2", "train-3"]


async def test_a_gang_that_lost_a_running_member_to_an_eviction_begins_anew_uncounted(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2, backoffLimit=0))
    await cluster.run(*START, "evict", *END)
    assert "taken away (EvictionByEvictionAPI)" in cluster.condition("Queued")["message"]
    await cluster.advance(10)
    await cluster.run(*START, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_an_evicted_single_replica_is_replaced_by_the_job_controller(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run(*START, "evict", *START, "succeed")
    assert jobs(cluster) == ["train-1"]
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_pod_that_its_agent_refuses_for_good_is_not_waited_for_for_ever(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place")
    uid = cluster.server.all("pods")[0]["metadata"]["uid"]
    refused = [{"podUID": uid, "reason": "UnknownGPU: GPU-1"}]
    cluster.server.change("gpunodes", objects.NODE, lambda node: node["status"].update(refused=refused), namespace="")
    await cluster.advance(89)
    assert "activeDeadlineSeconds" not in job(cluster, "train-1")["spec"]
    await cluster.advance(1)
    await cluster.run(*END)
    assert "cannot start on node n1: UnknownGPU: GPU-1" in cluster.condition("Queued")["message"]


async def test_old_attempts_do_not_pile_up(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    for _ in range(8):
        await cluster.run("create_pods", "place", "never_start", *END)
        await cluster.advance(400)
    assert jobs(cluster) == ["train-6", "train-7", "train-8", "train-9"]
    assert cluster.dljob()["status"]["attempts"] == 9


async def test_an_attempt_made_again_takes_over_the_same(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*START, "run_out_of_memory", *END)
    before = carried(cluster, "train-2")
    cluster.server.delete("jobs", "train-2")
    await cluster.settle()
    assert jobs(cluster) == ["train-1", "train-2"]
    assert carried(cluster, "train-2") == before


async def test_pods_of_before_a_suspension_say_nothing(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "never_start")
    cluster.time.seconds += 5
    resumed = cluster.time.text()

    def resume(value: Json) -> None:
        value["status"] = {"startTime": resumed, "failed": 1}
        value["spec"].pop("activeDeadlineSeconds")
        value["metadata"]["annotations"].pop(labels.ENDED)

    cluster.server.change("jobs", "train-1", resume)
    await cluster.run(*START, "succeed")
    assert jobs(cluster) == ["train-1"]
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_member_that_was_taken_away_unstarted_does_not_hide_the_failure_of_another(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2, backoffLimit=0))
    await cluster.run("create_pods", "place")
    first, second = (pod["metadata"]["name"] for pod in cluster.server.all("pods"))
    time = cluster.time.text()
    failed = [{"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]
    cluster.server.change("pods", first, lambda pod: pod["status"].update(phase="Failed", containerStatuses=failed))
    cluster.server.change("pods", second, lambda pod: pod["metadata"].update(deletionTimestamp=time))
    cluster.server.change("pods", second, lambda pod: pod["status"].update(phase="Failed"))
    await cluster.settle()
    await cluster.run("count_failures")
    assert cluster.condition("Failed")["reason"] == "BackoffLimitExceeded"


async def test_a_gang_has_its_service_before_its_pods_and_one_of_another_owner_is_named(cluster: Cluster) -> None:
    cluster.apply({"metadata": {"name": "gang-train"}, "spec": {}}, plural="services")
    cluster.apply(objects.dljob(replicas=2))
    await cluster.settle()
    assert jobs(cluster) == []
    queued = cluster.condition("Queued")
    assert (queued["reason"], "Service gang-train" in queued["message"]) == ("NameTaken", True)
    cluster.server.delete("services", "gang-train")
    await cluster.advance(30)
    assert jobs(cluster) == ["train-1"]
    owner = (cluster.server.find("services", "gang-train") or {})["metadata"]["ownerReferences"][0]
    assert owner["uid"] == cluster.dljob()["metadata"]["uid"]


async def test_a_service_that_claims_to_be_of_the_dljob_and_selects_other_pods_is_not_taken_for_its_own(
    cluster: Cluster,
) -> None:
    made = cluster.apply(objects.dljob(replicas=2))
    owner = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "train", "uid": made["metadata"]["uid"]}
    forged = {"name": "gang-train", "ownerReferences": [{**owner, "controller": True}]}
    cluster.apply({"metadata": forged, "spec": {"selector": {"app": "thief"}}}, plural="services")
    await cluster.settle()
    assert jobs(cluster) == []
    queued = cluster.condition("Queued")
    assert (queued["reason"], "does not select the pods of this DLJob" in queued["message"]) == ("NameTaken", True)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_an_exit_code_for_which_the_policy_says_so_ends_the_job_with_its_first_attempt(
    cluster: Cluster, replicas: int
) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
    cluster.apply(objects.dljob(replicas=replicas, podFailurePolicy={"rules": [rule]}))
    await cluster.run("create_pods", "place", "run_pods")
    (job,) = cluster.attempts()
    assert [found["action"] for found in job["spec"]["podFailurePolicy"]["rules"]] == ["Ignore", "FailJob"]
    cluster.end_job(job["metadata"]["name"], "Failed", reason="PodFailurePolicy")
    await cluster.advance(400)
    assert cluster.condition("Failed")["reason"] == "PodFailurePolicy"
    assert len(cluster.attempts()) == 1


async def test_exit_codes_of_pods_that_end_because_they_are_suspended_match_no_policy(cluster: Cluster) -> None:
    """A pod that gets SIGTERM ends with 143, or as its program likes."""
    rule = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [75]}}
    cluster.apply(objects.dljob(podFailurePolicy={"rules": [rule]}))
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=True))
    await cluster.settle()
    for pod in cluster.server.all("pods"):
        cluster.server.change("pods", pod["metadata"]["name"], lambda value: value["status"].update(phase="Failed"))
    cluster.end_job("train-1", "Failed", reason="PodFailurePolicy")
    await cluster.settle()
    assert cluster.condition("Failed") == {}
    ended = json.loads(cluster.attempts()[0]["metadata"]["annotations"][labels.ENDED])
    assert ended["cause"] == "Suspended"


@pytest.mark.parametrize("resumed", ["its controller has not noticed yet", "and started again"])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_exit_codes_of_pods_that_were_suspended_match_no_policy_after_a_resumption(
    cluster: Cluster, replicas: int, resumed: str
) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [75]}}
    cluster.apply(objects.dljob(replicas=replicas, podFailurePolicy={"rules": [rule]}))
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=True))
    await cluster.run("stop_suspended")
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=False))
    await cluster.advance(10)
    for pod in cluster.server.all("pods"):
        cluster.server.change("pods", pod["metadata"]["name"], lambda value: value["status"].update(phase="Failed"))
    if resumed == "and started again":
        cluster.server.change("jobs", "train-1", lambda value: value["spec"].update(suspend=False))
        started = {"startTime": cluster.time.text()}
        cluster.server.change("jobs", "train-1", lambda value: value.update(status=started))
    await cluster.settle()
    assert cluster.attempts()[0]["spec"]["suspend"] is False
    cluster.end_job("train-1", "Failed", reason="PodFailurePolicy")
    await cluster.advance(400)
    assert cluster.condition("Failed") == {}
    assert cluster.dljob()["status"]["attempts"] == 2


async def test_an_exit_code_of_a_pod_after_a_resumption_ends_the_job(cluster: Cluster) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
    cluster.apply(objects.dljob(podFailurePolicy={"rules": [rule]}))
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=True))
    await cluster.run("stop_suspended", "reap")
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=False))
    await cluster.advance(10)
    await cluster.run("create_pods", "place", "run_pods")
    (pod,) = cluster.server.all("pods")
    cluster.server.change("pods", pod["metadata"]["name"], lambda value: value["status"].update(phase="Failed"))
    cluster.end_job("train-1", "Failed", reason="PodFailurePolicy")
    await cluster.advance(400)
    assert cluster.condition("Failed")["reason"] == "PodFailurePolicy"


def test_exit_codes_are_in_the_order_that_a_job_asks_for() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42, 3]}}
    spec = dljob.Spec.model_validate(objects.dljob(podFailurePolicy={"rules": [rule]})["spec"])
    (found,) = builders._failure_rules(spec)
    assert found["onExitCodes"]["values"] == [3, 42]
