"""A container has the GPU and the limits of its own pod's placement, whatever else starts at that moment."""

import os

from cotenant_api import names
from node import tenants as kit
from node.tenants import Tenants

PAIRS = int(os.environ.get("COTENANT_NODE_PAIRS", "20"))
STEP_MIB = 64


def test_a_pod_of_30_hundredths_runs_with_what_its_placement_says(tenants: Tenants) -> None:
    tenants.create("one", 30, annotations={names.GPU_MEMORY: "5Gi"})
    pod = tenants.running("one")
    booked, shown = kit.placement_of(pod), tenants.shown(pod)
    assert booked
    assert shown
    assert (booked.gpus[0].share, booked.gpus[0].memory_mib) == (30, 5 * 1024)
    assert kit.expected(booked).items() <= shown.environment.items()
    assert shown.gpu == shown.client["gpu"] == booked.gpus[0].uuid
    assert (shown.client["threadPercentage"], shown.client["memoryLimitMiB"]) == (30, 5 * 1024)
    assert shown.devices >= tenants.gpus.devices(booked.gpus[0].uuid)
    assert not shown.devices & tenants.gpus.devices_but(booked.gpus[0].uuid)


def test_limits_are_divided_by_the_processes_of_a_pod(tenants: Tenants) -> None:
    tenants.create("two", 40, annotations={names.GPU_MEMORY: "4Gi", names.PROCESSES_PER_GPU: "2"})
    shown = tenants.shown(tenants.running("two"))
    assert shown
    assert (shown.environment[kit.THREADS], shown.environment[kit.MEMORY]) == ("20", "0=2048M")


def test_a_pod_of_a_whole_gpu_runs_without_mps(tenants: Tenants) -> None:
    tenants.create("whole", 100)
    pod = tenants.running("whole")
    booked = kit.placement_of(pod)
    assert booked
    index = tenants.gpus.state.by_uuid(booked.gpus[0].uuid).index
    assert tenants.gpus.gpu(index)["mode"] == "Whole"
    assert tenants.gpus.gpu(index)["mps"] == "NotUsed"


def test_the_gpunode_names_the_tenant_before_it_runs(tenants: Tenants) -> None:
    tenants.create("named", 30)
    pod = tenants.running("named")
    tenants_now = [each["podUID"] for gpu in tenants.gpus.status()["gpus"] for each in gpu["tenants"]]
    assert pod["metadata"]["uid"] in tenants_now


def test_pods_with_equal_requests_started_together_never_swap(tenants: Tenants) -> None:
    memory = {f"pod-{number:03}": (number + 1) * STEP_MIB for number in range(2 * PAIRS)}
    for name, mib in memory.items():
        tenants.create(name, 30, script=kit.RUN, annotations={names.GPU_MEMORY: f"{mib}Mi"})
    for name, mib in memory.items():
        pod = tenants.succeeded(name)
        shown, booked = tenants.shown(pod), kit.placement_of(pod)
        assert shown
        assert shown.environment[kit.MEMORY] == f"0={mib}M"
        assert kit.matches(shown, booked)
