"""Fields that Kueue, autoscalers and people write, too: each writes once, and nobody undoes the other."""

import json
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


async def test_a_gang_that_is_resumed_before_its_stopped_pods_have_ended_is_not_done_by_them(cluster: Cluster) -> None:
    await queued(cluster, replicas=2, backoffLimit=0)
    await cluster.run("admit", *RUN, "hold", "stop_suspended")
    await cluster.run("admit", "leave", "enforce_deadlines", "reap")
    await cluster.advance(60)
    assert cluster.dljob()["status"]["phase"] != "Succeeded"
    await cluster.run("admit", *RUN, "succeed")
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], status["failures"]) == ("Succeeded", 2, 0)


async def test_a_gang_of_which_one_member_ended_well_when_it_was_stopped_is_run_again_whole(cluster: Cluster) -> None:
    await queued(cluster, replicas=2, backoffLimit=0)
    await cluster.run("admit", *RUN, "hold", "stop_suspended")
    cluster.server.change("jobs", "train-1", lambda value: value["status"].update(succeeded=1, completedIndexes="0"))
    await cluster.run("reap")
    await cluster.run("admit", "create_pods", "enforce_deadlines", "reap")
    await cluster.advance(60)
    await cluster.run("admit", *RUN, "succeed")
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], status["failures"]) == ("Succeeded", 2, 0)


async def test_a_number_is_followed_although_a_change_of_the_template_cannot_be_made(cluster: Cluster) -> None:
    cluster.set_policy(queue={"onMissingPrediction": "Hold"})
    await serve(cluster)
    missing = {"configMapRef": {"name": "gone", "key": "graph.json"}}
    edit(cluster, "serve", model=missing, replicas=4)
    await cluster.advance(100)
    assert deployment(cluster)["spec"]["replicas"] == 4
    assert cluster.condition("Current", name="serve")["status"] == "False"
    for suspend, wanted in ((True, 0), (False, 4)):
        edit(cluster, "serve", suspend=suspend)
        await cluster.run("stop_suspended")
        assert deployment(cluster)["spec"]["replicas"] == wanted


async def test_a_deployment_of_another_says_nothing_of_a_training_job(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    metadata = {"name": "train", "namespace": "team", "labels": {"cotenant.dev/dljob": "train"}}
    template = {"metadata": {"annotations": {}, "labels": {}}, "spec": {"containers": [{"name": "main"}]}}
    spec = {"replicas": 7, "template": template, "selector": {}}
    noted = {**metadata, "annotations": {labels.REPLICAS: "1"}}
    value = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": noted, "spec": spec}
    cluster.apply(value, plural="deployments")
    await cluster.settle()
    assert cluster.condition("Placed")["message"] == "1 of 1 replicas placed"


async def test_a_dljob_with_a_priority_of_kueue_and_no_queue_runs(cluster: Cluster) -> None:
    value = objects.dljob()
    value["metadata"]["labels"] = {"kueue.x-k8s.io/priority-class": "high"}
    cluster.apply(value)
    await cluster.settle()
    (job,) = cluster.attempts()
    assert not job["spec"]["suspend"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"


async def test_a_queue_that_was_named_before_this_release_is_found(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    cluster.server.change("jobs", "train-1", former)
    cluster.name_queue("train", "team")
    cluster.restart()
    await cluster.start()
    await cluster.run("reap")
    (job,) = cluster.attempts()
    assert job["metadata"]["labels"][QUEUE] == "team"


async def test_what_stands_in_a_job_of_the_release_before_is_noted_as_its_writing(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.server.change("jobs", "train-1", former)
    await cluster.settle()
    await cluster.run("hold", "stop_suspended", "reap")
    assert jobs(cluster) == {"train-1": True}


def former(job: Json) -> None:
    """As the release before made it."""
    notes = job["metadata"]["annotations"]
    made_from = {key: text for key, text in json.loads(notes[labels.MADE_FROM]).items() if key != "queue"}
    notes[labels.MADE_FROM] = json.dumps(made_from)
    del notes[labels.SUSPEND]


def running_elsewhere(job: Json) -> None:
    job["status"] = {"active": 1, "startTime": "2026-01-01T00:00:00Z"}


async def remote(cluster: Cluster, *, told: bool = True) -> None:
    """A Job that MultiKueue runs in another cluster: here it has no pods. `told`: its status has come back."""
    await queued(cluster, managedBy="kueue.x-k8s.io/multikueue")
    await cluster.run("admit")
    if told:
        cluster.server.change("jobs", "train-1", running_elsewhere)
    await cluster.settle()
    assert jobs(cluster) == {"train-1": False}


async def test_a_job_that_runs_elsewhere_is_deleted_when_its_dljob_is_suspended(cluster: Cluster) -> None:
    await remote(cluster)
    edit(cluster, suspend=True)
    await cluster.settle()
    assert (jobs(cluster), cluster.dljob()["status"]["phase"]) == ({}, "Suspended")


@pytest.mark.parametrize("told", [False, True])
async def test_a_job_that_runs_elsewhere_is_left_as_it_is_when_its_dljob_is_edited(
    cluster: Cluster, *, told: bool
) -> None:
    await remote(cluster, told=told)
    before = cluster.attempts()[0]["metadata"]["uid"]
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert cluster.attempts()[0]["metadata"]["uid"] == before
    current = cluster.condition("Current")
    assert current["status"] == "False"
    assert "was given to another cluster" in current["message"]
    for suspend in (True, False):
        edit(cluster, suspend=suspend)
        await cluster.settle()
    (job,) = cluster.attempts()
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:2"


async def test_a_job_that_waits_to_be_run_elsewhere_is_made_again_when_its_dljob_is_edited(cluster: Cluster) -> None:
    await queued(cluster, managedBy="kueue.x-k8s.io/multikueue")
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    (job,) = cluster.attempts()
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:2"


async def test_a_job_that_ends_well_elsewhere_is_done(cluster: Cluster) -> None:
    await remote(cluster)
    cluster.end_job("train-1", "Complete", reason="CompletionsReached")
    await cluster.settle()
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_the_backoff_of_the_job_controller_counts_against_no_deadline(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=100))
    await cluster.run(*RUN)
    await cluster.advance(30)
    await cluster.run("crash")
    await cluster.advance(300)
    await cluster.run("create_pods", "place", "run_pods")
    assert cluster.dljob()["status"]["phase"] == "Running"
    assert cluster.dljob()["status"]["placedSeconds"] <= 31
