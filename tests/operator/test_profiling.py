"""Jobs that are measured alone: without a prediction, and to correct one. Against a cluster in memory."""

import json
from typing import Any

import pytest

from cotenant_api import names, prediction
from cotenant_operator import labels
from operator_kit import faults, objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]

LIFE = ("create_pods", "place", "run_pods")


def set_policy(cluster: Cluster, **spec: Any) -> None:
    cluster.set_policy(**spec)


def profile(cluster: Cluster, **more: Any) -> None:
    set_policy(cluster, queue={"onMissingPrediction": "Profile"}, **more)


def measure(cluster: Cluster, *, seconds: int = 60, percent: int = 30, peak_mib: int = 4000) -> None:
    """What a node agent publishes of the pods that run."""
    running = [pod for pod in cluster.server.all("pods") if pod["status"]["phase"] == "Running"]
    tenants = [
        {
            "podUID": pod["metadata"]["uid"],
            "namespace": "team",
            "pod": pod["metadata"]["name"],
            "memoryPeakMiB": peak_mib,
            "aloneSeconds": seconds,
            "aloneUtilizationPercent": percent,
        }
        for pod in running
    ]

    def edit(value: Json) -> None:
        value["status"]["gpus"][0]["tenants"] = tenants

    cluster.server.change("gpunodes", "n1", edit, namespace="")


def job(cluster: Cluster, attempt: int = 1, name: str = "train") -> Json:
    return cluster.server.find("jobs", f"{name}-{attempt}") or {}


def asked(workload: Json) -> tuple[str, str | None]:
    """The share and the annotation with the prediction of a workload."""
    template = workload["spec"]["template"]
    share = template["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE]
    return share, template["metadata"]["annotations"].get(names.PREDICTION)


def document(workload: Json) -> prediction.Prediction:
    return prediction.Prediction.from_json(asked(workload)[1] or "", source="test")


async def test_a_job_without_prediction_is_measured_alone_and_then_packed(cluster: Cluster) -> None:
    profile(cluster)
    cluster.apply(objects.dljob(model={}))
    await cluster.run(*LIFE)
    assert asked(job(cluster)) == ("100", None)
    measure(cluster, seconds=59)
    await cluster.settle()
    assert labels.ENDED not in job(cluster)["metadata"]["annotations"]
    measure(cluster)
    await cluster.settle()
    assert json.loads(job(cluster)["metadata"]["annotations"][labels.ENDED])["cause"] == "Profiled"
    assert job(cluster)["spec"]["activeDeadlineSeconds"] == 1
    await cluster.run("enforce_deadlines", "reap")
    share, _ = asked(job(cluster, 2))
    row = document(job(cluster, 2)).by_gpu
    assert share == "40"
    assert list(row) == [objects.MODEL]
    assert job(cluster, 2)["spec"]["template"]["metadata"]["annotations"][names.GPU_MODELS] == objects.MODEL
    await cluster.run(*LIFE, "succeed")
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], status["prediction"]["source"]) == ("Succeeded", 2, "Profile")
    assert "Profiled" in cluster.events()
    assert "AttemptFailed" not in cluster.events()


async def test_the_profile_says_what_was_measured_with_its_margins(cluster: Cluster) -> None:
    profile(cluster)
    cluster.apply(objects.dljob(model={}))
    await cluster.run(*LIFE)
    measure(cluster, percent=95, peak_mib=4001)
    await cluster.run("enforce_deadlines", "reap")
    found = document(job(cluster, 2))
    row = found.by_gpu[names.GPUModel(objects.MODEL)]
    assert found.source is prediction.Source.PROFILE
    assert (row.utilization.q50, row.utilization.upper) == (95, 100)
    assert (row.memory_mib.q50, row.memory_mib.upper) == (4001, 4802)
    assert row.thread_percentage == 100


async def test_a_job_that_ends_within_the_minute_is_done(cluster: Cluster) -> None:
    profile(cluster)
    cluster.apply(objects.dljob(model={}))
    await cluster.run(*LIFE)
    measure(cluster, seconds=40)
    await cluster.run("succeed")
    assert (cluster.dljob()["status"]["phase"], cluster.dljob()["status"]["attempts"]) == ("Succeeded", 1)


@pytest.mark.parametrize("fields", [{"sharing": "Exclusive"}, {"gpusPerReplica": 2}])
async def test_a_job_that_wants_whole_gpus_is_not_ended_to_be_packed(cluster: Cluster, fields: Json) -> None:
    profile(cluster)
    cluster.apply(objects.dljob(model={}, **fields))
    await cluster.run(*LIFE)
    measure(cluster)
    await cluster.settle()
    assert labels.ENDED not in job(cluster)["metadata"]["annotations"]


async def test_a_job_that_runs_when_the_policy_changes_is_left_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(model={}))
    await cluster.run(*LIFE)
    profile(cluster)
    measure(cluster)
    await cluster.settle()
    assert labels.ENDED not in job(cluster)["metadata"]["annotations"]


