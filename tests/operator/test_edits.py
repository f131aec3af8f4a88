"""No edit is swallowed: what it means at which time, for a Job and for a Deployment. Against a cluster in memory."""

import json
from typing import Any

import pytest

from cotenant_operator import labels
from operator_kit import objects, quotas
from operator_kit.cluster import Cluster
from operator_kit.neighbours import QUEUE
from operator_kit.server import Fault

Json = dict[str, Any]

RUN = ("create_pods", "place", "run_pods")


def edit(cluster: Cluster, name: str = "train", **fields: Any) -> None:
    cluster.server.change("dljobs", name, lambda value: value.update(spec={**value["spec"], **fields}))


def image(cluster: Cluster, name: str = "train-1") -> str:
    job = cluster.server.find("jobs", name) or {}
    return str(job["spec"]["template"]["spec"]["containers"][0]["image"]) if job else ""


def jobs(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.attempts()]


@pytest.mark.parametrize("steps", [(), ("create_pods",)])
@pytest.mark.parametrize("replicas", [1, 3])
async def test_an_edit_before_the_pods_have_their_gpus_makes_the_same_attempt_again(
    cluster: Cluster, replicas: int, steps: tuple[str, ...]
) -> None:
    cluster.apply(objects.dljob(replicas=replicas))
    await cluster.run(*steps)
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert (jobs(cluster), image(cluster)) == (["train-1"], "busybox:2")
    await cluster.run(*RUN, "succeed")
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], status["failures"]) == ("Succeeded", 1, 0)
    assert "SpecChangeIgnored" not in cluster.events()
    assert cluster.condition("Current") == {}


