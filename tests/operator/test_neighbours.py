"""Fields that Kueue, autoscalers and people write, too: each writes once, and nobody undoes the other."""

from typing import Any

import pytest

from cotenant_operator import labels
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.neighbours import QUEUE, SCALED

Json = dict[str, Any]
RUN = ("create_pods", "place", "run_pods")


def edit(cluster: Cluster, name: str = "train", **fields: Any) -> None:
    cluster.server.change("dljobs", name, lambda value: value.update(spec={**value["spec"], **fields}))


def jobs(cluster: Cluster) -> dict[str, bool]:
    """Whether each Job is suspended."""
    return {job["metadata"]["name"]: bool(job["spec"].get("suspend")) for job in cluster.attempts()}


def deployment(cluster: Cluster) -> Json:
    return dict(cluster.server.find("deployments", "serve") or {})


async def queued(cluster: Cluster, **spec: Any) -> None:
    value = objects.dljob(**spec)
    value["metadata"]["labels"] = {QUEUE: "team"}
    cluster.apply(value)
    await cluster.settle()


async def test_a_job_that_waits_in_a_queue_leaves_it_when_its_dljob_is_suspended(cluster: Cluster) -> None:
    await queued(cluster)
    assert jobs(cluster) == {"train-1": True}
    edit(cluster, suspend=True)
    await cluster.run("admit")
    assert jobs(cluster) == {}
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    edit(cluster, suspend=False)
    await cluster.run("admit", *RUN, "succeed")
    assert (cluster.dljob()["status"]["phase"], jobs(cluster)) == ("Succeeded", {"train-1": False})


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_job_that_kueue_runs_is_ended_and_followed_when_its_dljob_goes_on(
    cluster: Cluster, replicas: int
) -> None:
    await queued(cluster, replicas=replicas, backoffLimit=0)
    await cluster.run("admit", *RUN)
    edit(cluster, suspend=True)
    for _ in range(3):
        await cluster.run("admit", "leave", "enforce_deadlines", "reap")
        await cluster.advance(60)
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    (job,) = cluster.attempts()
    assert job["status"]["conditions"][0]["type"] == "Failed"
    edit(cluster, suspend=False)
    await cluster.run("admit", *RUN, "succeed")
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], status["failures"]) == ("Succeeded", 2, 0)
    assert "AttemptFailed" not in cluster.events()


async def test_what_a_queued_job_has_learned_of_its_memory_is_kept_over_a_suspension(cluster: Cluster) -> None:
    await queued(cluster)
    await cluster.run("admit", *RUN, "run_out_of_memory", "enforce_deadlines", "reap")
    assert list(jobs(cluster)) == ["train-1", "train-2"]
    before = cluster.attempts()[1]["metadata"]["annotations"][labels.CARRIED]
    edit(cluster, suspend=True)
    await cluster.settle()
    assert list(jobs(cluster)) == ["train-1"]
    edit(cluster, suspend=False)
    await cluster.settle()
    assert cluster.attempts()[1]["metadata"]["annotations"][labels.CARRIED] == before


async def test_a_job_that_another_suspends_waits_for_him_and_says_so(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "hold", "stop_suspended", "reap")
    await cluster.advance(400)
    assert jobs(cluster) == {"train-1": True}
    queue = cluster.condition("Queued")
    assert (queue["status"], queue["reason"]) == ("True", "WaitingForAdmission")
    assert QUEUE in queue["message"]
    await cluster.run("admit", *RUN, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_dljob_that_is_suspended_and_resumed_resumes_what_another_suspended(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "hold", "stop_suspended", "reap")
    for suspend in (True, False):
        edit(cluster, suspend=suspend)
        await cluster.settle()
    assert jobs(cluster) == {"train-1": False}


async def test_the_job_of_a_suspended_dljob_that_another_resumes_is_ended(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    cluster.server.change("jobs", "train-1", lambda value: value["spec"].update(suspend=False))
    await cluster.run("create_pods", "enforce_deadlines", "reap")
    assert cluster.attempts()[0]["status"]["conditions"][0]["type"] == "Failed"
    edit(cluster, suspend=False)
    await cluster.run(*RUN, "succeed")
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], status["failures"]) == ("Succeeded", 2, 0)


async def test_a_queue_that_is_named_while_nothing_runs_is_where_the_job_waits(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    cluster.name_queue("train", "team")
    await cluster.run("reap")
    (job,) = cluster.attempts()
    assert (job["metadata"]["labels"][QUEUE], job["spec"]["suspend"]) == ("team", True)
    cluster.name_queue("train", None)
    await cluster.settle()
    (job,) = cluster.attempts()
    assert (QUEUE in job["metadata"]["labels"], job["spec"]["suspend"]) == (False, False)


async def test_a_queue_that_is_named_while_a_job_runs_is_said_to_be_the_next_ones(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.name_queue("train", "team")
    await cluster.settle()
    assert cluster.condition("Current")["status"] == "False"
    assert jobs(cluster) == {"train-1": False}


async def serve(cluster: Cluster, **spec: Any) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", **spec))
    await cluster.run(*RUN)


async def test_an_autoscalers_number_stands_through_a_rollout_and_counts(cluster: Cluster) -> None:
    await serve(cluster)
    await cluster.run("autoscale", *RUN)
    assert cluster.condition("Ready", name="serve")["message"] == f"{SCALED} of {SCALED} replicas ready"
    edit(cluster, "serve", template=objects.template(image="busybox:2"))
    await cluster.run("roll_out", *RUN)
    assert deployment(cluster)["spec"]["replicas"] == SCALED
    edit(cluster, "serve", replicas=5)
    await cluster.settle()
    assert deployment(cluster)["spec"]["replicas"] == 5


async def test_a_suspended_service_has_no_replicas_and_its_own_number_when_it_goes_on(cluster: Cluster) -> None:
    await serve(cluster)
    await cluster.run("autoscale")
    for suspend, wanted in ((True, 0), (False, 1)):
        edit(cluster, "serve", suspend=suspend)
        await cluster.run("stop_suspended")
        assert deployment(cluster)["spec"]["replicas"] == wanted


async def test_a_service_of_a_release_that_noted_no_number_is_not_rolled_and_noted_once(cluster: Cluster) -> None:
    await serve(cluster)
    cluster.server.change("deployments", "serve", lambda value: value["metadata"]["annotations"].pop(labels.REPLICAS))
    before = deployment(cluster)["spec"]
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert deployment(cluster)["spec"] == before
    assert deployment(cluster)["metadata"]["annotations"][labels.REPLICAS] == "1"


@pytest.mark.parametrize("spoilt", ["", "x", "-1", "9" * 40])
async def test_a_note_that_somebody_spoilt_is_written_again(cluster: Cluster, spoilt: str) -> None:
    await serve(cluster)
    change = {labels.REPLICAS: spoilt}
    cluster.server.change("deployments", "serve", lambda value: value["metadata"]["annotations"].update(change))
    await cluster.settle()
    assert deployment(cluster)["metadata"]["annotations"][labels.REPLICAS] == "1"
    assert deployment(cluster)["spec"]["replicas"] == 1
