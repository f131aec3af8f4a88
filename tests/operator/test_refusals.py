"""What the API server refuses, what is missing, and what a policy says of it. Against a cluster in memory."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_operator.kube import api
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]

QUOTA = Fault(effect=False, status=403, message='jobs.batch "train-1" is forbidden: exceeded quota: small')
INVALID = Fault(effect=False, status=422, message="spec.template.spec.containers[0].image: Required value")


def creation_fails(cluster: Cluster, fault: Fault) -> None:
    def decide(request: api.Request) -> Fault | None:
        return fault if request.path.endswith("/jobs") and request.method == "POST" else None

    cluster.server.fault = decide


def recover(cluster: Cluster) -> None:
    cluster.server.fault = lambda _: None


def creations(cluster: Cluster) -> int:
    return sum(r.method == "POST" and r.path.endswith("/jobs") for r in cluster.server.requests)


def set_policy(cluster: Cluster, **spec: Any) -> None:
    cluster.set_policy(**spec)


def job(cluster: Cluster) -> Json:
    return cluster.server.find("jobs", "train-1") or {}


def limits(cluster: Cluster) -> Json:
    found: Json = job(cluster)["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    return found


async def test_refused_template_is_told_once_with_the_servers_words_and_rarely_tried_again(cluster: Cluster) -> None:
    creation_fails(cluster, INVALID)
    cluster.apply(objects.dljob())
    await cluster.settle()
    queued = cluster.condition("Queued")
    assert (queued["status"], queued["reason"]) == ("False", "InvalidTemplate")
    assert "image: Required value" in queued["message"]
    assert cluster.dljob()["status"]["phase"] == "Pending"
    for _ in range(12):
        await cluster.advance(300)
    assert creations(cluster) <= 13
    assert cluster.events() == ["InvalidTemplate"]


async def test_what_a_policy_refused_is_made_when_the_policy_lets_it(cluster: Cluster) -> None:
    creation_fails(cluster, INVALID)
    cluster.apply(objects.dljob())
    await cluster.settle()
    recover(cluster)
    await cluster.advance(301)
    assert job(cluster)


async def test_a_job_that_its_former_dljob_leaves_behind_is_waited_for_and_is_no_failure(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    old = job(cluster)
    cluster.server.delete("dljobs", "train")
    left = {**old, "metadata": {**old["metadata"], "deletionTimestamp": cluster.time.text()}}
    cluster.server.put("jobs", left)
    cluster.apply(objects.dljob())
    await cluster.settle()
    queued = cluster.condition("Queued")
    assert (queued["reason"], cluster.condition("Stalled")) == ("PreviousPodsEnding", {})
    cluster.server.delete("jobs", "train-1")
    await cluster.advance(3)
    assert job(cluster)["metadata"]["uid"] != old["metadata"]["uid"]


async def test_refused_template_is_tried_again_when_the_spec_changes(cluster: Cluster) -> None:
    creation_fails(cluster, INVALID)
    cluster.apply(objects.dljob())
    await cluster.settle()
    recover(cluster)
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], "gpuMemory": "1Gi"}))
    await cluster.settle()
    assert job(cluster)
    assert cluster.condition("Queued")["status"] == "True"


async def test_refused_template_is_tried_again_when_a_label_changes_that_its_pods_get() -> None:
    cluster = Cluster()
    cluster.label_keys = frozenset({"team"})
    cluster.restart()
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.config_map(), plural="configmaps")
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=422, message="a pod needs the label team")
        if request.path.endswith("/jobs") and "vision" not in str(request.body)
        else None
    )
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "InvalidTemplate"
    tries = creations(cluster)
    cluster.server.change("dljobs", "train", lambda value: value["metadata"].update(labels={"other": "x"}))
    await cluster.settle()
    assert creations(cluster) == tries
    cluster.server.change("dljobs", "train", lambda value: value["metadata"].update(labels={"team": "vision"}))
    await cluster.settle()
    assert job(cluster)["spec"]["template"]["metadata"]["labels"]["team"] == "vision"


async def test_quota_is_told_and_tried_again_after_a_while(cluster: Cluster) -> None:
    creation_fails(cluster, QUOTA)
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "QuotaExceeded"
    recover(cluster)
    await cluster.advance(29)
    assert not job(cluster)
    await cluster.advance(1)
    assert job(cluster)


async def test_quota_that_stays_costs_a_request_each_half_minute_and_one_event(cluster: Cluster) -> None:
    creation_fails(cluster, QUOTA)
    cluster.apply(objects.dljob())
    await cluster.settle()
    for _ in range(20):
        await cluster.advance(30)
    assert creations(cluster) == 21
    assert cluster.events() == ["QuotaExceeded"]


async def test_other_prohibitions_name_their_reason(cluster: Cluster) -> None:
    creation_fails(cluster, Fault(effect=False, status=403, message="denied by policy x"))
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "CreationForbidden"
    assert "denied by policy x" in cluster.condition("Queued")["message"]


async def test_foreign_job_of_the_name_is_left_alone(cluster: Cluster) -> None:
    cluster.apply({"metadata": {"name": "train-1"}, "spec": {"template": {}}}, plural="jobs")
    before = job(cluster)
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert job(cluster) == before
    assert cluster.condition("Queued")["reason"] == "NameTaken"


async def test_job_that_a_lost_reply_left_behind_is_taken_over(cluster: Cluster) -> None:
    creation_fails(cluster, Fault(effect=True, status=0))
    cluster.apply(objects.dljob())
    await cluster.work_without_events()
    recover(cluster)
    cluster.time.seconds += 60
    await cluster.work_without_events()
    assert cluster.dljob()["status"]["attempts"] == 1
    assert len(cluster.server.all("jobs")) == 1


async def test_graph_that_comes_after_its_dljob_is_waited_for(cluster: Cluster) -> None:
    cluster.server.delete("configmaps", "toy")
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.condition("Predicted")["reason"] == "ConfigMapNotFound"
    assert cluster.condition("Queued")["reason"] == "PredictionPending"
    cluster.apply(objects.config_map(), plural="configmaps")
    await cluster.advance(2)
    assert cluster.condition("Predicted")["status"] == "True"
    assert int(limits(cluster)[names.GPU_SHARE]) < 100


async def test_job_whose_graph_stays_away_runs_alone(cluster: Cluster) -> None:
    cluster.server.delete("configmaps", "toy")
    cluster.apply(objects.dljob())
    for _ in range(16):
        await cluster.advance(2)
    assert limits(cluster) == {names.GPU_SHARE: "100"}
    assert names.PREDICTION not in job(cluster)["spec"]["template"]["metadata"]["annotations"]
    assert cluster.condition("Predicted")["reason"] == "ConfigMapNotFound"
    assert cluster.events() == ["ConfigMapNotFound", "Created"]


async def test_job_without_a_model_runs_alone_at_once(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(model=None))
    await cluster.settle()
    assert limits(cluster) == {names.GPU_SHARE: "100"}


async def test_held_job_waits_for_its_graph(cluster: Cluster) -> None:
    set_policy(cluster, queue={"onMissingPrediction": "Hold"})
    cluster.server.delete("configmaps", "toy")
    cluster.apply(objects.dljob())
    await cluster.advance(60)
    await cluster.advance(60)
    assert not job(cluster)
    assert cluster.condition("Queued")["reason"] == "PredictionMissing"
    cluster.apply(objects.config_map(), plural="configmaps")
    await cluster.advance(30)
    assert job(cluster)


async def test_held_job_is_let_go_by_a_new_policy(cluster: Cluster) -> None:
    set_policy(cluster, queue={"onMissingPrediction": "Hold"})
    cluster.apply(objects.dljob(model=None))
    await cluster.settle()
    assert not job(cluster)
    assert "PredictionMissing" in cluster.events()
    set_policy(cluster, queue={"onMissingPrediction": "Exclusive"})
    await cluster.settle()
    assert limits(cluster) == {names.GPU_SHARE: "100"}


async def test_nothing_is_made_without_a_policy(cluster: Cluster) -> None:
    cluster.server.delete("packingpolicies", "default", namespace="")
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert not job(cluster)
    assert cluster.condition("Queued")["reason"] == "PackingPolicyMissing"
    cluster.apply(objects.policy(), plural="packingpolicies")
    await cluster.settle()
    assert job(cluster)


async def test_policy_that_cannot_be_read_leaves_the_last_one_in_force(cluster: Cluster) -> None:
    set_policy(cluster, mode="Unheard")
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert job(cluster)


async def test_mode_observe_uses_whole_gpus_of_the_default_scheduler(cluster: Cluster) -> None:
    set_policy(cluster, mode="Observe")
    cluster.apply(objects.dljob(gpusPerReplica=2))
    await cluster.settle()
    assert limits(cluster) == {"nvidia.com/gpu": "2"}
    assert cluster.dljob()["status"]["prediction"]["gpuModel"] == "NVIDIA-H200"


@pytest.mark.parametrize(("fields", "share"), [({"sharing": "Exclusive"}, "100"), ({"gpusPerReplica": 4}, "400")])
async def test_whole_gpus_are_asked_for_whatever_the_prediction(cluster: Cluster, fields: Json, share: str) -> None:
    cluster.apply(objects.dljob(**fields))
    await cluster.settle()
    assert limits(cluster) == {names.GPU_SHARE: share}
    assert cluster.condition("Predicted")["status"] == "True"


async def test_spec_that_cannot_be_read_is_told_and_makes_nothing(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(gpusPerReplica=0))
    await cluster.settle()
    assert cluster.server.all("jobs") == []
    queued = cluster.condition("Queued")
    assert queued["reason"] == "InvalidSpec"
    assert "spec.gpusPerReplica" in queued["message"]


async def test_share_follows_the_policy(cluster: Cluster) -> None:
    shares = []
    for percent in (100, 50, 300):
        set_policy(cluster, maxUtilizationPercent=percent)
        cluster.apply(objects.dljob())
        await cluster.settle()
        shares.append(int(limits(cluster)[names.GPU_SHARE]))
        cluster.server.delete("dljobs", "train")
        await cluster.settle()
    assert shares[1] > shares[0] > shares[2]


@pytest.mark.parametrize("status", [{"gpus": [{"uuid": 5}]}, {"gpus": 7}, {"gpus": [{}]}])
async def test_gpu_node_that_cannot_be_read_harms_nobody(cluster: Cluster, status: Json) -> None:
    cluster.server.change("gpunodes", objects.NODE, lambda value: value.update(status=status), namespace="")
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert job(cluster)


async def test_next_attempt_uses_the_prediction_of_the_last_when_the_graph_is_gone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run("create_pods", "place", "run_pods", "fail")
    share = limits(cluster)
    cluster.server.delete("configmaps", "toy")
    await cluster.advance(60)
    second = cluster.server.find("jobs", "train-2") or {}
    assert second["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == share
    assert cluster.condition("Predicted")["status"] == "True"


async def test_prediction_of_another_graph_is_not_used_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run("create_pods", "place", "run_pods", "fail")
    model = {"configMapRef": {"name": "gone", "key": "graph.json"}}
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], "model": model}))
    await cluster.advance(60)
    assert cluster.condition("Predicted")["reason"] == "ConfigMapNotFound"
    second = cluster.server.find("jobs", "train-2") or {}
    assert second["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {names.GPU_SHARE: "100"}


@pytest.mark.parametrize(
    "words", ["exceeded quota: small", "insufficient quota to match these scopes", "status unknown for quota: small"]
)
async def test_every_refusal_of_a_quota_says_so(cluster: Cluster, words: str) -> None:
    creation_fails(cluster, Fault(effect=False, status=403, message=f'jobs.batch "train-1" is forbidden: {words}'))
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "QuotaExceeded"


async def test_a_clock_that_is_set_back_makes_nothing_wait_longer(cluster: Cluster) -> None:
    creation_fails(cluster, QUOTA)
    cluster.apply(objects.dljob())
    await cluster.settle()
    recover(cluster)
    cluster.time.skew -= 3600
    await cluster.advance(31)
    assert job(cluster)
