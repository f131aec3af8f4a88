"""A node that does not answer: the DLJob says so, and does not claim that it is ready."""

from typing import Any

import pytest

from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]
RUN = ("create_pods", "place", "run_pods")


def pod(cluster: Cluster) -> Json:
    (found,) = cluster.server.all("pods")
    return dict(found)


def ready(cluster: Cluster) -> tuple[str, str]:
    found = cluster.condition("Ready")
    return found["status"], found["reason"]


def silence(cluster: Cluster, **changes: Any) -> None:
    """What the node controller does when a node's Lease has run out; `changes`: of the pod's spec."""

    def edit(value: Json) -> None:
        value["spec"] = {**value["spec"], **changes}
        others = [item for item in value["status"]["conditions"] if item["type"] not in ("Ready", "ContainersReady")]
        said = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
        value["status"] = {**value["status"], "conditions": [*others, *said]}

    cluster.server.change("pods", pod(cluster)["metadata"]["name"], edit)


async def test_a_node_that_does_not_answer_is_named_with_the_remedy(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    assert ready(cluster) == ("True", "PodsReady")
    silence(cluster)
    await cluster.settle()
    message = cluster.condition("Ready")["message"]
    assert ready(cluster) == ("False", "PodsLost")
    assert message.startswith(f"pod {pod(cluster)['metadata']['name']} on node {objects.NODE}: ")
    assert "node.kubernetes.io/out-of-service" in message
    assert cluster.condition("Queued")["reason"] == "PodsLost"
    assert cluster.dljob()["status"]["phase"] == "Running"
    assert "PodsLost" in cluster.events()


async def test_a_pod_whose_readiness_gate_is_not_passed_is_on_no_lost_node(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    silence(cluster, readinessGates=[{"conditionType": "example.org/ready"}])
    await cluster.settle()
    assert ready(cluster) == ("False", "PodsNotReady")


async def test_a_pod_that_is_not_gone_long_after_its_grace_period_is_lost(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.server.delete("pods", pod(cluster)["metadata"]["name"])
    await cluster.settle()
    assert ready(cluster)[1] != "PodsLost"
    await cluster.advance(100)
    assert ready(cluster) == ("False", "PodsLost")
    await cluster.run("reap", *RUN)
    assert ready(cluster) == ("True", "PodsReady")


async def test_how_long_a_job_is_lost_is_measured(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    silence(cluster)
    await cluster.settle()
    await cluster.advance(90)
    assert b"cotenant_operator_lost_seconds 90.0" in cluster.work.metrics.text()
    await cluster.run("run_pods")
    cluster.server.delete("dljobs", "train")
    await cluster.settle()
    assert b"cotenant_operator_lost_seconds 0.0" in cluster.work.metrics.text()


@pytest.mark.parametrize(("phase", "reason"), [("Pending", "PodsStarting"), ("Running", "PodsReady")])
async def test_a_pod_that_has_not_started_after_a_minute_does_not_run(
    cluster: Cluster, phase: str, reason: str
) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", *(["run_pods"] if phase == "Running" else []))
    await cluster.advance(59)
    assert cluster.dljob()["status"]["phase"] == "Running"
    await cluster.advance(1)
    assert ready(cluster)[1] == reason
    assert cluster.dljob()["status"]["phase"] == ("Starting" if phase == "Pending" else "Running")
