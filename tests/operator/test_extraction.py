"""A graph that has to be extracted from the user's own image: its life, its refusals, and faults at every write."""

from collections.abc import Callable
from typing import Any

import pytest

from cotenant_api import graph, names
from cotenant_operator import labels
from cotenant_operator.kube import api
from operator_kit import extractions, objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]


def attempts(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.attempts()]


def the_job(cluster: Cluster) -> Json:
    (job,) = extractions.jobs(cluster)
    return job


def predicted(cluster: Cluster) -> tuple[str, str]:
    found = cluster.condition("Predicted")
    return found["status"], found["reason"]


# --- the life


async def test_graph_is_extracted_predicted_and_the_job_is_made_from_it(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    assert predicted(cluster) == ("False", "ExtractionRunning")
    assert cluster.condition("Queued")["reason"] == "PredictionPending"
    assert attempts(cluster) == []
    await extractions.go_on(cluster)
    assert predicted(cluster) == ("True", "Predicted")
    assert attempts(cluster) == ["train-1"]
    assert extractions.left(cluster) == extractions.NOTHING | {"results": 1}
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert extractions.left(cluster) == extractions.NOTHING
    assert cluster.events() == ["ExtractionRunning", "Created", "Completed"]


async def test_extraction_costs_at_most_nineteen_requests_more_than_a_graph_that_is_there(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await extractions.go_on(cluster)
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    sent = [request for request in cluster.server.requests if "limit" not in request.query]
    assert len(sent) <= 7 + 19, [f"{request.method} {request.path}" for request in sent]


async def test_nothing_starts_before_all_that_the_pod_needs_is_there(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    made: list[str] = []

    def note(request: api.Request) -> None:
        if request.method == "POST" and "events" not in request.path:
            made.append(request.path.rpartition("/")[2])
        if request.method == "PATCH" and "/jobs/" in request.path:
            made.append(f"suspend {(request.body or {})['spec']['suspend']}")

    cluster.server.fault = note
    await cluster.settle()
    companions = ["serviceaccounts", "roles", "rolebindings", "configmaps"]
    assert made == ["configmaps", "jobs", *companions, "suspend False"]


@pytest.mark.parametrize("account", ["default", "theirs"])
async def test_images_are_pulled_with_the_secrets_of_the_users_account(cluster: Cluster, account: str) -> None:
    secrets = [{"name": f"registry-of-{account}"}]
    cluster.apply({"metadata": {"name": account}, "imagePullSecrets": secrets}, plural="serviceaccounts")
    inner = {"containers": [dict(objects.CONTAINER)]}
    named = {} if account == "default" else {"serviceAccountName": account}
    cluster.apply(extractions.dljob(template={"spec": inner | named}))
    await cluster.settle()
    name = the_job(cluster)["metadata"]["name"]
    assert (cluster.server.find("serviceaccounts", name) or {})["imagePullSecrets"] == secrets


async def test_its_pod_is_no_replica_and_no_attempt(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    extractions.start(cluster)
    await cluster.settle()
    status = cluster.dljob()["status"]
    assert "replicas" not in status
    assert "attempts" not in status
    assert status["phase"] == "Pending"
    assert cluster.condition("Placed")["status"] == "False"


async def test_inference_job_waits_for_its_graph_too(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob(workloadType="Inference"))
    await cluster.settle()
    assert cluster.server.all("deployments") == []
    command = the_job(cluster)["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("--mode") + 1] == "Inference"
    await extractions.go_on(cluster)
    await cluster.run("create_pods", "place", "run_pods")
    assert cluster.dljob()["status"]["phase"] == "Running"
    assert extractions.left(cluster) == extractions.NOTHING | {"results": 1}


@pytest.mark.parametrize(("declared", "expected"), [("20", 20.0), ("500m", 0.5), (None, None)])
async def test_declared_requests_are_part_of_the_graph_that_was_extracted(
    cluster: Cluster, declared: str | None, expected: float | None
) -> None:
    slo = None if declared is None else {"requestsPerSecond": declared}
    cluster.apply(extractions.dljob(workloadType="Inference", slo=slo))
    await cluster.settle()
    extractions.start(cluster)
    served = objects.toy_graph().model_copy(update={"mode": graph.Mode.INFERENCE, "optimizer": None})
    extractions.write(cluster, served.sealed().packed())
    extractions.succeed(cluster)
    await cluster.settle()
    rate = None if expected is None else graph.Inference(requests_per_second=expected)
    wanted = served.model_copy(update={"inference": rate}).sealed().digest
    (made,) = cluster.server.all("deployments")
    assert made["metadata"]["annotations"][labels.GRAPH] == wanted


async def test_second_attempt_reads_the_graph_again_and_extracts_nothing(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob(replicas=2))
    await extractions.go_on(cluster)
    await cluster.run("create_pods", "place", "run_pods", "fail")
    await cluster.advance(10)
    assert attempts(cluster) == ["train-1", "train-2"]
    assert extractions.jobs(cluster) == []


async def test_suspended_job_extracts_nothing_and_what_runs_is_suspended(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob(suspend=True))
    await cluster.settle()
    assert extractions.jobs(cluster) == []
    assert "spec.suspend is false" in cluster.condition("Predicted")["message"]
    set_spec(cluster, suspend=False)
    await cluster.settle()
    assert not the_job(cluster)["spec"]["suspend"]
    set_spec(cluster, suspend=True)
    await cluster.settle()
    assert the_job(cluster)["spec"]["suspend"]
    set_spec(cluster, suspend=False)
    await extractions.go_on(cluster)
    assert attempts(cluster) == ["train-1"]


def set_spec(cluster: Cluster, **fields: Any) -> None:
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], **fields}))


# --- the end before the end


async def test_changed_spec_begins_anew_and_nothing_of_the_former_extraction_stays(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    extractions.start(cluster)
    former = the_job(cluster)["metadata"]["name"]
    set_spec(cluster, model={"entrypoint": {"callable": "models:other"}})
    await cluster.settle()
    assert the_job(cluster)["metadata"]["name"] != former
    assert extractions.left(cluster) == {"jobs": 1, "results": 1, "serviceaccounts": 1, "roles": 1, "rolebindings": 1}
    cluster.server.reap()
    await extractions.go_on(cluster)
    assert attempts(cluster) == ["train-1"]


async def test_graph_given_otherwise_meanwhile_ends_the_extraction(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    set_spec(cluster, model={"configMapRef": {"name": "toy"}})
    await cluster.settle()
    assert extractions.jobs(cluster) == []
    assert attempts(cluster) == ["train-1"]


async def test_deleted_dljob_takes_everything_with_it(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    extractions.start(cluster)
    cluster.server.delete("dljobs", "train")
    await cluster.settle()
    assert extractions.left(cluster) == extractions.NOTHING


async def test_dljob_made_again_does_not_take_the_former_result(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    former = extractions.results(cluster)[0]["metadata"]["name"]
    cluster.server.delete("dljobs", "train")
    cluster.apply(extractions.dljob())
    await cluster.settle()
    assert extractions.results(cluster)[0]["metadata"]["name"] != former


# --- failures


async def failed(cluster: Cluster, end: Callable[[Cluster], None], **spec: Any) -> None:
    cluster.apply(extractions.dljob(**spec))
    await cluster.settle()
    extractions.start(cluster)
    await cluster.settle()
    end(cluster)
    await cluster.settle()


@pytest.mark.parametrize(
    ("words", "exit_code", "reason", "shown"),
    [
        ("hello\ncotenant: torch is not installed", 1, "ExtractionFailed", "extracted: torch is not installed; see"),
        ("x\nextractor: aten::mm at m.py:3: no", 1, "ExtractionFailed", "extracted: aten::mm at m.py:3: no; see"),
        ("cotenant: not there after 300 s", 124, "ExtractionTimedOut", "in time: not there after 300 s; see"),
        ("Segmentation fault", 139, "ExtractionFailed", "Segmentation fault (exit code 139)"),
        ("", 1, "ExtractionFailed", "ended with exit code 1"),
        ('exec: "python3": not found', 128, "ExtractionFailed", "is there a python3 on the image's PATH?"),
        ("x" * 4000, 1, "ExtractionFailed", "..." + "x" * 500),
    ],
)
async def test_failure_says_the_last_words_and_what_to_do(
    cluster: Cluster, words: str, exit_code: int, reason: str, shown: str
) -> None:
    await failed(cluster, lambda cluster: extractions.fail(cluster, words, exit_code=exit_code))
    assert predicted(cluster) == ("False", reason)
    message = cluster.condition("Predicted")["message"]
    assert shown in message
    assert "kubectl logs job/train-extract-" in message
    assert len(message) < 1024


async def test_container_that_took_too_much_memory_names_the_field(cluster: Cluster) -> None:
    await failed(cluster, lambda cluster: extractions.fail(cluster, "", exit_code=137, reason="OOMKilled"))
    assert "raise resources.limits.memory" in cluster.condition("Predicted")["message"]


async def test_after_a_failure_the_policy_decides(cluster: Cluster) -> None:
    await failed(cluster, extractions.fail)
    assert attempts(cluster) == ["train-1"]
    limits = cluster.attempts()[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits[names.GPU_SHARE] == "100"
    assert cluster.events() == ["ExtractionRunning", "Created", "ExtractionFailed"]


async def test_failed_extraction_holds_the_job_where_the_policy_says_so_and_is_not_tried_again(
    cluster: Cluster,
) -> None:
    set_policy(cluster, {"queue": {"onMissingPrediction": "Hold"}})
    await failed(cluster, extractions.fail)
    for _ in range(5):
        await cluster.advance(400)
    assert attempts(cluster) == []
    assert cluster.condition("Queued")["reason"] == "PredictionMissing"
    assert the_job(cluster)["status"]["conditions"][0]["type"] == "Failed"


def set_policy(cluster: Cluster, spec: Json) -> None:
    cluster.set_policy(**spec)


async def test_changed_spec_tries_a_failed_extraction_again(cluster: Cluster) -> None:
    set_policy(cluster, {"queue": {"onMissingPrediction": "Hold"}})
    await failed(cluster, extractions.fail)
    set_spec(cluster, template=objects.template(image="busybox:2"))
    await extractions.go_on(cluster)
    assert attempts(cluster) == ["train-1"]


async def test_deleted_job_of_a_failed_extraction_is_tried_again(cluster: Cluster) -> None:
    set_policy(cluster, {"queue": {"onMissingPrediction": "Hold"}})
    await failed(cluster, extractions.fail)
    cluster.server.delete("jobs", the_job(cluster)["metadata"]["name"])
    await extractions.go_on(cluster)
    assert attempts(cluster) == ["train-1"]


async def test_failure_keeps_its_words_when_the_pod_goes(cluster: Cluster) -> None:
    set_policy(cluster, {"queue": {"onMissingPrediction": "Hold"}})
    await failed(cluster, lambda cluster: extractions.fail(cluster, "cotenant: said once"))
    for pod in cluster.server.all("pods"):
        cluster.server.delete("pods", pod["metadata"]["name"])
    await cluster.advance(60)
    assert predicted(cluster) == ("False", "ExtractionFailed")
    message = cluster.condition("Predicted")["message"]
    assert message.count("said once") == 1
    assert message.count("kubectl logs") == 1


async def test_what_never_ran_is_tried_again_and_not_for_ever(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    for number in (1, 2, 3):
        assert the_job(cluster)["metadata"]["name"].endswith(f"-{number}")
        extractions.start(cluster)
        await cluster.settle()
        extractions.lose(cluster)
        await cluster.settle()
        await cluster.advance(60)
    assert predicted(cluster) == ("False", "ExtractionFailed")
    assert attempts(cluster) == ["train-1"]


async def test_job_that_reached_its_deadline_says_what_its_pod_waited_for(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    extractions.start(cluster)
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "extract", "state": waiting}]}
    for pod in cluster.server.all("pods"):
        cluster.server.change("pods", pod["metadata"]["name"], lambda value: value.update(status=status))
    await cluster.advance(20)
    assert "its pod waits: ImagePullBackOff: no such image" in cluster.condition("Predicted")["message"]
    for pod in cluster.server.all("pods"):
        cluster.server.delete("pods", pod["metadata"]["name"])
    cluster.end_job(the_job(cluster)["metadata"]["name"], "Failed", reason="DeadlineExceeded")
    await cluster.settle()
    assert predicted(cluster) == ("False", "ExtractionTimedOut")
    assert "ImagePullBackOff" in cluster.condition("Predicted")["message"]


async def test_job_that_ended_well_without_a_graph_has_failed(cluster: Cluster) -> None:
    await failed(cluster, extractions.succeed)
    assert predicted(cluster) == ("False", "ExtractionFailed")
    assert "holds no graph" in cluster.condition("Predicted")["message"]


async def test_result_that_is_no_graph_is_unreadable(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob())
    await cluster.settle()
    extractions.start(cluster)
    extractions.write(cluster, b"\x1f\x8bbroken")
    extractions.succeed(cluster)
    await cluster.settle()
    assert predicted(cluster) == ("False", "GraphUnreadable")
    assert attempts(cluster) == ["train-1"]
    assert extractions.jobs(cluster) == []


async def test_missing_batch_size_is_an_invalid_spec(cluster: Cluster) -> None:
    cluster.apply(extractions.dljob(batchSize=None))
    await cluster.settle()
    assert extractions.jobs(cluster) == []
    queued = cluster.condition("Queued")
    assert queued["reason"] == "InvalidSpec"
    assert "spec.batchSize" in queued["message"]


async def test_refused_account_is_told_and_tried_again(cluster: Cluster) -> None:
    denied = Fault(effect=False, status=403, message="roles is forbidden")
    cluster.server.fault = lambda request: denied if request.path.endswith("/roles") else None
    cluster.apply(extractions.dljob())
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "CreationForbidden"
    assert the_job(cluster)["spec"]["suspend"]
    cluster.server.fault = lambda _: None
    await cluster.advance(30)
    await extractions.go_on(cluster)
    assert attempts(cluster) == ["train-1"]


async def test_refused_template_is_told_once_and_rarely_tried_again(cluster: Cluster) -> None:
    refused = Fault(effect=False, status=422, message="spec.template: Invalid value")
    cluster.server.fault = lambda request: (
        refused if request.method == "POST" and request.path.endswith("/jobs") else None
    )
    cluster.apply(extractions.dljob())
    await cluster.settle()
    await cluster.advance(400)
    assert cluster.condition("Queued")["reason"] == "InvalidTemplate"
    assert sum(request.path.endswith("/jobs") and request.method == "POST" for request in cluster.server.requests) == 2
