"""What holds tenants to their limits, as an interface: what it enforces, as data, and what can be asked of it. No I/O.

Only MPS, version 2 of its protocol, is implemented; version 3 and time slicing would be further backends.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cotenant_api import gpunode, placement
from cotenant_api.names import GPUUID


class Enforcement(enum.StrEnum):
    """How a limit holds."""

    HARDWARE = "Hardware"
    DRIVER = "Driver"
    COOPERATIVE = "Cooperative"
    """By the process's own environment: one that changes it escapes."""
    NONE = "None"


@dataclass(frozen=True, kw_only=True)
class Properties:
    """What a backend does for tenants that share a GPU; `sources`: where each of these facts is documented."""

    name: placement.Backend
    separate_contexts: bool
    concurrent: bool
    prioritization: Enforcement
    preemption: bool
    threads: Enforcement
    memory: Enforcement
    users: bool
    """Whether tenants are isolated from one another as users of the machine."""
    fault_containment: bool
    max_clients: int
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server of one GPU as it answers now.

    Attributes:
        state: Active only when the control daemon answers, its server says ACTIVE, the process lives and the defaults
            read back as set.
        pid: of the server, as the host counts; None without one. It may live while nobody can be asked about it.
        clients: PIDs of its clients, as the host counts.
        reason: why it is not Active.
        faults: lines of its daemon's output since it was observed last that tell of a fatal error. A tenant can have
            any line written: they prove nothing by themselves, and a PID in them names nobody.
        initializes: it is there and says that it is not ready yet.
        ended: PIDs of servers that the MPS daemons' keeper has ended in good order.
        outdated: it runs with other defaults than the node's; a new one is needed once its clients have ended.
        daemon: PID of the control daemon that lives now; None: none is known to live.
    """

    state: gpunode.MPS
    pid: int | None = None
    clients: tuple[int, ...] = ()
    reason: str | None = None
    faults: tuple[str, ...] = ()
    initializes: bool = False
    ended: frozenset[int] = frozenset()
    outdated: bool = False
    daemon: int | None = None

    @property
    def absent(self) -> bool:
        """Whether the control daemon has answered that it has no server. A daemon that cannot be asked says nothing."""
        return self.state is gpunode.MPS.STOPPED and self.daemon is not None


@dataclass(frozen=True, kw_only=True)
class Edits:
    """What a container gets for one GPU beside the GPU's own CDI edits.

    Attributes:
        environment: wins over the pod's own.
        mounts: CDI mounts (`hostPath`, `containerPath`, `options`).
        shared: whether the container is a client of MPS; it then gets fewer of the GPU's own edits.
    """

    environment: dict[str, str]
    mounts: tuple[dict[str, Any], ...] = ()
    shared: bool = False


class Backend(Protocol):
    """One backend for all GPUs of the node. Methods raise TemporaryError while its daemon cannot be asked."""

    @property
    def properties(self) -> Properties:
        """What it enforces, and how."""

    async def observe(self, gpu: GPUUID) -> Server:
        """Ask; never raises for a daemon that is not there: that is a state."""

    async def answers(self, gpu: GPUUID) -> bool:
        """Return whether the GPU has a control daemon; one that hangs is there.

        Raises TemporaryError where nobody knows.
        """

    async def start(self, gpu: GPUUID) -> None:
        """Have the GPU's server started, with the defaults of the node."""

    async def stop(self, gpu: GPUUID) -> None:
        """End the GPU's server; the caller has seen that it has no clients, or that they are lost."""

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        """End one client so that its neighbours live."""

    def edits(self, gpu: GPUUID, booking: placement.GPUBooking, *, processes: int) -> Edits:
        """Environment and mounts of a container; the pod's limits are divided by its `processes`."""
