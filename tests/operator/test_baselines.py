"""What a DLJob asks for under the placements that stand for sharing without predictions, in a cluster in memory."""

import json
from typing import Any

import pytest

from cotenant_api import dljob, names, packingpolicy, prediction
from cotenant_operator import labels, reasons
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

LIFE = ("create_pods", "place", "run_pods")


def asked(workload: Json | None) -> tuple[str, str | None]:
    """The share and the annotation with the prediction of a workload."""
    assert workload is not None
    template = workload["spec"]["template"]
    share = template["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE]
    return share, template["metadata"]["annotations"].get(names.PREDICTION)


def measure(cluster: Cluster, *, percent: int = 30) -> None:
    """Every pod that runs has been alone on its GPU for a minute."""
    running = [pod["metadata"] for pod in cluster.server.all("pods") if pod["status"]["phase"] == "Running"]
    alone = {"aloneSeconds": 60, "aloneUtilizationPercent": percent, "memoryPeakMiB": 4000}
    tenants = [{"podUID": pod["uid"], "namespace": "team", "pod": pod["name"], **alone} for pod in running]
    cluster.server.change(
        "gpunodes", "n1", lambda value: value["status"]["gpus"][0].update(tenants=tenants), namespace=""
    )


async def test_exclusive_asks_for_a_whole_gpu_and_tells_what_is_predicted(cluster: Cluster) -> None:
    cluster.set_policy(placement="Exclusive")
    cluster.apply(objects.dljob())
    await cluster.run(*LIFE)
    share, predicted = asked(cluster.server.find("jobs", "train-1"))
    assert (share, predicted is not None) == ("100", True)
    assert cluster.condition(dljob.PREDICTED)["status"] == "True"


async def test_by_memory_only_the_share_is_the_part_of_the_memory(cluster: Cluster) -> None:
    cluster.set_policy(placement="MemoryOnly")
    cluster.apply(objects.dljob())
    await cluster.run(*LIFE)
    share, predicted = asked(cluster.server.find("jobs", "train-1"))
    assert (share, predicted is not None) == ("2", True)


@pytest.mark.parametrize("missing", list(packingpolicy.OnMissingPrediction))
async def test_reactive_measures_a_predicted_job_alone_and_then_packs_it(cluster: Cluster, missing: str) -> None:
    cluster.set_policy(placement="Reactive", queue={"onMissingPrediction": missing})
    cluster.apply(objects.dljob())
    await cluster.run(*LIFE)
    assert asked(cluster.server.find("jobs", "train-1")) == ("100", None)
    assert cluster.condition(dljob.PREDICTED)["reason"] == reasons.PREDICTION_IGNORED
    measure(cluster)
    await cluster.settle()
    first = cluster.server.find("jobs", "train-1")
    assert first is not None
    assert json.loads(first["metadata"]["annotations"][labels.ENDED])["cause"] == "Profiled"
    await cluster.run("enforce_deadlines", "reap")
    share, text = asked(cluster.server.find("jobs", "train-2"))
    found = prediction.Prediction.from_json(text or "", source="test")
    assert (share, found.source) == ("40", prediction.Source.PROFILE)
    assert cluster.dljob()["status"]["attempts"] == 2


async def test_reactive_rolls_a_measured_deployment_once_and_keeps_what_was_measured(cluster: Cluster) -> None:
    cluster.set_policy(placement="Reactive")
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.run(*LIFE)
    assert asked(cluster.server.find("deployments", "serve")) == ("100", None)
    measure(cluster)
    await cluster.settle()
    share, text = asked(cluster.server.find("deployments", "serve"))
    assert (share, prediction.Prediction.from_json(text or "", source="test").source) == ("40", "Profile")
    cluster.server.change("dljobs", "serve", lambda value: value["spec"].update(gpuMemory="5Gi"))
    await cluster.settle()
    assert asked(cluster.server.find("deployments", "serve"))[0] == "40"


async def test_reactive_leaves_predictions_to_jobs_that_share_nothing(cluster: Cluster) -> None:
    cluster.set_policy(placement="Reactive")
    cluster.apply(objects.dljob(sharing="Exclusive"))
    await cluster.run(*LIFE)
    assert cluster.condition(dljob.PREDICTED)["status"] == "True"


async def test_observing_predicts_also_under_reactive(cluster: Cluster) -> None:
    cluster.set_policy(placement="Reactive", mode="Observe")
    cluster.apply(objects.dljob())
    await cluster.settle()
    assert cluster.condition(dljob.PREDICTED)["status"] == "True"
