"""The status: tables of conditions and phases, then the figures that it shows."""

from typing import Any

import pytest

from cotenant_api import dljob
from cotenant_api.names import GPUUID
from cotenant_operator.telling import status
from operator_kit import faults, objects, quotas
from operator_kit.cluster import Cluster
from operator_kit.gangs import WHOLE, limit

Json = dict[str, Any]

OTHER_GPU = GPUUID("GPU-2")


def edit_pods(cluster: Cluster, **fields: Any) -> None:
    for pod in cluster.server.all("pods"):
        cluster.server.change("pods", pod["metadata"]["name"], lambda value: value["status"].update(fields))


def states(cluster: Cluster, name: str = "train") -> dict[str, tuple[str, str]]:
    found = cluster.dljob(name)["status"]["conditions"]
    return {item["type"]: (item["status"], item["reason"]) for item in found}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            (),
            {
                "Predicted": ("True", "Predicted"),
                "Queued": ("True", "Submitted"),
                "Placed": ("False", "WaitingForPlacement"),
                "Ready": ("False", "PodsNotReady"),
            },
        ),
        (
            ("create_pods", "place"),
            {
                "Predicted": ("True", "Predicted"),
                "Queued": ("False", "Placed"),
                "Placed": ("True", "Placed"),
                "Ready": ("False", "PodsNotReady"),
            },
        ),
        (
            ("create_pods", "place", "run_pods"),
            {
                "Predicted": ("True", "Predicted"),
                "Queued": ("False", "Placed"),
                "Placed": ("True", "Placed"),
                "Ready": ("True", "PodsReady"),
            },
        ),
        (
            ("create_pods", "place", "run_pods", "succeed"),
            {
                "Predicted": ("True", "Predicted"),
                "Queued": ("False", "Completed"),
                "Placed": ("True", "Placed"),
                "Ready": ("True", "Completed"),
                "Complete": ("True", "Completed"),
            },
        ),
        (
            ("create_pods", "place", "run_pods", "fail"),
            {
                "Predicted": ("True", "Predicted"),
                "Queued": ("False", "BackoffLimitExceeded"),
                "Placed": ("True", "Placed"),
                "Ready": ("False", "BackoffLimitExceeded"),
                "Stalled": ("True", "BackoffLimitExceeded"),
                "Failed": ("True", "BackoffLimitExceeded"),
            },
        ),
    ],
)
async def test_conditions_of_a_training_job(
    cluster: Cluster, steps: tuple[str, ...], expected: dict[str, tuple[str, str]]
) -> None:
    cluster.apply(objects.dljob())
    await cluster.run(*steps)
    assert states(cluster) == expected


async def test_job_that_fails_unplaced_was_never_placed(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "fail")
    assert states(cluster)["Placed"][0] == "False"
    assert "startTime" not in cluster.dljob()["status"]


async def test_queue_says_what_the_extender_says(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    words = "2 GPUs hold 3 jobs, 1 lacks 3.1 GiB; 4th in the queue"
    packed = {"type": "cotenant.dev/Packed", "status": "False", "reason": "InsufficientMemory", "message": words}
    edit_pods(cluster, conditions=[packed])
    await cluster.settle()
    queued = cluster.condition("Queued")
    assert (queued["status"], queued["reason"], queued["message"]) == ("True", "InsufficientMemory", words)
    assert cluster.dljob()["status"]["phase"] == "Queued"
    assert cluster.dljob()["status"]["queuePosition"] == 4
    cluster.place()
    await cluster.settle()
    assert "queuePosition" not in cluster.dljob()["status"]


async def test_queue_says_what_the_default_scheduler_says(cluster: Cluster) -> None:
    cluster.set_policy(mode="Observe")
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    edit_pods(cluster, conditions=[scheduled])
    await cluster.settle()
    assert cluster.condition("Queued")["reason"] == "WaitingForScheduler"
    assert cluster.condition("Queued")["message"] == "0/3 nodes"


async def test_gang_is_placed_when_its_last_member_is(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(replicas=2))
    await cluster.run("create_pods")
    first, second = cluster.server.all("pods")
    cluster.place_pod(first)
    await cluster.settle()
    assert states(cluster)["Placed"][0] == "False"
    assert "1 of 2" in cluster.condition("Placed")["message"]
    cluster.time.seconds += 5
    cluster.place_pod(second)
    await cluster.settle()
    assert states(cluster)["Placed"] == ("True", "Placed")
    assert cluster.dljob()["status"]["startTime"] == cluster.time.text()


async def test_inference_job_runs_with_its_first_replica(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=2))
    await cluster.run("create_pods")
    cluster.place_pod(cluster.server.all("pods")[0])
    await cluster.settle()
    assert cluster.dljob("serve")["status"]["phase"] == "Running"
    assert states(cluster, "serve")["Placed"][0] == "False"


