"""An edit of a sweep reaches the runs that have had no GPU, and is told of the others. Against a cluster in memory."""

import json
from typing import Any

import pytest

from cotenant_operator import labels
from cotenant_operator.kube import api
from cotenant_operator.life import sweeping
from operator_kit import objects, releases
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]

RUNNING = ("create_pods", "place", "run_pods")
GOOD = objects.template(image="good")
QUEUE = {"kueue.x-k8s.io/queue-name": "research"}


def sweep(**spec: Any) -> Json:
    return objects.dljob(**{"completions": 3, "template": objects.template(image="bad"), **spec})


def edit(cluster: Cluster, name: str = "train", **fields: Any) -> None:
    def write(value: Json) -> None:
        spec = {**value["spec"], **fields}
        value["spec"] = {key: found for key, found in spec.items() if found is not None}

    cluster.server.change("dljobs", name, write)


def label(cluster: Cluster, **found: str) -> None:
    cluster.server.change("dljobs", "train", lambda value: value["metadata"].update(labels=found))


def run(cluster: Cluster, index: int = 0) -> Json:
    return cluster.server.find("dljobs", f"train-{index}") or {}


def without_status(found: Json) -> Json:
    """A run without what tells of it."""
    kept = {key: value for key, value in found["metadata"].items() if key != "resourceVersion"}
    return {"metadata": kept, "spec": found["spec"]}


def images(cluster: Cluster) -> dict[str, str]:
    """The images of the runs, and of their Jobs."""
    found = [one for one in cluster.server.all("dljobs") if one["metadata"]["name"] != "train"]
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["image"]
        for one in (*found, *cluster.attempts())
    }


def refuse_bad_jobs(request: api.Request) -> Fault | None:
    """Refuse Jobs of the template that has a slip, as the API server does."""
    slipped = request.path.endswith("/jobs") and request.method == "POST" and "bad" in json.dumps(request.body)
    return Fault(effect=False, status=422, message='unknown field "resorces"') if slipped else None


