"""An inference job that runs out of GPU memory: rolled with more, then with a GPU to itself, then told. In memory."""

import json
from typing import Any

import pytest

from cotenant_api import names
from cotenant_operator import labels
from operator_kit import faults, objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]

START = ("create_pods", "place", "run_pods")
ROLL = ("roll_out", "reap", *START)


def deployment(cluster: Cluster) -> Json:
    return cluster.server.find("deployments", "serve") or {}


def memory(cluster: Cluster) -> str | None:
    found: str | None = deployment(cluster)["spec"]["template"]["metadata"]["annotations"].get(names.GPU_MEMORY)
    return found


def share(cluster: Cluster) -> str:
    container: Json = deployment(cluster)["spec"]["template"]["spec"]["containers"][0]
    return str(container["resources"]["limits"][names.GPU_SHARE])


def shortage(cluster: Cluster) -> Json:
    found: Json = json.loads(deployment(cluster)["metadata"]["annotations"].get(labels.SHORTAGE, "{}"))
    return found


def ready(cluster: Cluster) -> tuple[str, str]:
    found = cluster.condition("Ready", name="serve")
    return found["status"], found["reason"]


def told(cluster: Cluster) -> list[str]:
    return [event["message"] for event in cluster.server.all("events") if event["reason"] == "OutOfMemory"]


def set_spec(cluster: Cluster, **fields: Any) -> None:
    cluster.server.change("dljobs", "serve", lambda value: value.update(spec={**value["spec"], **fields}))


def publish(cluster: Cluster, peak: int, *, gpus: dict[str, str] | None = None, total: int = 143771) -> None:
    """The agent tells of the pods on its GPU, and of those that were there."""
    now = cluster.time.text()
    ended = [
        {"podUID": pod["metadata"]["uid"], "memoryPeakMiB": peak, "time": now} for pod in cluster.server.all("pods")
    ]
    node = objects.gpu_node(gpus=gpus)
    node["status"]["gpus"][0] |= {"ended": ended, "memoryMiB": total}
    cluster.server.change("gpunodes", objects.NODE, lambda value: value.update(status=node["status"]), namespace="")


async def serve(cluster: Cluster, **spec: Any) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", **{"replicas": 2, **spec}))
    await cluster.run(*START)


async def test_pods_that_run_out_are_rolled_with_what_was_booked_times_the_growth(cluster: Cluster) -> None:
    await serve(cluster)
    assert memory(cluster) is None
    await cluster.advance(60)
    await cluster.run("outgrow")
    assert memory(cluster) == "3128Mi"
    assert ready(cluster) == ("False", "OutOfMemory")
    assert told(cluster)[0].endswith("; 2085 MiB were booked; its pods get 3128 MiB of GPU memory")
    assert "torch.OutOfMemoryError: CUDA out of memory" in told(cluster)[0]
    await cluster.advance(5)
    await cluster.run(*ROLL)
    assert ready(cluster) == ("True", "PodsReady")
    assert len(told(cluster)) == 1


async def test_pods_of_a_former_template_are_answered_once(cluster: Cluster) -> None:
    await serve(cluster)
    await cluster.run("outgrow")
    rolled = deployment(cluster)
    for _ in range(3):
        await cluster.advance(60)
        await cluster.run("outgrow")
    assert deployment(cluster) == rolled
    assert shortage(cluster)["outOfMemory"] == 1


async def test_a_measured_peak_above_what_was_booked_is_what_grows(cluster: Cluster) -> None:
    await serve(cluster, oomPolicy={"growthPercent": 200})
    publish(cluster, 5000)
    await cluster.run("outgrow")
    assert memory(cluster) == "10000Mi"


async def test_after_so_many_rolls_the_pods_get_gpus_to_themselves_and_stay_there(cluster: Cluster) -> None:
    await serve(cluster, oomPolicy={"maxResubmissions": 2})
    shares = []
    for _ in range(3):
        await cluster.run("outgrow", *ROLL)
        shares.append(share(cluster))
    assert shares[0] == shares[1] != "100"
    assert shares[2] == "100"
    rolled = deployment(cluster)
    await cluster.advance(1000)
    assert deployment(cluster) == rolled


async def test_a_gpu_to_itself_for_want_of_memory_is_kept_when_it_has_been_measured(cluster: Cluster) -> None:
    spec = {"queue": {"onMissingPrediction": "Profile"}}
    cluster.set_policy(**spec)
    await serve(cluster, oomPolicy={"maxResubmissions": 0})
    await cluster.run("outgrow", *ROLL)
    rolled = deployment(cluster)
    alone = {"aloneSeconds": 100, "aloneUtilizationPercent": 30, "memoryPeakMiB": 9000, "time": cluster.time.text()}
    ended = [{"podUID": pod["metadata"]["uid"], **alone} for pod in cluster.server.all("pods")]
    cluster.server.change(
        "gpunodes", objects.NODE, lambda value: value["status"]["gpus"][0].update(ended=ended), namespace=""
    )
    await cluster.advance(100)
    assert deployment(cluster) == rolled


async def test_more_than_the_largest_gpu_can_book_means_a_gpu_to_itself(cluster: Cluster) -> None:
    await serve(cluster)
    publish(cluster, 0, total=3200)
    await cluster.run("outgrow")
    assert share(cluster) == "100"


async def test_on_the_largest_gpu_it_stays_and_says_so_until_it_is_ready(cluster: Cluster) -> None:
    await serve(cluster, sharing="Exclusive")
    template = deployment(cluster)["spec"]["template"]
    cluster.outgrow()
    cluster.server.change("deployments", "serve", lambda value: value["status"].update(availableReplicas=0))
    await cluster.settle()
    assert deployment(cluster)["spec"]["template"] == template
    assert ready(cluster) == ("False", "OutOfMemory")
    assert "143771 MiB to itself" in told(cluster)[0]
    assert "batch size" in told(cluster)[0]
    rolled = deployment(cluster)
    await cluster.advance(1000)
    assert deployment(cluster) == rolled
    assert len(told(cluster)) == 1


