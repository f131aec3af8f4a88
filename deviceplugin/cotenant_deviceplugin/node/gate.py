"""Whether the node's GPUs may serve a grant now, and what its container gets: late binding's gate.

The GPU must be healthy, in the mode that the grant needs, and, where it is shared, with an MPS server that is ACTIVE.
A new tenant must find nobody there whom no tenant explains.
"""

import dataclasses
from collections.abc import Callable

from cotenant_api import errors, gpunode, placement
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps import v2
from cotenant_deviceplugin.mps.backend import Backend, Edits
from cotenant_deviceplugin.node.machines import Machines
from cotenant_deviceplugin.node.strangers import Strangers
from cotenant_deviceplugin.pods import Refusal

DELAY_SECONDS = 2.0
WHOLE_EDITS = Edits(environment={"NVIDIA_VISIBLE_DEVICES": "void"})
"""Its devices come from NVIDIA's CDI specification; the runtime hook that reads this variable must not add others."""


class Gate:
    """See `binding.grants.Gate`.

    Args:
        device: what is known of a GPU; None: this node has none of that UUID.
        unhealthy: why a GPU may take no container; None: it may.
        machines: modes and servers.
        mps: gives containers their limits.
        strangers: processes that nobody explains.
    """

    def __init__(
        self,
        *,
        device: Callable[[GPUUID], hardware.Device | None],
        unhealthy: Callable[[GPUUID], str | None],
        machines: Machines,
        mps: Backend,
        strangers: Strangers,
    ) -> None:
        self._device, self._unhealthy, self._machines, self._mps = device, unhealthy, machines, mps
        self._strangers = strangers

    async def admit(self, grant: Grant, *, new: bool) -> Edits:
        """Make the GPUs ready for the grant, and say what its container gets for all of them."""
        for booking in grant.booked.gpus:
            self._check(booking.uuid, shared=grant.booked.backend is placement.Backend.MPS)
        for booking in grant.booked.gpus:
            await self._ready(booking.uuid, grant)
        if new:
            for booking in grant.booked.gpus:
                await self._strangers.check(booking.uuid)
        if grant.booked.backend is placement.Backend.WHOLE:
            return WHOLE_EDITS
        # decision.grant has seen to it that a part is of one GPU.
        (booking,) = grant.booked.gpus
        limited = self._mps.edits(booking.uuid, booking, processes=grant.booked.processes_per_gpu)
        return dataclasses.replace(limited, shared=True)

    def _check(self, gpu: GPUUID, *, shared: bool) -> None:
        device = self._device(gpu)
        if device is None:
            raise errors.PermanentError(f"{Refusal.UNKNOWN_GPU}: this node has no {errors.shortened(gpu)}")
        if device.mig:
            raise errors.PermanentError(f"{Refusal.GPU_NOT_SERVED}: {gpu} is in MIG mode, which gives no shares")
        if shared and not v2.limits_threads(device):
            raise errors.PermanentError(f"{Refusal.GPU_NOT_SERVED}: {gpu}: {v2.unlimited(device)}")
        reason = self._unhealthy(gpu)
        if reason is not None:
            raise _not_now(f"{gpu}: {reason}")

    async def _ready(self, gpu: GPUUID, grant: Grant) -> None:
        decision = await self._machines.settle(gpu)
        whole = grant.booked.backend is placement.Backend.WHOLE
        needed = gpunode.Mode.WHOLE if whole else gpunode.Mode.SHARED
        if self._machines.wanted(gpu) is not needed:
            raise _not_now(f"{gpu}: other tenants have it in mode {self._machines.wanted(gpu)}")
        if not decision.ready:
            raise _not_now(f"{gpu}: mode {needed}: {decision.reason or 'not ready'} (MPS is {decision.published})")


def _not_now(why: str) -> errors.TemporaryError:
    return errors.TemporaryError(why, delay_seconds=DELAY_SECONDS)
