"""What another changes and the operator does not write back is told, with who did and the remedy, and left."""

from typing import Any

import pytest

from operator_kit import contenders, objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]
RUN = ("create_pods", "place", "run_pods")


def by(manager: str, field: str) -> Json:
    """The entry of `managedFields` of somebody who has written a field of the spec."""
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {f"f:{field}": {}}}}


def write(cluster: Cluster, plural: str, name: str, **fields: Any) -> None:
    """Somebody writes fields into the spec of a Job or Deployment."""

    def edit(value: Json) -> None:
        value["spec"].update(fields)
        value["metadata"]["managedFields"] += [by("tool", field) for field in fields]

    cluster.server.change(plural, name, edit)


async def serve(cluster: Cluster, **spec: Any) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", **spec))
    await cluster.run(*RUN)


async def roll(cluster: Cluster) -> None:
    image = {"template": objects.template(image="busybox:2")}
    cluster.server.change("dljobs", "serve", lambda value: value.update(spec={**value["spec"], **image}))
    await cluster.settle()


@pytest.mark.parametrize(("replicas", "left"), [(1, 0), (3, 2)])
async def test_parallelism_that_another_lowers_is_told_with_the_remedy_and_left(
    cluster: Cluster, replicas: int, left: int
) -> None:
    cluster.apply(objects.dljob(replicas=replicas))
    await cluster.settle()
    write(cluster, "jobs", "train-1", parallelism=left)
    await cluster.run(*RUN)
    await cluster.advance(3600)
    queue, current = cluster.condition("Queued"), cluster.condition("Current")
    assert (queue["status"], queue["reason"]) == ("False", "Drifted")
    assert (current["status"], current["reason"]) == ("False", "Drifted")
    assert queue["message"] == current["message"]
    assert f"spec.parallelism of Job train-1 is {left} and not {replicas}, written by tool" in queue["message"]
    assert f'kubectl patch job train-1 --type=merge -p \'{{"spec":{{"parallelism":{replicas}}}}}\'' in queue["message"]
    assert cluster.events().count("Drifted") == 1
    assert cluster.attempts()[0]["spec"]["parallelism"] == left


async def test_a_job_whose_parallelism_is_set_back_goes_on(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    for parallelism in (0, 1):
        write(cluster, "jobs", "train-1", parallelism=parallelism)
        await cluster.run(*RUN)
    assert cluster.condition("Current")["status"] == "True"
    await cluster.run("succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_the_next_attempt_has_its_own_parallelism(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    write(cluster, "jobs", "train-1", parallelism=0)
    await cluster.run("run_out_of_memory", "enforce_deadlines", "reap", *RUN)
    assert [job["spec"]["parallelism"] for job in cluster.attempts()] == [0, 1]
    assert cluster.condition("Current")["status"] == "True"
    assert cluster.dljob()["status"]["phase"] == "Running"


async def test_more_parallelism_than_replicas_means_nothing(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    write(cluster, "jobs", "train-1", parallelism=5)
    await cluster.run(*RUN)
    assert cluster.condition("Current") == {}


async def test_what_a_paused_deployment_keeps_from_being_rolled_out_is_told_with_the_remedy(cluster: Cluster) -> None:
    await serve(cluster)
    write(cluster, "deployments", "serve", paused=True)
    await cluster.settle()
    assert cluster.condition("Current", name="serve") == {}
    await roll(cluster)
    await cluster.advance(3600)
    ready, current = cluster.condition("Ready", name="serve"), cluster.condition("Current", name="serve")
    assert (ready["status"], ready["reason"]) == ("False", "RollingOut")
    assert (current["status"], current["reason"]) == ("False", "Drifted")
    assert ready["message"] == current["message"]
    assert ready["message"].startswith("Deployment serve is paused (spec.paused: true), written by tool")
    assert "kubectl rollout resume deployment/serve" in ready["message"]
    assert cluster.events().count("Drifted") == 1
    assert (cluster.server.find("deployments", "serve") or {})["spec"]["paused"] is True


async def test_a_deployment_that_is_paused_before_it_has_pods_says_so_in_queued(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.settle()
    write(cluster, "deployments", "serve", paused=True)
    await cluster.settle()
    queue = cluster.condition("Queued", name="serve")
    assert (queue["status"], queue["reason"]) == ("False", "Drifted")
    assert "kubectl rollout resume deployment/serve" in queue["message"]


async def test_a_deployment_that_is_resumed_is_rolled_out(cluster: Cluster) -> None:
    await serve(cluster)
    write(cluster, "deployments", "serve", paused=True)
    await roll(cluster)
    write(cluster, "deployments", "serve", paused=False)
    await cluster.run("roll_out", "reap", *RUN)
    assert cluster.condition("Ready", name="serve")["status"] == "True"
    assert cluster.condition("Current", name="serve")["status"] == "True"


async def test_no_pod_goes_for_a_rollout_that_is_paused(cluster: Cluster) -> None:
    cluster.room = 1
    await serve(cluster)
    await roll(cluster)
    await cluster.run("surge", "place")
    write(cluster, "deployments", "serve", paused=True)
    await cluster.advance(3600)
    assert "strategy" not in (cluster.server.find("deployments", "serve") or {})["spec"]


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}},
        {"type": "Recreate"},
    ],
)
async def test_a_strategy_of_another_stands_where_a_rollout_finds_room(cluster: Cluster, strategy: Json) -> None:
    await serve(cluster)
    write(cluster, "deployments", "serve", strategy=strategy)
    await roll(cluster)
    await cluster.run("roll_out", "reap", *RUN)
    await cluster.advance(3600)
    assert cluster.condition("Ready", name="serve")["status"] == "True"
    assert (cluster.server.find("deployments", "serve") or {})["spec"]["strategy"] == strategy
    assert cluster.condition("Current", name="serve") == {}


async def test_a_strategy_of_another_gives_way_where_a_rollout_finds_no_room(cluster: Cluster) -> None:
    cluster.room = 1
    await serve(cluster)
    surging = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}}
    write(cluster, "deployments", "serve", strategy=surging)
    await roll(cluster)
    await cluster.run("surge", "place")
    await cluster.advance(100)
    made = (cluster.server.find("deployments", "serve") or {})["spec"]["strategy"]
    assert made["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    await contenders.contend(cluster, "surge", 60)
    assert contenders.fights(cluster.server) == {}