async def test_a_slip_in_the_template_is_corrected_in_the_runs_that_it_has_stalled(cluster: Cluster) -> None:
    cluster.server.fault = refuse_bad_jobs
    cluster.apply(sweep(completions=4, parallelism=2))
    await cluster.advance(60)
    assert cluster.condition("Stalled")["reason"] == "RunsStalled"
    edit(cluster, template=GOOD)
    await cluster.settle()
    assert cluster.condition("Stalled")["status"] == "False"
    await cluster.run(*RUNNING, "succeed", *RUNNING, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert cluster.condition("Current") == {}


@pytest.mark.parametrize("steps", [(), ("create_pods",)])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_runs_that_wait_take_the_change_over_and_keep_what_they_are(
    cluster: Cluster, replicas: int, steps: tuple[str, ...]
) -> None:
    cluster.apply(sweep(completions=2, replicas=replicas))
    await cluster.run(*steps)
    before = run(cluster)
    edit(cluster, template=GOOD, backoffLimit=1)
    await cluster.settle()
    after = run(cluster)
    assert images(cluster) == dict.fromkeys(("train-0", "train-1", "train-0-1", "train-1-1"), "good")
    assert (after["metadata"]["uid"], after["spec"]["backoffLimit"]) == (before["metadata"]["uid"], 1)
    env = after["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "COTENANT_COMPLETION_INDEX", "value": "0"} in env
    assert cluster.events().count("Updated") == 1
    await cluster.run(*RUNNING, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_what_the_sweep_says_no_more_goes_from_its_runs(cluster: Cluster) -> None:
    template = objects.template(args=["x"], resources={"limits": {"cpu": "1", "memory": "1Gi"}})
    template["spec"]["nodeSelector"] = {"a": "b"}
    template["metadata"] = {"labels": {"team": "vision"}}
    cluster.apply(sweep(template=template, activeDeadlineSeconds=60))
    await cluster.settle()
    wanted = objects.template(resources={"limits": {"cpu": "1"}})
    edit(cluster, template=wanted, activeDeadlineSeconds=None)
    await cluster.settle()
    found = run(cluster)["spec"]
    assert "activeDeadlineSeconds" not in found
    assert found["template"]["spec"]["containers"][0].pop("env")
    assert found["template"] == wanted


async def test_runs_that_have_had_gpus_are_left_and_the_sweep_says_which(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=4, parallelism=2))
    await cluster.run(*RUNNING)
    edit(cluster, template=GOOD, parallelism=3)
    await cluster.settle()
    assert [images(cluster)[f"train-{index}"] for index in range(3)] == ["bad", "bad", "good"]
    current = cluster.condition("Current")
    assert (current["status"], current["reason"]) == ("False", "SpecChangeIgnored")
    assert "2 runs got GPUs before the change, and kept the former spec: 0-1; " in current["message"]
    assert "delete its DLJob (train-0, say)" in current["message"]
    assert cluster.events().count("SpecChangeIgnored") == 1
    cluster.server.delete("dljobs", "train-0")
    await cluster.advance(60)
    assert images(cluster)["train-0"] == "good"
    assert "1 run got GPUs before the change, and kept the former spec: 1; " in cluster.condition("Current")["message"]
    edit(cluster, template=sweep()["spec"]["template"])
    await cluster.settle()
    assert (cluster.condition("Current")["status"], images(cluster)["train-0"]) == ("True", "bad")


async def test_an_evicted_run_waits_with_the_spec_that_it_began_with(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=1))
    await cluster.run(*RUNNING, "evict", "reap", "create_pods")
    assert run(cluster)["status"]["phase"] == "Queued"
    edit(cluster, template=GOOD)
    await cluster.settle()
    assert images(cluster)["train-0"] == "bad"
    assert cluster.condition("Current")["status"] == "False"


async def test_a_run_that_is_stalled_after_it_had_its_gpus_takes_the_change_over(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=1))
    await cluster.run(*RUNNING)
    cluster.server.fault = refuse_bad_jobs
    cluster.server.delete("jobs", "train-0-1")
    await cluster.run("reap")
    await cluster.advance(400)
    assert cluster.condition("Stalled", name="train-0")["status"] == "True"
    edit(cluster, template=GOOD)
    await cluster.run(*RUNNING)
    assert images(cluster)["train-0"] == "good"
    assert run(cluster)["status"]["phase"] == "Running"