async def test_a_smaller_job_after_giving_up_is_not_said_to_have_run_out(cluster: Cluster) -> None:
    await serve(cluster, sharing="Exclusive")
    await cluster.run("outgrow")
    set_spec(cluster, template=objects.template(image="smaller"))
    await cluster.settle()
    assert shortage(cluster)["givenUp"] is False
    assert ready(cluster) == ("False", "RollingOut")


async def test_a_larger_gpu_is_used_where_the_job_may(cluster: Cluster) -> None:
    await serve(cluster, sharing="Exclusive")
    publish(cluster, 0, gpus={"GPU-1": "NVIDIA-L4", "GPU-2": "NVIDIA-H200"}, total=23034)
    await cluster.run("outgrow")
    assert deployment(cluster)["spec"]["template"]["metadata"]["annotations"][names.GPU_MODELS] == "NVIDIA-H200"


async def test_what_was_learned_stays_with_another_image_and_scale_and_goes_with_another_batch(
    cluster: Cluster,
) -> None:
    await serve(cluster)
    await cluster.run("outgrow", *ROLL)
    set_spec(cluster, replicas=3)
    await cluster.run(*ROLL)
    assert memory(cluster) == "3128Mi"
    set_spec(cluster, template=objects.template(image="busybox:2"))
    await cluster.run(*ROLL)
    assert memory(cluster) == "3128Mi"
    set_spec(cluster, batchSize=1)
    await cluster.run(*ROLL)
    assert memory(cluster) is None
    assert shortage(cluster)["outOfMemory"] == 0


async def test_pods_of_the_former_spec_teach_nothing_about_another_model(cluster: Cluster) -> None:
    await serve(cluster)
    set_spec(cluster, batchSize=1)
    await cluster.run("outgrow", *START)
    assert memory(cluster) is None


async def test_not_ready_for_another_reason_later_is_not_out_of_memory(cluster: Cluster) -> None:
    await serve(cluster)
    await cluster.advance(60)
    await cluster.run("outgrow")
    await cluster.advance(5)
    await cluster.run(*ROLL)
    await cluster.advance(60)
    cluster.server.change("deployments", "serve", lambda value: value["status"].update(availableReplicas=1))
    await cluster.settle()
    assert ready(cluster) == ("False", "PodsNotReady")


@pytest.mark.parametrize(("programs", "expected"), [(("overuse",), "9000Mi"), ((), None)])
async def test_a_watchdogs_eviction_teaches_and_a_preemption_does_not(
    cluster: Cluster, programs: tuple[str, ...], expected: str | None
) -> None:
    cluster.set_policy(memoryOveruse="Evict")
    await serve(cluster)
    publish(cluster, 6000)
    await cluster.run(*programs, "evict_servers", "reap", *START)
    assert memory(cluster) == expected


async def test_the_hosts_memory_is_no_gpu_memory(cluster: Cluster) -> None:
    await serve(cluster)
    ended = {"exitCode": 137, "reason": "OOMKilled", "message": "CUDA out of memory"}
    state = [{"name": "main", "state": {"running": {}}, "lastState": {"terminated": ended}}]
    for pod in cluster.server.all("pods"):
        cluster.server.change(
            "pods", pod["metadata"]["name"], lambda pod: pod["status"].update(containerStatuses=state)
        )
    await cluster.settle()
    assert memory(cluster) is None


async def test_an_annotation_that_somebody_spoilt_is_learned_again(cluster: Cluster) -> None:
    await serve(cluster)
    await cluster.run("outgrow", *ROLL)
    cluster.server.change(
        "deployments", "serve", lambda value: value["metadata"]["annotations"].update({labels.SHORTAGE: "{"})
    )
    await cluster.run("outgrow", *ROLL)
    assert shortage(cluster)["outOfMemory"] == 1
    # The kit's placements book 2085 MiB, whatever is asked for.
    assert memory(cluster) == "3128Mi"


async def live(fault_at: int, fault: Fault) -> int:
    """A life with two shortages and one fault at the n-th write; how many writes there were."""
    cluster = Cluster()
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    cluster.apply(objects.config_map(), plural="configmaps")
    faulty = cluster.server.fault = faults.AtWrite(fault_at, fault)
    cluster.apply(objects.dljob("serve", workloadType="Inference", oomPolicy={"maxResubmissions": 1}))
    await cluster.start()
    await cluster.advance(2)
    for program in (*START, "outgrow", *ROLL, "outgrow", *ROLL):
        await cluster.run(program)
        await cluster.advance(2)
    await cluster.advance(60)
    assert (share(cluster), shortage(cluster)["outOfMemory"]) == ("100", 2)
    assert deployment(cluster)["spec"]["template"]["metadata"]["annotations"][labels.REVISION] == "2"
    assert [text.rpartition("; ")[2] for text in told(cluster)] == [
        "its pods get 3128 MiB of GPU memory",
        "its pods get a GPU to itself",
    ]
    assert ready(cluster) == ("True", "PodsReady")
    return faulty.writes


@pytest.mark.parametrize(("effect", "status"), [(True, -1), (False, -1), (True, 0)])
async def test_a_crash_or_a_lost_reply_at_any_write_answers_each_shortage_once(effect: bool, status: int) -> None:
    total = await live(0, Fault(effect=effect, status=status))
    assert total > 10
    for at in range(1, total + 1):
        await live(at, Fault(effect=effect, status=status))
