"""A training job's life: attempts, suspension, deadlines, the end. Against a cluster in memory."""

from typing import Any

import pytest

from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]


def jobs(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.server.all("jobs")]


def set_spec(cluster: Cluster, name: str = "train", **fields: Any) -> None:
    cluster.server.change("dljobs", name, lambda value: value.update(spec={**value["spec"], **fields}))


async def test_job_goes_from_apply_to_complete(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    status = cluster.dljob()["status"]
    assert status["phase"] == "Succeeded"
    assert cluster.condition("Complete")["status"] == "True"
    assert status["completionTime"]
    assert status["attempts"] == 1
    assert cluster.events() == ["Created", "Completed"]


async def test_phases_follow_the_pods(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    phases = []
    for step in ("create_pods", "place", "run_pods", "succeed"):
        await cluster.run(step)
        phases.append(cluster.dljob()["status"]["phase"])
    assert phases == ["Queued", "Running", "Running", "Succeeded"]


async def test_a_whole_life_takes_at_most_eight_requests(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    cluster.server.requests.clear()
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    asked = [f"{request.method} {request.path.rsplit('/', 2)[-2]}" for request in cluster.server.requests]
    assert len(asked) <= 8, asked


async def test_a_finished_job_costs_no_requests(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    cluster.server.requests.clear()
    cluster.work.enqueue(cluster.store.keys())
    await cluster.advance(3600)
    assert cluster.server.requests == []


async def test_a_finished_job_never_starts_again_when_its_job_is_deleted(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    cluster.server.delete("jobs", "train-1")
    await cluster.advance(60)
    assert jobs(cluster) == []
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_deleted_job_of_a_living_dljob_is_made_again_as_the_same_attempt(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    cluster.server.delete("jobs", "train-1")
    await cluster.settle()
    assert jobs(cluster) == ["train-1"]
    assert cluster.dljob()["status"]["attempts"] == 1


async def test_no_job_is_made_while_a_pod_of_the_former_one_lives(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.delete("jobs", "train-1")
    await cluster.settle()
    assert jobs(cluster) == []
    assert cluster.condition("Queued")["reason"] == "PreviousPodsEnding"
    await cluster.run("reap")
    assert jobs(cluster) == ["train-1"]


async def test_failed_single_replica_fails_the_dljob_with_the_cause(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run("create_pods", "place", "run_pods", "fail")
    failed = cluster.condition("Failed")
    assert (failed["status"], failed["reason"]) == ("True", "BackoffLimitExceeded")
    assert "exit code 1" in failed["message"]
    assert jobs(cluster) == ["train-1"]


async def test_failed_gang_is_tried_again_after_a_while(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run("create_pods", "place", "run_pods", "fail")
    assert jobs(cluster) == ["train-1"]
    assert cluster.condition("Queued")["reason"] == "RestartBackoff"
    await cluster.advance(10)
    assert jobs(cluster) == ["train-1", "train-2"]
    assert cluster.events() == ["Created", "AttemptFailed", "Created"]


async def test_gang_fails_when_its_backoff_limit_is_used_up(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2, backoffLimit=1))
    await cluster.run("create_pods", "place", "run_pods", "fail")
    await cluster.advance(10)
    await cluster.run("create_pods", "place", "run_pods", "fail")
    await cluster.advance(600)
    assert jobs(cluster) == ["train-1", "train-2"]
    failed = cluster.condition("Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert "backoffLimit 1 is used up" in failed["message"]


async def test_time_between_attempts_doubles_and_is_bounded(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2, backoffLimit=8))
    waits = []
    for attempt in range(1, 8):
        await cluster.run("create_pods", "place", "run_pods", "fail")
        start = cluster.time.seconds
        while f"train-{attempt + 1}" not in jobs(cluster):
            await cluster.advance(10)
        waits.append(cluster.time.seconds - start)
    assert waits == [10, 20, 40, 80, 160, 320, 360]


async def test_suspending_stops_the_job_and_resuming_starts_it(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    set_spec(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    assert (cluster.server.find("jobs", "train-1") or {})["spec"]["suspend"] is True
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    set_spec(cluster, suspend=False)
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert cluster.events() == ["Created", "Suspended", "Resumed", "Completed"]


async def test_a_job_applied_suspended_is_predicted_and_not_made(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(suspend=True))
    await cluster.settle()
    assert jobs(cluster) == []
    assert cluster.condition("Predicted")["status"] == "True"
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    set_spec(cluster, suspend=False)
    await cluster.settle()
    assert jobs(cluster) == ["train-1"]


async def test_a_job_that_another_controller_admits_is_left_suspended(cluster: Cluster) -> None:
    value = objects.dljob()
    value["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    cluster.apply(value)
    await cluster.settle()
    job = cluster.server.find("jobs", "train-1") or {}
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert cluster.condition("Queued")["reason"] == "WaitingForAdmission"


async def test_deadline_counts_from_the_first_placement(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=100))
    await cluster.run("create_pods")
    await cluster.advance(1000)
    await cluster.run("place", "run_pods")
    await cluster.advance(99)
    assert "activeDeadlineSeconds" not in (cluster.server.find("jobs", "train-1") or {})["spec"]
    await cluster.advance(1)
    await cluster.run("enforce_deadlines")
    failed = cluster.condition("Failed")
    assert failed["reason"] == "DeadlineExceeded"
    assert "100 s" in failed["message"]


async def test_finished_job_is_deleted_when_its_time_is_over(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(ttlSecondsAfterFinished=60))
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    await cluster.advance(59)
    assert cluster.dljob()
    await cluster.advance(1)
    assert not cluster.dljob()
    assert jobs(cluster) == []


async def test_job_with_a_time_to_live_of_zero_goes_at_once(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(ttlSecondsAfterFinished=0))
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    assert not cluster.dljob()


async def test_changed_spec_of_a_running_job_is_told_once_and_not_applied(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    before = cluster.server.find("jobs", "train-1")
    set_spec(cluster, gpuMemory="3Gi")
    await cluster.settle()
    await cluster.advance(60)
    assert cluster.server.find("jobs", "train-1") == before
    assert cluster.events().count("SpecChangeIgnored") == 1
    assert cluster.dljob()["status"]["observedGeneration"] == 2


async def test_a_changed_deadline_is_no_ignored_change(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    set_spec(cluster, activeDeadlineSeconds=10)
    await cluster.settle()
    assert "SpecChangeIgnored" not in cluster.events()


async def test_a_changed_backoff_limit_goes_to_the_running_job(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run("create_pods")
    set_spec(cluster, backoffLimit=4)
    await cluster.settle()
    assert (cluster.server.find("jobs", "train-1") or {})["spec"]["backoffLimit"] == 4
    assert "SpecChangeIgnored" not in cluster.events()


async def test_nothing_is_done_for_a_dljob_that_is_being_deleted(cluster: Cluster) -> None:
    value = objects.dljob()
    value["metadata"]["deletionTimestamp"] = cluster.time.text()
    cluster.apply(value)
    cluster.server.requests.clear()
    await cluster.settle()
    assert cluster.server.requests == []


async def test_dljob_made_again_under_its_name_does_not_take_over_the_old_pods(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.delete("dljobs", "train")
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert len(jobs(cluster)) == 1
    owner = cluster.server.all("jobs")[0]["metadata"]["ownerReferences"][0]["uid"]
    assert owner == cluster.dljob()["metadata"]["uid"]
    assert cluster.condition("Placed")["status"] == "False"


@pytest.mark.parametrize("replicas", [1, 3])
async def test_pods_that_are_placed_are_listed_with_their_gpus(cluster: Cluster, replicas: int) -> None:
    cluster.apply(objects.dljob(replicas=replicas))
    await cluster.run("create_pods", "place")
    listed = cluster.dljob()["status"]["replicas"]
    assert [replica["index"] for replica in listed] == list(range(replicas))
    assert {replica["node"] for replica in listed} == {"n1"}
    assert {gpu["uuid"] for replica in listed for gpu in replica["gpus"]} == {"GPU-1"}