async def test_the_measurement_counts_against_no_limit(cluster: Cluster) -> None:
    profile(cluster)
    cluster.apply(objects.dljob(model={}, backoffLimit=0))
    await cluster.run(*LIFE)
    measure(cluster)
    await cluster.run("enforce_deadlines", "reap", *LIFE, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_an_out_of_domain_job_is_measured_too_and_its_graph_is_named(cluster: Cluster) -> None:
    profile(cluster)
    cluster.server.delete("configmaps", "toy")
    huge = objects.toy_graph(flops=2**28).model_copy(update={"saved_activation_bytes": 2**50}).sealed()
    cluster.apply(objects.config_map(data=huge.packed()), plural="configmaps")
    cluster.apply(objects.dljob())
    await cluster.run(*LIFE)
    assert cluster.condition("Predicted")["reason"] == "OutOfDomain"
    measure(cluster)
    await cluster.run("enforce_deadlines", "reap")
    assert document(job(cluster, 2)).graph == huge.digest


async def test_a_gang_is_measured_when_all_members_are(cluster: Cluster) -> None:
    profile(cluster)
    cluster.apply(objects.dljob(model={}, replicas=2))
    await cluster.run("create_pods", "place")
    first, second = cluster.server.all("pods")
    cluster.server.change("pods", first["metadata"]["name"], lambda pod: pod["status"].update(phase="Running"))
    measure(cluster)
    await cluster.settle()
    assert labels.ENDED not in job(cluster)["metadata"]["annotations"]
    cluster.server.change("pods", second["metadata"]["name"], lambda pod: pod["status"].update(phase="Running"))
    measure(cluster)
    await cluster.settle()
    assert labels.ENDED in job(cluster)["metadata"]["annotations"]


async def test_a_deployment_is_measured_and_rolled_once(cluster: Cluster) -> None:
    profile(cluster)
    cluster.apply(objects.dljob("serve", workloadType="Inference", model={}))
    await cluster.run(*LIFE)
    assert asked(cluster.server.find("deployments", "serve") or {}) == ("100", None)
    measure(cluster)
    await cluster.settle()
    rolled = cluster.server.find("deployments", "serve") or {}
    assert asked(rolled)[0] == "40"
    assert document(rolled).source is prediction.Source.PROFILE
    cluster.server.requests.clear()
    await cluster.advance(100)
    assert cluster.server.find("deployments", "serve") == rolled
    edited = objects.template(image="busybox:2")
    cluster.server.change("dljobs", "serve", lambda value: value["spec"].update(template=edited))
    await cluster.settle()
    again = cluster.server.find("deployments", "serve") or {}
    assert again["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:2"
    assert asked(again)[0] == "40"


async def test_status_shows_what_was_measured_beside_the_prediction(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*LIFE)
    measure(cluster, seconds=75, percent=33, peak_mib=2100)
    await cluster.advance(20)
    found = cluster.dljob()["status"]["observed"]
    assert found == {"aloneSeconds": 75, "gpuUtilizationPercent": 33, "memoryPeakMiB": 2100}
    measure(cluster, seconds=0, percent=0, peak_mib=100)
    await cluster.advance(20)
    assert cluster.dljob()["status"]["observed"] == found


@pytest.mark.parametrize(("correction", "expected"), [("Hybrid", (60, 70)), ("None", None)])
async def test_the_next_attempt_uses_what_was_measured_where_the_policy_says_so(
    cluster: Cluster, correction: str, expected: tuple[int, int] | None
) -> None:
    set_policy(cluster, correction=correction)
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run(*LIFE)
    first = document(job(cluster)).by_gpu[names.GPUModel(objects.MODEL)]
    measure(cluster, percent=60)
    await cluster.run("fail")
    await cluster.advance(10)
    row = document(job(cluster, 2)).by_gpu[names.GPUModel(objects.MODEL)]
    seen = (row.utilization.q50, row.utilization.upper)
    assert seen == (expected or (first.utilization.q50, first.utilization.upper))
    assert row.memory_mib == first.memory_mib


async def profiled_life(fault_at: int, fault: Fault) -> int:
    """A life with a profile and one fault at the n-th write; how many writes there were."""
    cluster = Cluster()
    cluster.apply(objects.policy(queue={"onMissingPrediction": "Profile"}), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    cluster.apply(objects.dljob(model={}))
    faulty = cluster.server.fault = faults.AtWrite(fault_at, fault)
    await cluster.start()
    await cluster.settle()
    for step in (*LIFE, "measure", "enforce_deadlines", "reap", *LIFE, "succeed"):
        if step == "measure":
            measure(cluster)
        else:
            getattr(cluster, step)()
        await cluster.advance(20)
        alive = [item for item in cluster.server.all("jobs") if not item.get("status", {}).get("conditions")]
        assert len(alive) <= 1
    await cluster.advance(60)
    status = cluster.dljob()["status"]
    assert (status["phase"], status["attempts"], asked(job(cluster, 2))[0]) == ("Succeeded", 2, "40")
    return faulty.writes


async def test_a_crash_or_a_lost_reply_at_any_write_of_a_profile_loses_nothing() -> None:
    total = await profiled_life(0, Fault(effect=False, status=-1))
    for fault in (Fault(effect=True, status=-1), Fault(effect=False, status=-1), Fault(effect=True, status=0)):
        for at in range(1, total + 1):
            await profiled_life(at, fault)
