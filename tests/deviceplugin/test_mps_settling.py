"""How long a container's start waits for the MPS server of its GPU: in one call of kubelet's, and no longer."""

import asyncio
import dataclasses
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from cotenant_api import errors, gpunode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.kubelet import service
from cotenant_deviceplugin.mps import control, supervision, supervisor
from cotenant_deviceplugin.mps.backend import Server
from node_kit import quick
from node_kit.whole_node import SERVER_PID, MemoryMPS, WholeNode

GPU = GPUUID("GPU-1")
KUBELET_SECONDS = 30.0
"""KubeletPreStartContainerRPCTimeoutInSecs."""
INITIALIZING = Server(
    state=gpunode.MPS.STARTING, pid=SERVER_PID, reason=f"server {SERVER_PID} says INITIALIZING", initializes=True
)
R = TypeVar("R")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer whenever nothing else is to be done."""

    _now = 0.0

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]  # of BaseEventLoop
            self._now = max(self._now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class SlowMPS(MemoryMPS):
    """A daemon that takes `answer_seconds` for a look, and whose server takes `start_seconds` until it is ACTIVE."""

    def __init__(self, *, answer_seconds: float, start_seconds: float) -> None:
        super().__init__()
        self.answer_seconds, self.start_seconds = answer_seconds, start_seconds
        self.ready_at: dict[GPUUID, float] = {}
        self.starts = 0

    async def observe(self, gpu: GPUUID) -> Server:
        """Return what the daemon says, after so long."""
        await asyncio.sleep(self.answer_seconds)
        if asyncio.get_running_loop().time() >= self.ready_at.get(gpu, float("inf")):
            del self.ready_at[gpu]
            self.put(gpu, dataclasses.replace(INITIALIZING, state=gpunode.MPS.ACTIVE, reason=None, initializes=False))
        return await super().observe(gpu)

    async def start(self, gpu: GPUUID) -> None:
        """Start a server; it initializes when this returns."""
        self.starts += 1
        self.put(gpu, INITIALIZING)
        self.ready_at[gpu] = asyncio.get_running_loop().time() + self.start_seconds


class Driver:
    """A driver that takes every compute mode."""

    mode = ComputeMode.DEFAULT

    async def look(self, _: GPUUID) -> supervisor.Look:
        """Return the mode; nobody uses the GPU."""
        return supervisor.Look(compute_mode=self.mode, processes=frozenset())

    async def set_compute_mode(self, _: GPUUID, mode: ComputeMode) -> None:
        """Set the mode."""
        self.mode = mode


def in_virtual_time(work: Coroutine[Any, Any, R]) -> R:
    """Run it on a clock that waits for nobody."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


async def settled(mps: MemoryMPS, *, calls: int = 1) -> tuple[supervision.Decision, float]:
    """Settle a fresh GPU as so many calls of kubelet's do; the last decision, and how long the last call took."""
    loop = asyncio.get_running_loop()
    gpu = supervisor.Supervisor(GPU, backend=mps, driver=Driver(), monotonic=loop.time, policy=supervision.Policy())
    for _ in range(calls):
        begun = loop.time()
        work = gpu.settle(gpunode.Mode.SHARED)
        decision = await service.bounded("PreStartContainer", service.PRE_START_SECONDS, work)
    return decision, loop.time() - begun


def test_server_that_takes_nine_seconds_is_there_in_one_call() -> None:
    mps = SlowMPS(answer_seconds=0.01, start_seconds=9)
    decision, seconds = in_virtual_time(settled(mps))
    assert (decision.ready, mps.starts) == (True, 1)
    assert 9 <= seconds < 10


def test_server_that_never_gets_ready_is_waited_for_ten_seconds_and_named() -> None:
    decision, seconds = in_virtual_time(settled(SlowMPS(answer_seconds=0.01, start_seconds=3600)))
    assert (decision.ready, decision.reason) == (False, INITIALIZING.reason)
    assert 10 <= seconds < 10.5


@pytest.mark.parametrize("answer_seconds", [1.0, 3.0, 5.0, 7.0, 9.0, control.ANSWER_SECONDS])
@pytest.mark.parametrize("start_seconds", [0.0, 3600.0])
def test_call_ends_by_itself_before_kubelet_gives_up_however_long_a_look_takes(
    answer_seconds: float, start_seconds: float
) -> None:
    """It says why there is no server, and not that time was up."""
    decision, seconds = in_virtual_time(settled(SlowMPS(answer_seconds=answer_seconds, start_seconds=start_seconds)))
    assert seconds < service.PRE_START_SECONDS < KUBELET_SECONDS
    assert decision.ready or decision.reason


def test_call_that_looks_take_too_long_for_says_so_and_the_next_one_goes_on_from_there() -> None:
    mps = SlowMPS(answer_seconds=control.ANSWER_SECONDS, start_seconds=0)
    decision, seconds = in_virtual_time(settled(mps))
    assert (decision.ready, seconds) == (False, 2 * control.ANSWER_SECONDS)
    assert "answer slowly: not done within 17 s" in (decision.reason or "")
    mps = SlowMPS(answer_seconds=control.ANSWER_SECONDS, start_seconds=0)
    decision, seconds = in_virtual_time(settled(mps, calls=2))
    assert (decision.ready, mps.starts, seconds) == (True, 1, control.ANSWER_SECONDS)


async def test_container_starts_in_one_call_while_its_server_initializes_for_a_second() -> None:
    """Over the agent's socket, by PreStartContainer."""
    with quick.folder() as folder:
        node = WholeNode(folder)
        node.mps = mps = SlowMPS(answer_seconds=0, start_seconds=1)
        async with node.offering():
            pod = node.bind()
            await quick.until(lambda: mps.starts == len(node.gpus.listed) and not mps.ready_at)
            assert await node.kubelet.admit(pod), pod.failure
            await mps.stop(node.first)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            names = await node.kubelet.start(pod)
            assert 0.9 < loop.time() - begun < KUBELET_SECONDS
            node.kubelet.started(pod)
            assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50" in node.specification(names)["env"]


class FailingDriver(Driver):
    """A driver that answers once, and then no more."""

    looks, mode = 0, ComputeMode.EXCLUSIVE_PROCESS

    async def look(self, gpu: GPUUID) -> supervisor.Look:
        """Return the mode, or fail."""
        self.looks += 1
        if self.looks > 1:
            raise errors.TemporaryError("the driver is away", delay_seconds=1)
        return await super().look(gpu)


async def test_fault_is_told_also_where_a_later_look_of_the_same_call_fails() -> None:
    mps = MemoryMPS()
    mps.put(GPU, Server(state=gpunode.MPS.FAULT, pid=SERVER_PID, reason="says FAULT"))
    gpu = supervisor.Supervisor(
        GPU, backend=mps, driver=FailingDriver(), monotonic=lambda: 0.0, policy=supervision.Policy()
    )
    decision = await gpu.settle(gpunode.Mode.SHARED)
    assert (decision.ready, decision.reason) == (False, "the driver is away")
    assert decision.fault is not None
    with pytest.raises(errors.TemporaryError, match="the driver is away"):
        await gpu.settle(gpunode.Mode.SHARED)