async def test_a_suspended_sweep_goes_on_with_what_was_changed_meanwhile(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.run("create_pods")
    edit(cluster, suspend=True, template=GOOD)
    await cluster.run("stop_suspended", "reap")
    edit(cluster, suspend=False)
    await cluster.run(*RUNNING)
    assert set(images(cluster).values()) == {"good"}
    assert cluster.condition("Current").get("status") != "False"
    await cluster.run("succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_run_that_a_user_has_suspended_takes_the_change_over_and_stays_suspended(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    edit(cluster, "train-1", suspend=True)
    await cluster.settle()
    edit(cluster, template=GOOD)
    await cluster.settle()
    assert (images(cluster)["train-1"], run(cluster, 1)["spec"]["suspend"]) == ("good", True)


async def test_what_a_user_writes_into_a_run_stands_until_the_next_edit_of_the_sweep(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    edit(cluster, "train-1", template=objects.template(image="mine"))
    await cluster.advance(60)
    edit(cluster, parallelism=2)
    await cluster.advance(60)
    assert images(cluster)["train-1"] == "mine"
    edit(cluster, template=GOOD)
    await cluster.settle()
    assert images(cluster)["train-1"] == "good"


@pytest.mark.parametrize("fields", [{"parallelism": 2}, {"ttlSecondsAfterFinished": 60}, {"sharing": "Shared"}])
async def test_what_says_nothing_to_the_runs_writes_nothing_into_them(cluster: Cluster, fields: Json) -> None:
    cluster.apply(sweep())
    await cluster.run(*RUNNING)
    before = run(cluster)
    edit(cluster, **fields, container="main")
    await cluster.settle()
    assert run(cluster) == before
    assert cluster.condition("Current") == {}


async def test_labels_of_kueue_come_and_go_with_the_sweep(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    label(cluster, **QUEUE)
    await cluster.settle()
    assert QUEUE.items() <= run(cluster)["metadata"]["labels"].items()
    assert all(job["spec"]["suspend"] for job in cluster.attempts())
    label(cluster)
    await cluster.settle()
    assert labels.of_kueue(run(cluster)["metadata"]["labels"]) == {}
    assert not any(job["spec"]["suspend"] for job in cluster.attempts())


async def test_labels_that_the_administrator_names_reach_runs_that_wait(cluster: Cluster) -> None:
    cluster.label_keys = frozenset(["team"])
    cluster.restart()
    await cluster.start()
    cluster.apply(sweep())
    await cluster.settle()
    label(cluster, team="vision", other="x")
    await cluster.run(*RUNNING)
    assert {pod["metadata"]["labels"].get("team") for pod in cluster.server.all("pods")} == {"vision"}
    label(cluster, team="speech")
    await cluster.settle()
    assert cluster.condition("Current")["status"] == "False"


async def test_no_more_runs_than_are_meant_are_changed_in_one_look(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=2 * sweeping.AT_ONCE + 1))
    await cluster.settle()
    edit(cluster, template=GOOD)
    await cluster.deliver()
    counts: list[int] = []
    while set(images(cluster).values()) != {"good"} and len(counts) < 1000:
        cluster.server.requests.clear()
        await cluster.step()
        patched = [one for one in cluster.server.requests if one.method == "PATCH" and "template" in str(one.body)]
        counts.append(len([one for one in patched if "/dljobs/" in one.path]))
    assert max(counts) == sweeping.AT_ONCE
    assert sum(counts) == 2 * sweeping.AT_ONCE + 1


async def test_a_run_that_became_too_large_to_be_read_is_changed_with_its_sweep(cluster: Cluster) -> None:
    name = {"name": "HUGE", "value": "x" * (128 * 1024 - 400)}
    cluster.apply(sweep(completions=1, template=objects.template(env=[name])))
    await cluster.advance(60)
    assert cluster.condition("Queued", name="train-0")["reason"] == "InvalidSpec"
    edit(cluster, template=GOOD)
    await cluster.run(*RUNNING, "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_change_that_is_refused_keeps_no_other_run_from_it_and_is_told(cluster: Cluster) -> None:
    cluster.apply(sweep())
    await cluster.settle()
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=422, message="no")
        if request.method == "PATCH" and request.path.endswith("/train-1")
        else None
    )
    edit(cluster, template=GOOD)
    await cluster.advance(60)
    assert [images(cluster)[f"train-{index}"] for index in range(3)] == ["good", "bad", "good"]
    told = "1 run could not be changed: 1: the API server refuses it: no: correct the DLJob"
    assert told in cluster.condition("Current")["message"]
    cluster.server.fault = lambda _: None
    await cluster.advance(400)
    assert (images(cluster)["train-1"], cluster.condition("Current")["status"]) == ("good", "True")


async def test_a_change_that_is_refused_holds_up_no_run_that_is_changed_later(cluster: Cluster) -> None:
    total = sweeping.AT_ONCE + 8
    cluster.apply(sweep(completions=total))
    await cluster.settle()
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=422, message="no")
        if request.method == "PATCH" and request.path.endswith("/train-0")
        else None
    )
    edit(cluster, template=GOOD)
    await cluster.settle()
    assert [images(cluster)[f"train-{index}"] for index in range(total)] == ["bad", *["good"] * (total - 1)]


async def test_a_run_whose_pods_get_gpus_just_before_the_change_is_told_of(cluster: Cluster) -> None:
    """It waits for the rest of its gang: that keeps its Job."""
    cluster.room = 1
    cluster.apply(sweep(completions=1, replicas=2))
    await cluster.run("create_pods", "place")
    edit(cluster, template=GOOD)
    await cluster.advance(60)
    assert images(cluster) == {"train-0": "good", "train-0-1": "bad"}
    assert "1 run kept Jobs of a former spec: 0; see" in cluster.condition("Current")["message"]


