"""One GPU's trouble is no other's: a driver, a daemon or a canary that is silent delays nothing elsewhere."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import gpunode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps import canaries
from cotenant_deviceplugin.mps.backend import Server
from node_kit import quick
from node_kit.whole_node import SERVER_PID, MemoryCanaries, MemoryGPUs, WholeNode, started


@pytest.fixture(name="folder")
def folder_fixture() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


async def test_a_daemon_that_does_not_answer_keeps_no_other_gpu_waiting(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        first, second = (device.uuid for device in node.gpus.listed)
        node.mps.silent[first] = asyncio.Event()
        node.mps.put(first, Server(state=gpunode.MPS.ACTIVE, pid=SERVER_PID))
        before = node.mps.asked[first]
        await quick.until(lambda: node.mps.asked[first] > before)
        for _ in range(3):
            node.mps.asked[second] = 0
            node.mps.put(second, Server(state=gpunode.MPS.ACTIVE, pid=SERVER_PID))
            await quick.until(lambda: node.mps.asked[second] > 0)
        node.mps.silent[first].set()


async def test_a_daemon_that_does_not_answer_keeps_no_other_fault_waiting(folder: Path) -> None:
    node = WholeNode(folder)
    async with node.offering():
        first, second = (device.uuid for device in node.gpus.listed)
        node.mps.silent[first] = asyncio.Event()
        for gpu in (first, second):
            await node.gpus.happened.put(hardware.XIDEvent(uuid=gpu, xid=31))
        await quick.until(lambda: node.gpu(1).get("lastFault") and node.gpu().get("lastFault"))
        node.mps.silent[first].set()


class HoldingCanaries(MemoryCanaries):
    """Canaries, of which those on some GPUs do not end before a test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[GPUUID, asyncio.Event] = {}

    async def run(self, gpu: GPUUID, *, server: canaries.Server | None) -> str | None:
        """End at once, or when the test says so."""
        passed = await super().run(gpu, server=server)
        if gpu in self.held:
            await self.held[gpu].wait()
        return passed


async def test_a_canary_that_takes_its_time_keeps_no_other_gpu_closed(folder: Path) -> None:
    node = WholeNode(folder)
    node.canaries = made = HoldingCanaries()
    async with node.offering():
        first, second = (device.uuid for device in node.gpus.listed)
        made.held[first] = asyncio.Event()
        await node.gpus.happened.put(hardware.XIDEvent(uuid=first, xid=31))
        await quick.until(lambda: (first, True) in made.ran)
        await node.gpus.happened.put(hardware.XIDEvent(uuid=second, xid=31))
        await quick.until(lambda: (second, True) in made.ran)
        await quick.until(lambda: node.gpu(1)["health"] == "Healthy" and "lastFault" in node.gpu(1))
        assert node.gpu()["health"] == "Suspect"
        made.held[first].set()


class HoldingGPUs(MemoryGPUs):
    """GPUs, of which some do not answer before a test lets them."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.held: dict[GPUUID, asyncio.Event] = {}

    async def usage_of(self, gpu: GPUUID) -> hardware.Usage:
        """As set, or when the test says so."""
        await self._let(gpu)
        return await super().usage_of(gpu)

    async def readings_of(self, gpu: GPUUID) -> hardware.Readings | None:
        """As set, or when the test says so."""
        await self._let(gpu)
        return await super().readings_of(gpu)

    async def _let(self, gpu: GPUUID) -> None:
        if gpu in self.held:
            await self.held[gpu].wait()


async def test_a_gpu_whose_driver_does_not_answer_keeps_no_pod_of_another_waiting(folder: Path) -> None:
    node = WholeNode(folder)
    node.gpus = made = HoldingGPUs(2)
    async with node.offering():
        made.held[node.first] = asyncio.Event()
        await started(node, node.bind(1, gpus=(1,)))
        made.held[node.first].set()


async def test_a_gpu_whose_driver_does_not_answer_keeps_no_fault_of_another_waiting(folder: Path) -> None:
    node = WholeNode(folder)
    node.gpus = made = HoldingGPUs(2)
    async with node.offering():
        first, second = (device.uuid for device in node.gpus.listed)
        made.held[first] = asyncio.Event()
        for gpu in (first, second):
            await node.gpus.happened.put(hardware.XIDEvent(uuid=gpu, xid=48))
        await quick.until(lambda: node.gpu(1).get("lastFault"))
        assert "lastFault" not in node.gpu()
        # Told while the first one is weighed: it is weighed again.
        await node.gpus.happened.put(hardware.XIDEvent(uuid=first, xid=79))
        made.held[first].set()
        await quick.until(lambda: node.gpu().get("lastFault") and "XID 79" in node.gpu()["reason"])