async def test_transition_time_changes_with_the_status_alone(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    before = cluster.condition("Queued")["lastTransitionTime"]
    packed = {"type": "cotenant.dev/Packed", "status": "False", "reason": "TenantLimit", "message": "x"}
    edit_pods(cluster, conditions=[packed])
    await cluster.advance(50)
    assert cluster.condition("Queued")["reason"] == "TenantLimit"
    assert cluster.condition("Queued")["lastTransitionTime"] == before
    await cluster.run("place")
    assert cluster.condition("Queued")["lastTransitionTime"] == cluster.time.text()


async def test_conditions_carry_the_generation(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    cluster.server.change("dljobs", "train", lambda v: v.update(spec={**v["spec"], "ttlSecondsAfterFinished": 9}))
    await cluster.settle()
    assert cluster.dljob()["status"]["observedGeneration"] == 2
    assert cluster.condition("Queued")["observedGeneration"] == 2


async def test_prediction_is_shown_for_the_smallest_share_until_placed(cluster: Cluster) -> None:
    gpus = {"GPU-1": "NVIDIA-H200", "GPU-2": "NVIDIA-L4"}
    publish(cluster, objects.gpu_node(gpus=gpus))
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    shown = cluster.dljob()["status"]["prediction"]
    assert shown["gpuModel"] == "NVIDIA-H200"
    assert "bound" in shown["reason"]
    assert f"at most {shown['upperPercent']} %" in shown["reason"]
    cluster.place(gpu=OTHER_GPU)
    await cluster.settle()
    assert cluster.dljob()["status"]["prediction"]["gpuModel"] == "NVIDIA-L4"


async def test_co_tenants_are_named(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("train"))
    cluster.apply(objects.dljob("gang", replicas=2))
    await cluster.run("create_pods", "place")
    await cluster.advance(20)
    pods = {pod["metadata"]["name"] for pod in cluster.server.all("pods")}
    own = cluster.dljob()["status"]["replicas"][0]
    assert set(own["coTenants"]) == {f"team/{name}" for name in pods - {own["pod"]}}
    members = cluster.dljob("gang")["status"]["replicas"]
    assert {tuple(member["coTenants"]) for member in members} == {(f"team/{own['pod']}",)}


async def test_tenants_that_only_the_agent_knows_are_co_tenants(cluster: Cluster) -> None:
    tenant = {"podUID": "u9", "namespace": "other", "pod": "plain"}
    publish(cluster, objects.gpu_node(tenants=(tenant,)))
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place")
    assert cluster.dljob()["status"]["replicas"][0]["coTenants"] == ["other/plain"]


async def test_co_tenant_that_ended_is_forgotten_after_a_while(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("train"))
    cluster.apply(objects.dljob("other"))
    await cluster.run("create_pods", "place", "run_pods")
    await cluster.advance(20)
    cluster.server.delete("dljobs", "other")
    await cluster.run("reap")
    await cluster.advance(20)
    assert "coTenants" not in cluster.dljob()["status"]["replicas"][0]


async def test_neighbours_coming_and_going_cost_few_writes(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("train"))
    await cluster.run("create_pods", "place", "run_pods")
    await cluster.advance(20)
    cluster.server.requests.clear()
    for number in range(10):
        cluster.apply(objects.dljob(f"other-{number}"))
        await cluster.run("create_pods", "place")
        await cluster.advance(1)
    writes = [r for r in cluster.server.requests if r.path.endswith("dljobs/train/status")]
    assert len(writes) <= 1


def publish(cluster: Cluster, node: Json) -> None:
    cluster.server.change("gpunodes", objects.NODE, lambda v: v.update(status=node["status"]), namespace="")


def tenancy(cluster: Cluster, peak: int, **fields: Any) -> Json:
    pod = cluster.server.all("pods")[0]["metadata"]
    tenant = {"podUID": pod["uid"], "namespace": "team", "pod": pod["name"], "memoryPeakMiB": peak}
    return objects.gpu_node(tenants=(tenant,), **fields)


async def test_measured_memory_and_utilization_are_shown(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    publish(cluster, tenancy(cluster, 4096, utilizationPercent=41))
    await cluster.advance(20)
    assert cluster.dljob()["status"]["observed"] == {"memoryPeakMiB": 4096, "gpuUtilizationPercent": 41}


async def test_utilization_beside_foreign_work_is_nobodys(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    publish(cluster, tenancy(cluster, 4096, utilizationPercent=41, foreignProcesses=1))
    await cluster.advance(20)
    assert cluster.dljob()["status"]["observed"] == {"memoryPeakMiB": 4096}


async def test_measured_memory_never_shrinks(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    for peak in (4096, 100):
        publish(cluster, tenancy(cluster, peak))
        await cluster.advance(20)
    assert cluster.dljob()["status"]["observed"] == {"memoryPeakMiB": 4096}


async def test_status_survives_a_restart_without_a_write_but_the_fences(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    cluster.apply(objects.dljob("alone", sharing="Exclusive"))
    await cluster.run("create_pods", "place", "run_pods")
    await cluster.advance(20)
    cluster.server.requests.clear()
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert [request for request in cluster.server.requests if faults.decides_something(request)] == []


async def test_where_a_finished_job_ran_stays_readable(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    cluster.server.delete("jobs", "train-1")
    await cluster.settle()
    assert cluster.dljob()["status"]["replicas"][0]["node"] == "n1"


def test_patch_removes_what_is_not_there_any_more() -> None:
    new = dljob.Status(prediction=dljob.PredictionStatus(utilization_percent=5))
    patch = status.patch(new)
    assert patch["startTime"] is None
    assert patch["replicas"] is None
    assert patch["prediction"]["gpuModel"] is None
    assert patch["prediction"]["utilizationPercent"] == 5


async def test_job_that_is_being_ended_stays_where_it_was(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=10))
    await cluster.run("create_pods", "place", "run_pods")
    before = cluster.dljob()["status"]
    await cluster.advance(10)
    cluster.server.delete("pods", before["replicas"][0]["pod"])
    await cluster.run("reap")
    after = cluster.dljob()["status"]
    assert states(cluster)["Placed"] == ("True", "Placed")
    assert after["replicas"] == before["replicas"]
    assert after["prediction"] == before["prediction"]
    await cluster.run("enforce_deadlines")
    final = cluster.dljob()["status"]
    assert final["phase"] == "Failed"
    assert final["replicas"] == before["replicas"]


@pytest.mark.parametrize("placement", ["", "{", '{"v":9}', "[]"])
async def test_pod_with_an_unreadable_placement_is_not_placed(cluster: Cluster, placement: str) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place")
    pod = cluster.server.all("pods")[0]["metadata"]["name"]
    cluster.server.change(
        "pods", pod, lambda value: value["metadata"]["annotations"].update({"cotenant.dev/placement": placement})
    )
    await cluster.settle()
    assert states(cluster)["Placed"][0] == "False"


async def test_a_pod_that_failed_is_not_placed_where_its_job_is_suspended_or_not_taken_up_again(
    cluster: Cluster,
) -> None:
    cluster.apply(objects.dljob(backoffLimit=3))
    await cluster.run("create_pods", "place", "run_pods", "crash")
    # The Job controller waits before it makes another.
    assert cluster.condition("Placed")["status"] == "True"
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=True))
    await cluster.run("stop_suspended", "reap")
    assert cluster.condition("Placed")["status"] == "False"
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=False))
    await cluster.advance(3600)
    assert (cluster.dljob()["status"]["phase"], cluster.condition("Placed")["status"]) == ("Queued", "False")
    await cluster.run("create_pods", "place", "run_pods")
    assert (cluster.dljob()["status"]["phase"], cluster.condition("Placed")["status"]) == ("Running", "True")


async def test_a_pod_that_failed_is_not_placed_where_a_quota_refuses_the_next(cluster: Cluster) -> None:
    limit(cluster, gpu_share="100")
    cluster.apply(objects.dljob(backoffLimit=3, **WHOLE))
    await cluster.run("create_pods", "place", "run_pods", "crash", "count_quota")
    quotas.resize(cluster.server, gpu_share="50")
    await cluster.run("create_pods")
    await cluster.advance(30)
    assert cluster.dljob()["status"]["phase"] != "Running"
    assert cluster.condition("Placed")["status"] == "False"
    assert cluster.condition("Queued")["reason"] == "QuotaExceeded"
