"""What is read of a GPU, and what is said where it cannot be read."""

import time
import types
from collections.abc import Callable
from typing import Any

import pytest

from cotenant_predictor.profiling import nvml
from cotenant_predictor.profiling.simulated import device, physics
from cotenant_predictor.profiling.simulated import nvml as simulated

Simulate = Callable[..., device.SimulatedDevice]
BUSY = physics.Load(
    physics.Demand(step_seconds=0.01, busy=0.8, sm=0.4, dram=0.3, memory_mib=900, copy_seconds=0.0), "context"
)


def without(*names: str) -> Any:
    """A driver that lacks these functions, as an old one does."""
    known = {name: value for name, value in vars(simulated).items() if name not in names}
    return types.SimpleNamespace(**known)


def watched(driver: Any) -> nvml.Readings:
    now = time.monotonic()
    return nvml.Gpu(driver, 0).watch(begin=now, end=now + 0.15)


def test_a_busy_gpu_is_read_over_the_window(simulate: Simulate) -> None:
    simulate().hold(memory_mib=900, loads=[BUSY])
    found = watched(simulated)
    assert (found.utilization, found.memory_utilization) == (80.0, 30.0)
    assert found.sm_activity == pytest.approx(40.0)
    assert found.dram_activity == pytest.approx(30.0)
    assert found.power_watts == pytest.approx(80.0 + 0.8 * 620.0, rel=0.05)
    assert found.reasons == {}


def test_model_memory_and_versions_are_as_the_node_labels_write_them(simulate: Simulate) -> None:
    simulate().hold(memory_mib=900, loads=())
    gpu = nvml.Gpu(simulated, 0)
    assert (gpu.model, gpu.memory_mib, gpu.used_mib()) == ("NVIDIA-H200", 143_771, 900)
    assert gpu.versions() == {"driver": "simulated", "cuda": "13.0"}
    assert gpu.takes_several_processes()


def test_counters_that_the_gpu_lacks_are_null_with_the_reason(simulate: Simulate) -> None:
    simulate(counters=False)
    found = watched(simulated)
    assert (found.sm_activity, found.dram_activity) == (None, None)
    assert found.reasons["smActivity"] == "the GPU has no GPM counters (before Hopper), and Nsight is not used"


def test_counters_that_are_not_permitted_are_null_with_the_drivers_words(simulate: Simulate) -> None:
    def refused(*_: object) -> None:
        raise simulated.NVMLError("Insufficient Permissions")

    simulate()
    driver = without()
    driver.nvmlGpmSampleGet = refused
    found = watched(driver)
    assert found.sm_activity is None
    assert found.reasons["dramActivity"] == "GPM counters: Insufficient Permissions"


def test_an_old_driver_lacks_functions_and_says_which(simulate: Simulate) -> None:
    simulate()
    found = watched(without("nvmlGpmQueryDeviceSupport", "nvmlDeviceGetUtilizationRates"))
    assert found.utilization is None
    assert "nvmlDeviceGetUtilizationRates" in found.reasons["memoryUtilization"]
    assert "nvmlGpmQueryDeviceSupport" in found.reasons["smActivity"]


def test_without_an_energy_counter_power_is_polled(simulate: Simulate) -> None:
    simulate()
    driver = without("nvmlDeviceGetTotalEnergyConsumption")
    driver.nvmlDeviceGetPowerUsage = lambda _: 300_000
    assert watched(driver).power_watts == 300.0


def test_dead_processes_hold_nothing(simulate: Simulate) -> None:
    gpu = simulate()
    gpu.hold(memory_mib=900, loads=[BUSY])
    (path,) = (gpu.folder / "tenants").glob("*.json")
    path.rename(path.with_name("999999999.json"))
    assert (gpu.used_mib(), gpu.running()) == (0, [])
