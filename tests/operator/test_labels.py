"""Labels may come and go: what the operator owns it finds by the owner. Against a cluster in memory."""

from typing import Any

import pytest

from cotenant_api import names
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

RUN = ("create_pods", "place", "run_pods")


def jobs(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.attempts()]


def edit(cluster: Cluster, name: str, **fields: Any) -> None:
    cluster.server.change("dljobs", name, lambda value: value["spec"].update(fields))


async def test_a_label_that_was_taken_away_and_put_back_leaves_nobody_blind(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels", "put_labels", "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert jobs(cluster) == ["train-1"]


async def test_a_job_without_the_label_is_followed_all_the_same(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels", "succeed")
    await cluster.advance(40)
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert jobs(cluster) == ["train-1"]


async def test_a_new_process_finds_a_job_without_the_label(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels")
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert cluster.dljob()["status"]["phase"] == "Running"
    assert jobs(cluster) == ["train-1"]


@pytest.mark.parametrize("name", ["train", "serve"])
async def test_what_has_lost_the_label_is_suspended_as_anything_else_and_labelled_by_that(
    cluster: Cluster, name: str
) -> None:
    kind = "Training" if name == "train" else "Inference"
    cluster.apply(objects.dljob(name, workloadType=kind))
    await cluster.run(*RUN, "take_labels")
    edit(cluster, name, suspend=True)
    await cluster.run("stop_suspended", "reap")
    assert cluster.dljob(name)["status"]["phase"] == "Suspended"
    (there,) = cluster.attempts() + cluster.server.all("deployments")
    assert there["metadata"]["labels"][names.DLJOB_LABEL] == name
    assert not cluster.server.all("pods")


async def test_a_watch_that_was_lost_meanwhile_is_no_reason_to_forget(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.take_labels()
    cluster.lose(9)
    await cluster.relist()
    cluster.put_labels()
    await cluster.run("succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_nobody_fights_for_the_label(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    cluster.server.requests.clear()
    for _ in range(10):
        await cluster.run("take_labels")
        await cluster.advance(6)
    written = [request for request in cluster.server.requests if request.method != "GET" and "/jobs/" in request.path]
    assert written == []


async def test_an_unlabelled_job_that_is_deleted_is_made_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN, "take_labels")
    uid = cluster.attempts()[0]["metadata"]["uid"]
    cluster.server.delete("jobs", "train-1")
    await cluster.run("reap")
    await cluster.advance(40)
    (job,) = cluster.attempts()
    assert job["metadata"]["uid"] != uid