async def test_the_remedy_of_refused_pods_is_applied(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    job = cluster.attempts()[0]
    quotas.tell(cluster.server, job, 'pods "x" is forbidden: violates PodSecurity', time=cluster.time.text())
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.run(*RUN, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_an_edit_of_the_gpu_models_while_queued_goes_to_the_pods(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    edit(cluster, gpuModels=[objects.MODEL], sharing="Exclusive")
    await cluster.run("create_pods")
    (pod,) = cluster.server.all("pods")
    assert pod["metadata"]["annotations"]["cotenant.dev/gpu-models"] == objects.MODEL


async def test_suspend_edit_and_resume_runs_what_the_edit_says(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=3))
    await cluster.run(*RUN, "crash", *RUN)
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert cluster.condition("Current")["status"] == "False"
    edit(cluster, suspend=False)
    await cluster.run(*RUN)
    assert (jobs(cluster), image(cluster)) == (["train-1"], "busybox:2")
    assert cluster.condition("Current")["status"] == "True"
    assert cluster.dljob()["status"]["failures"] == 1
    assert cluster.attempts()[0]["spec"]["backoffLimit"] == 2


async def test_an_edit_acts_also_where_the_job_controller_counts_late_that_the_pods_are_gone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "count_pods")
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    edit(cluster, suspend=False)
    await cluster.settle()
    assert image(cluster) == "busybox"
    assert cluster.condition("Queued")["reason"] == "PreviousPodsEnding"
    assert "former spec" in cluster.condition("Current")["message"]
    await cluster.run("count_pods", *RUN)
    assert (jobs(cluster), image(cluster)) == (["train-1"], "busybox:2")
    assert cluster.condition("Current")["status"] == "True"


def strip(pod: Json) -> None:
    pod["metadata"]["labels"].clear()


async def test_no_job_goes_on_beside_a_pod_that_is_out_of_sight_and_counted_as_terminating(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "count_pods")
    cluster.server.change("pods", cluster.server.all("pods")[0]["metadata"]["name"], strip)
    await cluster.settle()
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended")
    count(cluster, active=0, terminating=1)
    edit(cluster, suspend=False, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert (cluster.attempts()[0]["spec"]["suspend"], image(cluster)) == (True, "busybox")
    assert cluster.condition("Queued")["reason"] == "PreviousPodsEnding"
    assert cluster.condition("Current")["message"].endswith("pods of it that were stopped have not ended yet")
    cluster.reap()
    count(cluster, active=0, terminating=0)
    await cluster.run(*RUN)
    assert (cluster.dljob()["status"]["phase"], image(cluster)) == ("Running", "busybox:2")


async def test_a_job_of_which_a_pod_is_ready_by_its_status_is_left_as_it_is(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "count_pods")
    uid = cluster.attempts()[0]["metadata"]["uid"]
    # The watch of pods is behind: it has not told that the pod was placed.
    count(cluster, active=1, ready=1)
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert cluster.attempts()[0]["metadata"]["uid"] == uid
    assert cluster.condition("Current")["status"] == "False"


def count(cluster: Cluster, **counts: int) -> None:
    """What the Job controller writes."""
    cluster.server.change("jobs", "train-1", lambda job: job.update(status={**job.get("status", {}), **counts}))


@pytest.mark.parametrize("note", ["", "{"])
async def test_a_job_that_another_holds_and_that_is_not_made_again_says_why(cluster: Cluster, note: str) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*RUN)
    name = cluster.server.all("pods")[0]["metadata"]["name"]
    cluster.server.change("pods", name, lambda pod: pod["status"].update(phase="Succeeded"))
    await cluster.run("hold", "stop_suspended", "reap")
    if note:
        spoilt = {labels.ENDED: note}
        cluster.server.change("jobs", "train-1", lambda job: job["metadata"]["annotations"].update(spoilt))
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    told = cluster.condition("Current")["message"]
    assert ("pods of it have ended well" in told, labels.ENDED in told) == (not note, bool(note))


async def test_a_job_whose_attempt_ends_says_so(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "run_out_of_memory")
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert "its attempt ends" in cluster.condition("Current")["message"]
    await cluster.run("enforce_deadlines", "reap", *RUN)
    assert (image(cluster, "train-2"), cluster.condition("Current")["status"]) == ("busybox:2", "True")


async def test_what_runs_is_left_alone_and_the_status_goes_on_saying_so(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.advance(60)
    assert image(cluster) == "busybox"
    current = cluster.condition("Current")
    assert (current["status"], current["reason"]) == ("False", "SpecChangeIgnored")
    assert "set spec.suspend to true" in current["message"]
    edit(cluster, template=objects.template())
    await cluster.advance(60)
    assert cluster.condition("Current")["status"] == "True"


async def test_a_later_attempt_that_is_made_again_remembers_what_came_before(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "run_out_of_memory", "enforce_deadlines", "reap", "create_pods")
    before = json.loads((cluster.server.find("jobs", "train-2") or {})["metadata"]["annotations"][labels.CARRIED])
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    there = cluster.server.find("jobs", "train-2") or {}
    assert (image(cluster, "train-2"), before["outOfMemory"]) == ("busybox:2", 1)
    assert json.loads(there["metadata"]["annotations"][labels.CARRIED]) == before


async def test_an_attempt_whose_memory_would_be_lost_is_not_made_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "run_out_of_memory", "enforce_deadlines", "reap", "create_pods")
    cluster.server.delete("jobs", "train-1")
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    assert image(cluster, "train-2") == "busybox"
    assert cluster.condition("Current")["status"] == "False"


async def test_a_deletion_that_arrives_late_takes_no_job_that_is_wanted_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    late = [Fault(effect=False, status=0, late=True)]
    cluster.server.fault = lambda request: late.pop() if late and request.method == "DELETE" else None
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.deliver()
    await cluster.step()
    edit(cluster, template=objects.template())
    await cluster.advance(60)
    assert cluster.server.arrive() is not None
    assert jobs(cluster) == ["train-1"]


async def test_a_deadline_stands_still_while_the_job_has_no_gpus(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=100))
    await cluster.run(*RUN)
    await cluster.advance(60)
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    await cluster.advance(200)
    edit(cluster, suspend=False)
    await cluster.run("create_pods", "enforce_deadlines")
    await cluster.advance(200)
    assert cluster.dljob()["status"]["placedSeconds"] == 60
    await cluster.run("place", "run_pods")
    await cluster.advance(39)
    await cluster.run("enforce_deadlines")
    assert cluster.dljob()["status"]["phase"] == "Running"
    await cluster.advance(1)
    await cluster.run("enforce_deadlines", "reap")
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"


async def test_a_deadline_counts_all_attempts_together(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=100))
    await cluster.run(*RUN)
    await cluster.advance(70)
    await cluster.run("run_out_of_memory", "enforce_deadlines", "reap", "create_pods")
    await cluster.advance(500)
    assert jobs(cluster) == ["train-1", "train-2"]
    await cluster.run("place", "run_pods")
    await cluster.advance(30)
    await cluster.run("enforce_deadlines", "reap")
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"


async def test_a_deadline_that_is_lowered_while_suspended_ends_the_job_when_it_goes_on(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=1000))
    await cluster.run(*RUN)
    await cluster.advance(60)
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    edit(cluster, activeDeadlineSeconds=50)
    await cluster.settle()
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    edit(cluster, suspend=False)
    await cluster.run("create_pods", "enforce_deadlines", "reap")
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"


