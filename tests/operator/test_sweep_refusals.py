"""Runs of a sweep that the API server lets nobody write: they hold up no other run, and no status."""

from typing import Any

import pytest

from cotenant_operator.life import sweeping
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]


def sweep(name: str = "train", **spec: Any) -> Json:
    return objects.dljob(name, **{"completions": 3, **spec})


def status(cluster: Cluster) -> Json:
    return dict(cluster.dljob()["status"])


def runs(cluster: Cluster) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.server.all("dljobs") if one["metadata"]["name"] != "train")


def run(cluster: Cluster, index: int) -> Json:
    return dict(cluster.server.find("dljobs", f"train-{index}") or {})


def set_spec(cluster: Cluster, name: str = "train", **fields: Any) -> None:
    cluster.server.change("dljobs", name, lambda value: value.update(spec={**value["spec"], **fields}))


def end(cluster: Cluster, index: int, condition: str = "Complete") -> None:
    """A run ends."""
    ended = {
        "type": condition,
        "status": "True",
        "reason": condition,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    phase = "Succeeded" if condition == "Complete" else "Failed"
    cluster.server.change(
        "dljobs", f"train-{index}", lambda value: value.update(status={"phase": phase, "conditions": [ended]})
    )


def refuse(cluster: Cluster, *indexes: int, status: int = 422, method: str = "PATCH") -> None:
    """The API server refuses what is written into these runs."""
    paths = tuple(f"/dljobs/train-{index}" for index in indexes)
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=status, message="a policy says no")
        if request.method == method and request.path.endswith(paths)
        else None
    )


async def test_a_run_whose_suspension_is_refused_keeps_no_other_running(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=4))
    await cluster.settle()
    set_spec(cluster, suspend=True)
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=422) if request.method == "PATCH" and request.path.endswith("/train-0") else None
    )
    for _ in range(8):
        await cluster.advance(20)
    assert [run(cluster, index)["spec"].get("suspend", False) for index in range(4)] == [False, True, True, True]
    assert cluster.condition("Stalled")["reason"] == "ReconcileError"
    end(cluster, 1)
    await cluster.advance(60)
    assert status(cluster)["completedIndexes"] == "1"


async def test_a_run_that_cannot_be_made_is_not_counted(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=4, parallelism=2))
    await cluster.settle()
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=403, message="exceeded quota: small")
        if request.method == "POST" and request.path.endswith("/dljobs")
        else None
    )
    # What a run has come to is written also where others cannot be made.
    end(cluster, 0)
    await cluster.settle()
    assert (status(cluster)["completedIndexes"], status(cluster)["active"]) == ("0", 1)
    assert cluster.condition("Queued")["reason"] == "QuotaExceeded"


async def test_a_run_whose_creation_waits_because_others_delete_it_is_not_counted(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=1))
    await cluster.settle()
    for _ in range(3):
        cluster.server.delete("dljobs", "train-0")
        await cluster.settle()
    assert runs(cluster) == []
    assert status(cluster).get("active", 0) == 0


@pytest.mark.parametrize("status_code", [403, 422])
async def test_many_runs_that_cannot_be_written_keep_no_other_running_and_no_status(
    cluster: Cluster, status_code: int
) -> None:
    refused, total = sweeping.AT_ONCE + 3, sweeping.AT_ONCE + 8
    cluster.apply(sweep(completions=total))
    await cluster.settle()
    set_spec(cluster, suspend=True)
    refuse(cluster, *range(refused), status=status_code)
    await cluster.settle()
    suspended = [run(cluster, index)["spec"].get("suspend", False) for index in range(total)]
    assert suspended == [False] * refused + [True] * (total - refused)
    assert status(cluster)["phase"] == "Suspended"
    stalled = cluster.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "ReconcileError")
    assert f"{refused} runs could not be changed: 0-{refused - 1}: " in stalled["message"]
    assert "a policy says no" in stalled["message"]
    cluster.server.fault = lambda _: None
    await cluster.advance(301)
    assert all(run(cluster, index)["spec"]["suspend"] for index in range(total))
    assert cluster.condition("Stalled")["status"] == "False"


async def test_a_run_whose_writes_get_no_answer_keeps_no_status_waiting(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=2))
    await cluster.settle()
    set_spec(cluster, suspend=True)
    refuse(cluster, 0, status=504)
    for _ in range(4):
        await cluster.advance(20)
    assert run(cluster, 1)["spec"]["suspend"]
    assert status(cluster)["phase"] == "Suspended"


async def test_a_late_run_that_cannot_be_deleted_is_tried_again(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=1))
    await cluster.settle()
    late = run(cluster, 0)
    end(cluster, 0)
    await cluster.settle()
    cluster.server.delete("dljobs", "train-0")
    refuse(cluster, 0, status=403, method="DELETE")
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    cluster.apply({**late, "metadata": {key: late["metadata"][key] for key in kept}})
    await cluster.settle()
    cluster.server.fault = lambda _: None
    await cluster.advance(301)
    assert runs(cluster) == []


async def test_runs_of_a_suspended_sweep_whose_spec_cannot_be_used_are_suspended(cluster: Cluster) -> None:
    total = sweeping.AT_ONCE + 2
    cluster.apply(sweep(completions=total))
    await cluster.settle()
    refuse(cluster, 0)
    set_spec(cluster, suspend=True, replicas="many")
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "InvalidSpec"
    suspended = [run(cluster, index)["spec"].get("suspend", False) for index in range(total)]
    assert suspended == [False, *[True] * (total - 1)]
    cluster.server.fault = lambda _: None
    await cluster.advance(301)
    assert run(cluster, 0)["spec"]["suspend"]


async def test_runs_of_a_sweep_whose_spec_cannot_be_used_go_on_where_it_is_not_suspended(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    set_spec(cluster, replicas="many")
    await cluster.advance(400)
    assert not any(run(cluster, index)["spec"].get("suspend", False) for index in range(3))
