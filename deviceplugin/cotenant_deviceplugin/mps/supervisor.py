"""Keeps one GPU's MPS server and compute mode as its grants want it: observes, decides (`supervision`), acts.

One step at a time for a GPU, whoever asks for it. Evicts nobody: it names whom to evict.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from cotenant_api import errors, gpunode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import steps, supervision
from cotenant_deviceplugin.mps.backend import Backend
from cotenant_deviceplugin.mps.seen import Seen

MAX_STEPS: Final = 6
"""Further changes in one call of `settle`: more than any change of modes needs."""
LOOK_SECONDS: Final = 0.1
"""Between two looks at a server that starts."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What the driver says of a GPU now.

    Attributes:
        processes: PIDs with a context of their own, and of MPS clients.
        before: what the compute mode was before it was first set; None: what it is.
        own: PIDs of the agent's own programs, which may be clients of MPS, too.
    """

    compute_mode: ComputeMode
    processes: frozenset[int]
    before: ComputeMode | None = None
    own: frozenset[int] = frozenset()


class Driver(Protocol):
    """The GPU's driver. Both raise TemporaryError while it cannot be asked, or refuses."""

    async def look(self, gpu: GPUUID) -> Look:
        """Ask, freshly."""

    async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
        """Say who may open contexts."""


class Supervisor:
    """The server of one GPU.

    Args:
        gpu: its UUID.
        backend: of MPS.
        driver: of the GPU.
        monotonic: a clock that never goes back, in seconds.
        policy: bounds.
    """

    def __init__(
        self,
        gpu: GPUUID,
        *,
        backend: Backend,
        driver: Driver,
        monotonic: Callable[[], float],
        policy: supervision.Policy,
    ) -> None:
        self.gpu = gpu
        self._backend, self._driver = backend, driver
        self._monotonic, self._policy = monotonic, policy
        self._state = supervision.State()
        self._event = False
        self._ended: frozenset[int] = frozenset()
        self._heeded: frozenset[int] = frozenset()
        """Of these, whom the server has ended: it lists each as long as its process lives."""
        self._one_at_a_time = asyncio.Lock()

    def heard(self) -> None:
        """Note that the driver has told of a critical event of the GPU."""
        self._event = True

    async def terminate(self, pid: int) -> None:
        """End one client so that its neighbours live. Raises TemporaryError."""
        self._ended |= {pid}
        await self._backend.terminate(self.gpu, pid)
        self._heeded |= {pid}

    async def step(self, wanted: gpunode.Mode | None) -> supervision.Decision:
        """Observe once, and do what follows. `EvictStayers` in its actions is left to the caller.

        Raises:
            TemporaryError: the driver cannot be asked. A failed action is no error: it is the decision's reason.
        """
        async with self._one_at_a_time:
            decision, _ = await self._step(wanted)
            return decision

    async def settle(self, wanted: gpunode.Mode | None) -> supervision.Decision:
        """Step until the GPU is ready, or nothing more can be done for it at once.

        A server that starts is waited for, for a while: `start_server` returns before it is ACTIVE. Raises as `step`
        where the first step fails; a later one that fails is the decision's reason.
        """
        async with self._one_at_a_time:
            end = self._monotonic() + self._policy.changes_seconds
            decision, changed = await self._step(wanted)
            begun, unproven = decision.fault, decision.unproven
            changes, last = 0, self._monotonic() + self._policy.settle_seconds
            while not decision.ready and changes < MAX_STEPS:
                if self._monotonic() >= end:
                    slow = f"driver and MPS daemon answer slowly: not done within {self._policy.changes_seconds:g} s"
                    decision = replace(decision, reason=f"{decision.reason}; {slow}" if decision.reason else slow)
                    break
                if not changed:
                    if not decision.starts or self._monotonic() >= last:
                        break
                    await asyncio.sleep(LOOK_SECONDS)
                changes += changed
                try:
                    decision, changed = await self._step(wanted)
                except errors.TemporaryError as error:
                    # A fault that an earlier step has found is told once: it must not be lost with this step.
                    decision = replace(decision, reason=str(error))
                    break
                begun, unproven = decision.fault or begun, (*unproven, *decision.unproven)
            return replace(decision, fault=begun, unproven=unproven)

    async def _step(self, wanted: gpunode.Mode | None) -> tuple[supervision.Decision, bool]:
        """Return the decision, and whether it has changed server or compute mode."""
        # First the driver: what the daemon's output says is read once, and would be lost where the driver fails.
        look = await self._driver.look(self.gpu)
        event, self._event = self._event, False
        server = await self._backend.observe(self.gpu)
        own = look.own | self._ended
        self._ended &= frozenset(server.clients)
        self._heeded &= self._ended
        seen = Seen(
            server=server,
            compute_mode=look.compute_mode,
            processes=look.processes,
            before=look.before,
            event=event,
            own=own,
        )
        decision = supervision.decide(self._state, seen, wanted, now=self._monotonic(), policy=self._policy)
        self._state = decision.state
        try:
            changes = [await self._act(action) for action in decision.actions]
        except errors.TemporaryError as error:
            return replace(decision, reason=str(error)), False
        return decision, any(changes)

    async def _act(self, action: steps.Action) -> bool:
        match action:
            case steps.StartServer():
                await self._backend.start(self.gpu)
            case steps.StopServer():
                await self._backend.stop(self.gpu)
            case steps.SetComputeMode(mode=mode):
                await self._driver.set_compute_mode(self.gpu, mode)
            case steps.TerminateClients(pids=pids):
                for pid in sorted(pids - self._heeded):
                    await self.terminate(pid)
                return False
            case steps.EvictStayers():
                return False
        return True
