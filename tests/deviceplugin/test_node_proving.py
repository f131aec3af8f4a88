"""When canaries are run, on which GPUs and how, and what the node publishes of them."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_api import errors, gpunode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import health, xids
from cotenant_deviceplugin.gpus.hardware import Readings, XIDEvent
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.node import health as keeping
from cotenant_deviceplugin.node import proving
from deviceplugin import fakes
from node_kit import quick
from node_kit.whole_node import SERVER_PID, MemoryCanaries, WholeNode

LOG = logging.getLogger("test")
GPU = GPUUID("GPU-1")


@pytest.fixture(name="folder")
def folder_fixture() -> Iterator[Path]:
    with quick.folder() as path:
        yield path


class Machine:
    """One GPU, its server, and where a canary may run: `provable`."""

    def __init__(self) -> None:
        self.mode: gpunode.Mode | None = gpunode.Mode.SHARED
        self.away = False

    async def provable(self, gpu: GPUUID) -> gpunode.Mode | None:
        """As set."""
        if self.away:
            raise errors.TemporaryError(f"{gpu}: the driver is away", delay_seconds=1)
        return self.mode

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        """Nobody asks for it."""
        raise NotImplementedError


class Bench:
    """A GPU that had a fault, and who proves it."""

    def __init__(self, folder: Path) -> None:
        self.clock = fakes.FakeClock()
        self.canaries, self.machine = MemoryCanaries(), Machine()
        self.keeper = keeping.Keeper(health.Machine(xids.load()), folder, clock=self.clock, log=LOG)
        self.proving = proving.Proving(self.canaries, self.keeper, self.machine, clock=self.clock)

    async def fault(self) -> None:
        """An application has crashed."""
        await self.keeper.know([GPU])
        self.weigh()
        self.keeper.told(XIDEvent(uuid=GPU, xid=31))
        self.weigh()

    def weigh(self) -> None:
        """The GPU and its server are well."""
        self.keeper.weigh(GPU, Readings(), mps=gpunode.MPS.ACTIVE, tenants=())

    async def step_after(self, seconds: float) -> bool:
        """Time passes, and canaries are run."""
        await self.clock.advance(seconds)
        return any([await self.proving.prove(gpu) for gpu in self.proving.due()])


async def test_no_canary_is_run_on_a_gpu_that_is_well(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.keeper.know([GPU])
    bench.weigh()
    assert not await bench.step_after(60)
    assert bench.canaries.ran == []


@pytest.mark.parametrize(("mode", "as_client"), [(gpunode.Mode.SHARED, True), (gpunode.Mode.WHOLE, False)])
async def test_after_a_fault_one_is_run_the_way_tenants_use_the_gpu(
    tmp_path: Path, mode: gpunode.Mode, *, as_client: bool
) -> None:
    bench = Bench(tmp_path)
    await bench.fault()
    bench.machine.mode = mode
    assert await bench.step_after(10)
    assert bench.canaries.ran == [(GPU, as_client)]
    bench.weigh()
    assert bench.keeper.records[GPU].health is gpunode.Health.HEALTHY
    assert not await bench.step_after(60)


async def test_one_that_fails_is_followed_by_another_after_ever_longer_pauses(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.fault()
    bench.canaries.fault = "a canary failed: cuInit: CUDA_ERROR_NO_DEVICE"
    ran = []
    for _ in range(60):
        await bench.step_after(1)
        bench.weigh()
        ran.append(len(bench.canaries.ran))
    assert [ran.index(count) for count in (1, 2, 3, 4)] == [0, 5, 15, 35]
    assert str(bench.keeper.records[GPU].reason).startswith(f"no canary has proved it since: {bench.canaries.fault}")
    bench.canaries.fault = None
    assert await bench.step_after(proving.LONGEST_PAUSE_SECONDS)
    await bench.clock.advance(5)
    bench.weigh()
    assert bench.keeper.records[GPU].health is gpunode.Health.HEALTHY
    await bench.fault()
    assert await bench.step_after(1)


async def test_a_clock_that_is_set_back_makes_no_pause_longer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.fault()
    bench.canaries.fault = "a canary failed"
    assert await bench.step_after(1)
    bench.weigh()
    assert not await bench.step_after(1)
    assert await bench.step_after(-3600)


async def test_none_is_run_where_none_can_be(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.fault()
    bench.machine.mode = None
    assert not await bench.step_after(10)
    bench.machine.away = True
    assert not await bench.step_after(10)
    assert bench.canaries.ran == []


async def test_a_gpu_that_had_a_fault_is_closed_until_a_canary_passes(folder: Path) -> None:
    node = WholeNode(folder)
    node.canaries.fault = "a canary failed: cuMemsetD8_v2: CUDA_ERROR_LAUNCH_FAILED"
    async with node.offering():
        node.mps.put(node.first, Server(state=gpunode.MPS.ACTIVE, pid=SERVER_PID))
        await node.gpus.happened.put(XIDEvent(uuid=node.first, xid=31))
        await quick.until(lambda: "CUDA_ERROR_LAUNCH_FAILED" in (node.gpu().get("reason") or ""))
        assert node.gpu()["health"] == "Suspect"
        await node.kubelet.has_tokens(100)
        node.canaries.fault = None
        await quick.until(lambda: node.gpu()["health"] == "Healthy")
        assert set(node.canaries.ran) == {(node.first, True)}


async def test_where_none_is_run_the_reason_says_so(folder: Path) -> None:
    node = WholeNode(folder)
    node.settings = replace(node.settings, canary=False)
    async with node.offering():
        await node.gpus.happened.put(XIDEvent(uuid=node.first, xid=31))
        await quick.until(lambda: "and no canary is run" in (node.gpu().get("reason") or ""))
        await quick.until(lambda: node.gpu()["health"] == "Healthy")
        assert node.canaries.ran == []
