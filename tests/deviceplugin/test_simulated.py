"""Simulated GPUs."""

from typing import Any

import pytest
import yaml

from cotenant_api.names import GPUModel, NodeName
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from deviceplugin import fakes

T4 = models.MODELS[GPUModel("Tesla-T4")]
DEVICES = simulated.devices(fakes.NODE, model=T4, count=2)


def bound(**changes: Any) -> pods.BoundPod:
    read = pods.read(fakes.pod(fakes.PodSpec(**changes)))
    assert read is not None
    return read


async def usage_of(*running: pods.BoundPod) -> list[hardware.Usage]:
    gpus = simulated.SimulatedGPUs(fakes.NODE, DEVICES, running=lambda: running)
    return list((await gpus.usage()).values())


def test_a_gpu_has_the_same_uuid_in_every_run() -> None:
    assert simulated.gpu_uuid(fakes.NODE, 0) == "GPU-d4958361-6ffe-5a93-84d4-ac2798e59e51"


def test_uuids_differ_by_node_and_index() -> None:
    uuids = {simulated.gpu_uuid(NodeName(node), index) for node in ("n1", "n2", "n11") for index in range(16)}
    assert len(uuids) == 48


def test_devices_carry_the_figures_of_their_model() -> None:
    assert [(device.index, device.model, device.memory_mib, device.sm_count) for device in DEVICES] == [
        (0, "Tesla-T4", 15360, 40),
        (1, "Tesla-T4", 15360, 40),
    ]


def test_every_model_agrees_with_the_device_data_of_the_predictor() -> None:
    rows = yaml.safe_load(predictor_devices())
    known = {row["name"]: (row["memoryMiB"], row["smCount"], row["computeCapability"]) for row in rows}
    for name, model in models.MODELS.items():
        assert (model.memory_mib, model.sm_count, model.compute_capability) == known[name]


def predictor_devices() -> str:
    from importlib import resources

    return (resources.files("cotenant_predictor.devices") / "devices.yaml").read_text()


async def test_an_empty_gpu_is_idle() -> None:
    assert await usage_of() == [hardware.Usage(utilization_percent=0, memory_used_mib=0)] * 2


async def test_a_predicted_pod_uses_its_medians() -> None:
    text = fakes.prediction(utilization=41.4, memory_mib=5000)
    first, second = await usage_of(bound(prediction=text))
    assert (first.utilization_percent, first.memory_used_mib) == (41, 5000)
    assert (second.utilization_percent, second.memory_used_mib) == (0, 0)


async def test_memory_never_exceeds_what_was_booked() -> None:
    text = fakes.prediction(utilization=10, memory_mib=9000)
    first, _ = await usage_of(bound(prediction=text, memory_mib=6000))
    assert first.memory_used_mib == 6000


@pytest.mark.parametrize(
    "text", [None, "{", fakes.prediction(utilization=1, memory_mib=1, model="NVIDIA-H200")], ids=str
)
async def test_without_a_usable_prediction_the_booking_is_used(text: str | None) -> None:
    first, _ = await usage_of(bound(prediction=text, booked=35, memory_mib=1000))
    assert (first.utilization_percent, first.memory_used_mib) == (35, 800)


async def test_a_whole_gpu_without_memory_limit_uses_a_part_of_the_gpu() -> None:
    first, _ = await usage_of(bound(share=100, booked=100, memory_mib=0, backend="Whole"))
    assert first.memory_used_mib == 15360 * 80 // 100


async def test_utilization_of_tenants_adds_up_to_at_most_100() -> None:
    text = fakes.prediction(utilization=60, memory_mib=1000)
    first, _ = await usage_of(bound(uid="a", prediction=text), bound(uid="b", prediction=text))
    assert (first.utilization_percent, first.memory_used_mib) == (100, 2000)


async def test_a_pod_on_two_gpus_uses_both() -> None:
    usage = await usage_of(bound(share=200, booked=100, gpus=(0, 1), memory_mib=1000))
    assert [each.memory_used_mib for each in usage] == [800, 800]


async def test_each_process_is_known_by_its_pod() -> None:
    running = (bound(uid="a"), bound(uid="b"))
    gpus = simulated.SimulatedGPUs(fakes.NODE, DEVICES, running=lambda: running)
    processes = [process for usage in (await gpus.usage()).values() for process in usage.processes]
    assert [gpus.pod_of(process.pid) for process in processes] == ["a", "b"]
    assert gpus.pod_of(1) is None


async def test_a_refused_pod_has_no_process() -> None:
    first, _ = await usage_of(bound(changes={"node": "n2"}))
    assert first.processes == ()


async def test_the_driver_says_that_it_is_simulated() -> None:
    gpus = simulated.SimulatedGPUs(fakes.NODE, DEVICES, running=tuple)
    driver = await gpus.driver()
    assert gpus.simulated
    assert (driver.driver_version, driver.cuda_version) == ("simulated", "simulated")
