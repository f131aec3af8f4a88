"""An inference job's life: one Deployment, rolled, scaled and suspended. Against a cluster in memory."""

from typing import Any

import pytest

from cotenant_api import names
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]


def deployment(cluster: Cluster) -> Json:
    return cluster.server.find("deployments", "serve") or {}


def share(value: Json) -> str:
    container: Json = value["spec"]["template"]["spec"]["containers"][0]
    return str(container["resources"]["limits"][names.GPU_SHARE])


def set_spec(cluster: Cluster, **fields: Any) -> None:
    cluster.server.change("dljobs", "serve", lambda value: value.update(spec={**value["spec"], **fields}))


@pytest.fixture
async def serving(cluster: Cluster) -> Cluster:
    """Two replicas of an inference job, running."""
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    return cluster


async def test_inference_job_becomes_one_ready_deployment(serving: Cluster) -> None:
    status = serving.dljob("serve")["status"]
    assert status["phase"] == "Running"
    assert serving.condition("Ready", name="serve")["status"] == "True"
    assert deployment(serving)["spec"]["replicas"] == 2
    assert "attempts" not in status
    assert len(status["replicas"]) == 2


async def test_suspending_scales_to_zero_and_resuming_back(serving: Cluster) -> None:
    set_spec(serving, suspend=True)
    await serving.run("stop_suspended", "reap")
    assert deployment(serving)["spec"]["replicas"] == 0
    assert serving.dljob("serve")["status"]["phase"] == "Suspended"
    set_spec(serving, suspend=False)
    await serving.run("create_pods", "place", "run_pods")
    assert deployment(serving)["spec"]["replicas"] == 2
    assert serving.dljob("serve")["status"]["phase"] == "Running"


async def test_changed_replicas_scale_without_a_new_template(serving: Cluster) -> None:
    template = deployment(serving)["spec"]["template"]
    set_spec(serving, replicas=5)
    await serving.settle()
    assert deployment(serving)["spec"]["replicas"] == 5
    assert deployment(serving)["spec"]["template"] == template


async def test_changed_template_rolls_the_deployment(serving: Cluster) -> None:
    set_spec(serving, template=objects.template(image="busybox:2"))
    await serving.settle()
    assert deployment(serving)["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:2"
    assert serving.events() == ["Created", "Updated"]


async def test_share_stays_when_only_the_policy_changed_while_pods_are_bound(serving: Cluster) -> None:
    before = share(deployment(serving))
    serving.server.change(
        "packingpolicies", "default", lambda value: value.update(spec={"maxUtilizationPercent": 50}), namespace=""
    )
    set_spec(serving, template=objects.template(image="busybox:2"))
    await serving.settle()
    assert share(deployment(serving)) == before


async def test_share_changes_with_the_graph(serving: Cluster) -> None:
    before = share(deployment(serving))
    data = objects.toy_graph("other", flops=2**36).packed()
    serving.apply(objects.config_map("other", data=data), plural="configmaps")
    set_spec(serving, model={"configMapRef": {"name": "other", "key": "graph.json.gz"}})
    await serving.settle()
    assert share(deployment(serving)) != before


async def test_pods_of_the_former_spec_go_on_while_the_new_one_cannot_be_made(serving: Cluster) -> None:
    serving.server.change(
        "packingpolicies",
        "default",
        lambda value: value.update(spec={"queue": {"onMissingPrediction": "Hold"}}),
        namespace="",
    )
    before = deployment(serving)
    set_spec(serving, model=None, template=objects.template(image="busybox:2"))
    await serving.settle()
    assert deployment(serving) == before
    assert serving.dljob("serve")["status"]["phase"] == "Running"
    assert serving.condition("Predicted", name="serve")["reason"] == "NoModel"
    assert "PredictionMissing" in serving.events()


async def test_deleted_deployment_is_made_again(serving: Cluster) -> None:
    serving.server.delete("deployments", "serve")
    await serving.settle()
    assert deployment(serving)


@pytest.mark.parametrize("leaving", ["being deleted", "to be collected"])
async def test_a_deployment_of_a_former_dljob_of_the_name_is_waited_for(serving: Cluster, leaving: str) -> None:
    """As after `kubectl replace --force`."""
    old = deployment(serving)
    serving.server.delete("dljobs", "serve")
    await serving.settle()
    going = {"deletionTimestamp": serving.time.text()} if leaving == "being deleted" else {}
    serving.server.put("deployments", {**old, "metadata": {**old["metadata"], **going}})
    serving.apply(objects.dljob("serve", workloadType="Inference"))
    await serving.settle()
    queued, stalled = serving.condition("Queued", name="serve"), serving.condition("Stalled", name="serve")
    assert (queued["reason"], stalled) == ("PreviousPodsEnding", {})
    serving.server.delete("deployments", "serve")
    await serving.settle()
    assert deployment(serving)["metadata"]["ownerReferences"][0]["uid"] == serving.dljob("serve")["metadata"]["uid"]


async def test_foreign_deployment_of_the_name_is_left_alone(cluster: Cluster) -> None:
    foreign = {"metadata": {"name": "serve"}, "spec": {"replicas": 1, "template": {"spec": {}}}}
    cluster.apply(foreign, plural="deployments")
    before = deployment(cluster)
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.advance(3)
    assert deployment(cluster) == before
    assert cluster.condition("Queued", name="serve")["reason"] == "NameTaken"
    cluster.server.delete("deployments", "serve")
    await cluster.advance(30)
    assert deployment(cluster)["metadata"]["ownerReferences"]


async def test_replicas_of_zero_are_no_queue(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=0))
    await cluster.settle()
    queued = cluster.condition("Queued", name="serve")
    assert (queued["status"], queued["reason"]) == ("False", "ScaledToZero")


async def test_deployment_that_is_being_deleted_is_not_touched(serving: Cluster) -> None:
    time = serving.time.text()
    serving.server.change("deployments", "serve", lambda value: value["metadata"].update(deletionTimestamp=time))
    set_spec(serving, replicas=7)
    await serving.settle()
    assert deployment(serving)["spec"]["replicas"] == 2


async def test_deployment_that_is_another_one_by_now_is_not_written_to(serving: Cluster) -> None:
    foreign = {"metadata": {"name": "serve"}, "spec": {"replicas": 1, "template": {"spec": {}}}}
    serving.server.delete("deployments", "serve")
    serving.apply(foreign, plural="deployments")
    before = deployment(serving)
    serving.lose(100)
    set_spec(serving, replicas=7)
    await serving.settle()
    assert deployment(serving) == before
