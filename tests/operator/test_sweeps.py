"""A sweep: runs that are DLJobs of their own, counted, stopped and remembered. Against a cluster in memory."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_operator.state import budget, indexes
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]
LIFE = ("create_pods", "place", "run_pods", "succeed")


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


def uid(cluster: Cluster) -> str:
    return str(cluster.dljob()["metadata"]["uid"])


async def test_each_run_is_a_dljob_of_its_own_and_all_of_them_well_are_a_sweep_that_is_done(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    assert runs(cluster) == ["train-0", "train-1", "train-2"]
    assert status(cluster)["active"] == 3
    await cluster.run(*LIFE)
    found = status(cluster)
    assert (found["phase"], found["succeeded"], found["failed"], found["completedIndexes"]) == (
        "Succeeded",
        3,
        0,
        "0-2",
    )
    assert cluster.condition("Complete")["message"] == "all 3 runs ended well"
    assert sorted(job["metadata"]["name"] for job in cluster.server.all("jobs")) == [
        f"train-{one}-1" for one in range(3)
    ]


async def test_a_run_has_its_index_before_what_the_user_sets_and_nothing_of_the_sweep(cluster: Cluster) -> None:
    value = sweep(ttlSecondsAfterFinished=60, parallelism=2)
    container = value["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "SEED", "value": "$(COTENANT_COMPLETION_INDEX)"}]
    cluster.apply(value)
    await cluster.settle()
    made = run(cluster, 1)
    assert made["metadata"]["labels"][names.COMPLETION_INDEX_LABEL] == "1"
    assert made["metadata"]["labels"][names.DLJOB_LABEL] == "train"
    assert not {"completions", "parallelism", "ttlSecondsAfterFinished"} & set(made["spec"])
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [
        {"name": "COTENANT_COMPLETION_INDEX", "value": "1"},
        {"name": "JOB_COMPLETION_INDEX", "value": "1"},
        {"name": "SEED", "value": "$(COTENANT_COMPLETION_INDEX)"},
    ]


async def test_so_many_runs_as_the_parallelism_says_are_under_way(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=5, parallelism=2))
    await cluster.settle()
    assert runs(cluster) == ["train-0", "train-1"]
    end(cluster, 1)
    await cluster.settle()
    assert runs(cluster) == ["train-0", "train-1", "train-2"]
    set_spec(cluster, parallelism=4)
    await cluster.advance(20)
    assert runs(cluster) == [f"train-{index}" for index in range(5)]
    assert status(cluster)["active"] == 4


async def test_a_run_that_fails_ends_no_other_and_the_sweep_fails_when_all_have_ended(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    end(cluster, 1, "Failed")
    await cluster.settle()
    assert status(cluster)["phase"] == "Queued"
    assert "1 of 3 runs have ended, 1 of them failed (1)" in cluster.condition("Ready")["message"]
    for index in (0, 2):
        end(cluster, index)
    await cluster.settle()
    assert cluster.condition("Failed")["reason"] == "RunsFailed"
    assert cluster.condition("Failed")["message"] == "1 of 3 runs failed: 1"
    assert status(cluster)["failedIndexes"] == "1"


async def test_a_run_that_is_deleted_after_its_end_is_not_made_again_and_one_before_is(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    end(cluster, 0)
    await cluster.settle()
    for index in (0, 1):
        cluster.server.delete("dljobs", f"train-{index}")
    await cluster.settle()
    assert runs(cluster) == ["train-1", "train-2"]
    assert status(cluster)["completedIndexes"] == "0"


async def test_all_runs_of_a_suspended_sweep_are_suspended_and_go_on_with_it(cluster: Cluster) -> None:
    cluster.apply(sweep(parallelism=2))
    await cluster.settle()
    set_spec(cluster, suspend=True)
    await cluster.settle()
    assert [run(cluster, index)["spec"]["suspend"] for index in (0, 1)] == [True, True]
    assert status(cluster)["phase"] == "Suspended"
    end(cluster, 0)
    await cluster.settle()
    assert runs(cluster) == ["train-0", "train-1"]
    set_spec(cluster, suspend=False)
    await cluster.settle()
    assert not run(cluster, 1)["spec"]["suspend"]
    assert runs(cluster) == ["train-0", "train-1", "train-2"]


async def test_a_suspended_sweep_says_how_many_runs_still_have_their_gpus(cluster: Cluster) -> None:
    cluster.apply(sweep(parallelism=2))
    await cluster.run(*LIFE[:3])
    set_spec(cluster, suspend=True)
    await cluster.run("stop_suspended")
    assert all(run(cluster, index)["status"]["phase"] == "Suspended" for index in (0, 1))
    await cluster.advance(20)
    assert cluster.condition("Suspended")["message"] == "spec.suspend is true: 2 of its runs have not stopped yet"
    await cluster.run("reap")
    await cluster.advance(20)
    assert cluster.condition("Suspended")["message"] == "spec.suspend is true: no pod of it runs"


async def test_a_run_that_a_user_has_suspended_stays_so(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    set_spec(cluster, "train-1", suspend=True)
    await cluster.settle()
    cluster.work.enqueue(cluster.store.keys())
    await cluster.advance(20)
    assert run(cluster, 1)["spec"]["suspend"] is True
    assert "1 suspended" in cluster.condition("Queued")["message"]


async def test_a_dljob_of_a_runs_name_that_is_anothers_is_told_and_left_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("train-1"))
    await cluster.settle()
    cluster.apply(sweep())
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "NameTaken"
    assert "ownerReferences" not in run(cluster, 1)["metadata"]
    cluster.server.delete("dljobs", "train-1")
    await cluster.advance(60)
    assert run(cluster, 1)["metadata"]["ownerReferences"][0]["name"] == "train"


async def test_another_operator_goes_on_with_a_sweep(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=4, parallelism=2))
    await cluster.settle()
    end(cluster, 0)
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert runs(cluster) == ["train-0", "train-1", "train-2"]


async def test_a_run_that_is_made_after_the_end_is_taken_away(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=1))
    await cluster.settle()
    late = run(cluster, 0)
    end(cluster, 0)
    await cluster.settle()
    cluster.server.delete("dljobs", "train-0")
    await cluster.settle()
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    cluster.apply({**late, "metadata": {key: late["metadata"][key] for key in kept}})
    await cluster.settle()
    assert runs(cluster) == []


async def test_more_runs_than_are_made_in_one_look_are_made_in_several(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=100))
    await cluster.settle()
    assert len(runs(cluster)) == 100
    set_spec(cluster, suspend=True)
    await cluster.settle()
    assert all(run(cluster, index)["spec"]["suspend"] for index in range(100))


async def test_a_sweep_has_no_prediction_and_no_pods_of_its_own(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.run(*LIFE[:3])
    assert {pod["metadata"]["labels"][names.DLJOB_LABEL] for pod in cluster.server.all("pods")} == set(runs(cluster))
    assert "Predicted" not in {one["type"] for one in status(cluster)["conditions"]}
    assert status(cluster)["phase"] == "Running"


async def test_a_run_that_cannot_be_made_keeps_no_other_from_being_made(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("train-1"))
    cluster.apply(sweep(completions=6))
    await cluster.settle()
    assert [name for name in runs(cluster) if run(cluster, int(name[-1]))["metadata"].get("ownerReferences")] == [
        f"train-{index}" for index in (0, 2, 3, 4, 5)
    ]
    assert cluster.condition("Queued")["reason"] == "NameTaken"


async def test_runs_for_which_the_namespace_has_no_room_are_made_once(cluster: Cluster) -> None:
    cluster.store._budget = budget.Budget(per_namespace=40_000)
    big = objects.template()
    big["spec"]["containers"][0]["args"] = ["x" * 10_000]
    cluster.apply(sweep(completions=40, template=big))
    await cluster.settle()
    posted = [request for request in cluster.server.requests if request.method == "POST"]
    assert len([request for request in posted if request.path.endswith("/dljobs")]) == 40
    assert len(runs(cluster)) == 40


async def test_what_a_job_that_is_no_sweep_controls_is_left_alone_after_its_end(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    owner = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "train", "uid": uid(cluster), "controller": True}
    follower = objects.dljob("train-7")
    follower["metadata"]["ownerReferences"] = [owner]
    cluster.apply(follower)
    await cluster.run("succeed")
    assert runs(cluster) == ["train-7"]


async def test_a_job_that_an_operator_without_sweeps_made_of_one_is_taken_away(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    owner = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "train", "uid": uid(cluster), "controller": True}
    job: Json = {
        "metadata": {"name": "train-1", "namespace": "team", "labels": {names.DLJOB_LABEL: "train"}},
        "spec": {"completions": 1, "template": objects.template()},
    }
    job["metadata"]["ownerReferences"] = [owner]
    cluster.apply(job, plural="jobs")
    await cluster.settle()
    assert cluster.server.find("jobs", "train-1") is None


async def test_a_run_that_ends_just_after_another_and_is_deleted_is_not_made_again() -> None:
    cluster = Cluster(urgent_seconds=1)
    cluster.apply(sweep())
    await cluster.settle()
    for index in (0, 1):
        end(cluster, index)
        await cluster.advance(0.2)
        cluster.server.delete("dljobs", f"train-{index}")
        await cluster.advance(0.2)
    await cluster.advance(60)
    assert runs(cluster) == ["train-2"]
    assert status(cluster)["completedIndexes"] == "0-1"


async def test_a_run_that_loses_its_owner_is_told_of(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=1))
    await cluster.settle()
    cluster.server.change("dljobs", "train-0", lambda value: value["metadata"].pop("ownerReferences"))
    await cluster.advance(60)
    assert cluster.condition("Queued")["reason"] == "NameTaken"


async def test_a_sweep_of_which_every_run_is_stalled_is_stalled(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=2))
    await cluster.settle()
    for index in (0, 1):
        huge = [{"name": "HUGE", "value": "x" * 140_000}]

        def edit(value: Json, huge: list[Json] = huge) -> None:
            value["spec"]["template"]["spec"]["containers"][0]["env"] = huge

        cluster.server.change("dljobs", f"train-{index}", edit)
    await cluster.advance(60)
    assert cluster.condition("Stalled")["reason"] == "RunsStalled"
    assert "see train-0" in cluster.condition("Stalled")["message"]


@pytest.mark.parametrize(
    ("found", "text"), [((), ""), ((3,), "3"), ((0, 1), "0-1"), ((0, 1, 2, 3, 7, 9, 10), "0-3,7,9-10")]
)
def test_indexes_are_written_as_ranges(found: tuple[int, ...], text: str) -> None:
    assert indexes.text(found) == text
    assert indexes.read(text) == frozenset(found)


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1-x", "5000", "0-99999999999", "½", None])
def test_what_is_no_index_is_left_out(text: str | None) -> None:
    assert indexes.read(text) in (frozenset(), frozenset([1]))