async def test_a_late_change_is_undone_where_the_edit_was_taken_back(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=1))
    await cluster.settle()
    late = [Fault(effect=False, status=0, late=True)]
    cluster.server.fault = lambda request: (
        late.pop() if late and request.method == "PATCH" and request.path.endswith("/train-0") else None
    )
    edit(cluster, template=GOOD)
    await cluster.deliver()
    await cluster.step()
    assert cluster.server.late
    edit(cluster, template=sweep()["spec"]["template"])
    await cluster.settle()
    cluster.server.arrive()
    await cluster.settle()
    assert set(images(cluster).values()) == {"bad"}
    assert cluster.condition("Current").get("status") != "False"


async def test_a_dljob_that_only_claims_to_be_a_run_is_left_alone(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=2, parallelism=1))
    await cluster.settle()
    uid = cluster.dljob()["metadata"]["uid"]
    claimed = objects.dljob("train-1", suspend=True)
    claimed["metadata"]["ownerReferences"] = [{"kind": "DLJob", "name": "train", "uid": uid, "controller": True}]
    cluster.apply(claimed)
    edit(cluster, template=GOOD)
    await cluster.settle()
    assert (images(cluster)["train-0"], images(cluster)["train-1"]) == ("good", "busybox")


async def test_an_upgrade_changes_no_run_and_the_next_edit_reaches_those_that_wait(cluster: Cluster) -> None:
    """A build that noted no digest had made them, and swallowed an edit."""
    cluster.apply(sweep(completions=2))
    await cluster.settle()
    cluster.server.change("dljobs", "train-1", lambda value: value["spec"].update(template=GOOD))
    for index in (0, 1):
        cluster.server.change(
            "dljobs", f"train-{index}", lambda value: value["metadata"]["annotations"].pop(labels.SWEEP_DIGEST)
        )
    await cluster.deliver()
    before = [run(cluster, index)["spec"] for index in (0, 1)]
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert [run(cluster, index)["spec"] for index in (0, 1)] == before
    assert all(labels.SWEEP_DIGEST in run(cluster, index)["metadata"]["annotations"] for index in (0, 1))
    assert cluster.condition("Current") == {}
    edit(cluster, template=objects.template(image="better"))
    await cluster.settle()
    assert set(images(cluster).values()) == {"better"}


@pytest.mark.parametrize("steps", [("create_pods",), RUNNING])
async def test_a_later_release_with_more_fields_changes_no_run(cluster: Cluster, steps: tuple[str, ...]) -> None:
    cluster.apply(sweep())
    await cluster.run(*steps)
    before = [without_status(run(cluster, index)) for index in range(3)]
    with releases.later():
        cluster.restart()
        await cluster.start()
        await cluster.settle()
    assert [without_status(run(cluster, index)) for index in range(3)] == before
    assert cluster.condition("Current") == {}


async def test_a_quota_that_lets_no_run_be_made_keeps_no_edit_from_those_that_wait(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=80, parallelism=70))
    await cluster.settle()
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=403, message="exceeded quota: dljobs")
        if request.method == "POST" and request.path.endswith("/dljobs")
        else None
    )
    edit(cluster, template=GOOD, parallelism=80)
    await cluster.settle()
    found = images(cluster)
    assert [found[f"train-{index}"] for index in range(70)] == ["good"] * 70
    assert cluster.condition("Queued")["reason"] == "QuotaExceeded"
    assert cluster.condition("Current") == {}


async def test_an_edit_that_a_run_cannot_take_keeps_no_run_from_being_made(cluster: Cluster) -> None:
    cluster.apply(sweep(completions=4, parallelism=2))
    await cluster.settle()
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=422, message="a policy says no")
        if request.method == "PATCH" and request.path.endswith("/dljobs/train-0")
        else None
    )
    edit(cluster, template=GOOD, parallelism=4)
    await cluster.settle()
    assert [images(cluster)[f"train-{index}"] for index in range(4)] == ["bad", "good", "good", "good"]
    current = cluster.condition("Current")
    assert current["status"] == "False"
    assert "1 run could not be changed: 0: the API server refuses it: a policy says no" in current["message"]
    assert cluster.condition("Stalled").get("status") != "True"
