"""Work that is done, before the Job controller has counted it: nothing ends its attempt, and it is not done again."""

from typing import Any

import pytest

from cotenant_operator import labels
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.neighbours import QUEUE

RUN = ("create_pods", "place", "run_pods")


def edit(cluster: Cluster, **fields: Any) -> None:
    """The user changes the DLJob."""
    cluster.server.change("dljobs", "train", lambda value: value.update(spec={**value["spec"], **fields}))


def counted(cluster: Cluster, **status: Any) -> None:
    """What the Job controller says of the Job."""
    cluster.server.change("jobs", "train-1", lambda job: job.update(status={**job.get("status", {}), **status}))


async def test_a_successor_that_ends_well_is_not_run_again_for_what_befell_the_pod_before(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(backoffLimit=3))
    await cluster.run(*RUN)
    victim, began = cluster.server.all("pods")[0]["metadata"]["uid"], cluster.time.text()
    await cluster.run("crash")
    await cluster.advance(11)
    await cluster.run(*RUN)
    fault = {"id": "f1", "time": began, "xid": 31, "culpritPodUID": "stranger", "victimPodUIDs": [victim]}
    told = {"lastFault": fault}
    cluster.server.change("gpunodes", objects.NODE, lambda node: node["status"]["gpus"][0].update(told), namespace="")
    await cluster.advance(86_400)
    await cluster.run("finish_work")
    assert "activeDeadlineSeconds" not in cluster.attempts()[0]["spec"]


@pytest.mark.parametrize("queue", ["", "team"])
async def test_a_gang_is_done_when_a_member_was_counted_and_drained_and_the_others_end_well(
    cluster: Cluster, queue: str
) -> None:
    value = objects.dljob(replicas=2)
    value["metadata"]["labels"] = {QUEUE: queue} if queue else {}
    cluster.apply(value)
    await cluster.run("admit", *RUN, "lead", "drain_ended")
    counted(cluster, succeeded=1, active=1, completedIndexes="0")
    await cluster.run("finish_work")
    edit(cluster, suspend=True)
    await cluster.settle()
    spec = cluster.attempts()[0]["spec"]
    assert (spec["suspend"], "activeDeadlineSeconds" in spec) == (False, False)


@pytest.mark.parametrize("suspend", [False, True])
async def test_no_deadline_is_enforced_on_work_that_is_done(cluster: Cluster, suspend: bool) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=600))
    await cluster.run(*RUN)
    await cluster.advance(300)
    await cluster.run("finish_work")
    edit(cluster, suspend=suspend)
    await cluster.advance(301)
    assert "activeDeadlineSeconds" not in cluster.attempts()[0]["spec"]


@pytest.mark.parametrize("index", ["0", "7"])
async def test_a_pod_that_only_names_the_job_and_ends_well_keeps_nobody_from_suspending_it(
    cluster: Cluster, index: str
) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*RUN)
    real = cluster.server.all("pods")[0]["metadata"]
    notes = {labels.COMPLETION_INDEX: index}
    metadata = {"name": "mine", "labels": real["labels"], "annotations": notes}
    metadata["ownerReferences"] = real["ownerReferences"]
    cluster.server.put("pods", {"metadata": metadata, "spec": {"containers": []}}, phase="Succeeded")
    edit(cluster, suspend=True)
    await cluster.settle()
    assert cluster.attempts()[0]["spec"]["suspend"]


async def test_a_remote_job_of_which_all_is_counted_is_not_deleted_when_its_dljob_is_suspended(
    cluster: Cluster,
) -> None:
    value = objects.dljob(managedBy="kueue.x-k8s.io/multikueue")
    value["metadata"]["labels"] = {QUEUE: "team"}
    cluster.apply(value)
    await cluster.run("admit")
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
    counted(cluster, startTime=cluster.time.text(), succeeded=1, conditions=[met])
    edit(cluster, suspend=True)
    await cluster.settle()
    assert cluster.attempts()


@pytest.mark.parametrize("suspend", [False, True])
async def test_no_deadline_and_no_suspension_ends_a_gang_whose_success_policy_is_met(
    cluster: Cluster, suspend: bool
) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    cluster.apply(objects.dljob(replicas=3, successPolicy=policy, activeDeadlineSeconds=600))
    await cluster.run(*RUN)
    await cluster.advance(300)
    await cluster.run("lead")
    edit(cluster, suspend=suspend)
    await cluster.advance(400)
    spec = cluster.attempts()[0]["spec"]
    assert (spec["suspend"], "activeDeadlineSeconds" in spec) == (False, False)