async def test_a_deadline_that_a_suspended_job_has_already_is_taken_back(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=100))
    await cluster.run(*RUN)
    edit(cluster, suspend=True)
    await cluster.run("stop_suspended", "reap")
    cluster.server.change("jobs", "train-1", lambda value: value["spec"].update(activeDeadlineSeconds=1))
    await cluster.settle()
    assert "activeDeadlineSeconds" not in cluster.attempts()[0]["spec"]


async def test_failures_count_also_when_somebody_deletes_the_jobs(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2, backoffLimit=1))
    for attempt in (1, 2):
        await cluster.run(*RUN, "crash", "reap")
        cluster.server.delete("jobs", f"train-{attempt}")
        await cluster.advance(400)
    failed = cluster.condition("Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert cluster.dljob()["status"]["failures"] == 2


async def test_what_counted_for_nothing_does_not_count_because_its_job_was_deleted(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=0))
    await cluster.run("create_pods", "place", "never_start", "enforce_deadlines", "reap")
    await cluster.advance(20)
    for attempt in (1, 2):
        cluster.server.delete("jobs", f"train-{attempt}")
    await cluster.run(*RUN, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_service_whose_change_cannot_be_made_goes_on_and_says_so(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.run(*RUN)
    cluster.set_policy(queue={"onMissingPrediction": "Hold"})
    edit(cluster, "serve", model={"configMapRef": {"name": "nowhere"}})
    await cluster.advance(60)
    assert cluster.condition("Current", name="serve")["status"] == "False"
    edit(cluster, "serve", model={"configMapRef": {"name": "toy"}})
    await cluster.advance(60)
    assert cluster.condition("Current", name="serve")["status"] == "True"


async def test_an_edit_after_the_end_is_told_once_and_seen_by_tools_that_wait(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "succeed")
    ended = cluster.dljob()["status"]
    edit(cluster, backoffLimit=7)
    await cluster.settle()
    await cluster.advance(3600)
    status = cluster.dljob()["status"]
    assert status["observedGeneration"] == cluster.dljob()["metadata"]["generation"] > ended["observedGeneration"]
    assert (status["phase"], status["conditions"]) == ("Succeeded", ended["conditions"])
    assert cluster.events().count("SpecChangeIgnored") == 1


async def test_a_time_to_live_beyond_all_calendars_is_for_ever(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "succeed")
    edit(cluster, ttlSecondsAfterFinished=999999999999)
    await cluster.settle()
    await cluster.advance(86400)
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert cluster.dljob()["status"]["observedGeneration"] == cluster.dljob()["metadata"]["generation"]


async def test_an_attempt_that_waits_on_a_job_whose_former_was_deleted_does_not_claim_to_have_gpus(
    cluster: Cluster,
) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "run_out_of_memory", "enforce_deadlines", "reap", "create_pods")
    cluster.server.delete("jobs", "train-1")
    edit(cluster, template=objects.template(image="busybox:2"))
    await cluster.settle()
    told = cluster.condition("Current")
    assert told["status"] == "False"
    assert "Job train-2 waits, and is left as it is" in told["message"]


async def test_a_queued_attempt_after_one_that_was_evicted_and_ended_well_takes_an_edit(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    run = ("create_pods", "place", "run_pods")
    await cluster.run(*run, "run_out_of_memory", "enforce_deadlines", "reap", *run, "disrupt", "leave")
    await cluster.advance(60)
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(template=objects.template(image="b:2")))
    await cluster.settle()
    assert cluster.attempts()[-1]["spec"]["template"]["spec"]["containers"][0]["image"] == "b:2"


async def test_an_edit_waits_for_whoever_has_suspended_the_job_and_says_so(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "hold", "stop_suspended", "reap")
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(template=objects.template(image="b:2")))
    await cluster.settle()
    assert cluster.attempts()[0]["spec"]["suspend"]
    assert "made again when whoever suspended it resumes it" in cluster.condition("Current")["message"]
    cluster.server.change("jobs", "train-1", lambda job: job["spec"].update(suspend=False))
    await cluster.settle()
    (job,) = cluster.attempts()
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "b:2"
    assert not job["spec"]["suspend"]


async def test_a_job_that_another_holds_is_made_again_for_the_queue_that_is_named_then(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("hold", "stop_suspended")
    cluster.server.change("dljobs", "train", lambda value: value["metadata"].update(labels={QUEUE: "team"}))
    await cluster.settle()
    (job,) = cluster.attempts()
    assert job["metadata"]["labels"][QUEUE] == "team"
