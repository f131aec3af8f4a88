"""One observation of a GPU, and what it proves about the processes that hold the GPU. Pure."""

from dataclasses import dataclass

from cotenant_api import gpunode
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps.backend import Server


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One observation.

    Attributes:
        processes: PIDs of all that hold the GPU by NVML, server and clients included.
        before: what its compute mode was before it was first set; None: what it is.
        event: whether the driver has told of a critical event since the last observation.
        own: PIDs of clients whose end proves nothing: the agent's own, and those that it ended.
    """

    server: Server
    compute_mode: ComputeMode
    processes: frozenset[int] = frozenset()
    before: ComputeMode | None = None
    event: bool = False
    own: frozenset[int] = frozenset()

    @property
    def users(self) -> frozenset[int]:
        """Whoever uses the GPU beside the server itself."""
        return (self.processes | frozenset(self.server.clients)) - {self.server.pid}

    @property
    def answered(self) -> bool:
        """Return whether the control daemon has said who the clients are; without a server there are none."""
        server = self.server
        serves = server.state in {gpunode.MPS.ACTIVE, gpunode.MPS.FAULT}
        return serves or server.absent or server.initializes

    @property
    def bypassing(self) -> frozenset[int]:
        """Return the processes that hold the GPU without its MPS server, as far as the agent knows the server.

        A server that has clients holds the GPU itself, and NVML lists it. While the daemon does not answer, a server
        that the agent does not know may be among these processes, and the others its clients: see `answered`.
        """
        if self.answered:
            return self.processes - frozenset(self.server.clients) - {self.server.pid}
        return frozenset() if self.server.pid in self.processes else self.users
