"""Every request that writes names the operator's field manager, so that `managedFields` tell who wrote what."""

from collections.abc import Awaitable, Callable

import pytest

from cotenant_operator.kube import api
from operator_kit import extractions, objects, server
from operator_kit.cluster import Cluster

START = ("create_pods", "place", "run_pods")


def suspend(cluster: Cluster, value: bool) -> None:
    cluster.server.change("dljobs", "gang", lambda dljob: dljob["spec"].update(suspend=value))


async def training(cluster: Cluster) -> set[str]:
    """A gang that is suspended and resumed, fails once and then succeeds."""
    cluster.apply(objects.dljob("gang", replicas=2))
    await cluster.run(*START, "fail")
    suspend(cluster, True)
    await cluster.advance(20)
    suspend(cluster, False)
    await cluster.run(*START, "succeed")
    return {"jobs", "services", "dljobs/status", "events"}


async def inference(cluster: Cluster) -> set[str]:
    """A Deployment that is made and scaled."""
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.run(*START)
    cluster.server.change("dljobs", "serve", lambda value: value["spec"].update(replicas=2))
    await cluster.run(*START)
    return {"deployments", "dljobs/status", "events"}


async def extraction(cluster: Cluster) -> set[str]:
    """A graph that is extracted."""
    cluster.apply(extractions.dljob())
    await cluster.settle()
    for program in (extractions.start, extractions.write, extractions.succeed):
        program(cluster)
        await cluster.advance(15)
    return {"jobs", "configmaps", "serviceaccounts", "roles", "rolebindings", "dljobs/status", "events"}


def kind(request: api.Request) -> str:
    """Plural of what a request is about, with its subresource."""
    plural, _, _, subresource = server.parts(request.path)
    return f"{plural}/{subresource}" if subresource else plural


@pytest.mark.parametrize("live", [training, inference, extraction])
async def test_every_write_names_our_field_manager(
    cluster: Cluster, live: Callable[[Cluster], Awaitable[set[str]]]
) -> None:
    kinds = await live(cluster)
    writes = [request for request in cluster.server.requests if request.method in ("POST", "PATCH")]
    assert {request.query.get("fieldManager") for request in writes} == {"cotenant-operator"}
    assert kinds <= {kind(request) for request in writes}
