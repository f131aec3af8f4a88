"""A GPU as its supervisor sees it, observation by observation: what is decided, without anything that is asked."""

from cotenant_api.gpunode import MPS, Mode
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import supervision
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.mps.seen import Seen

POLICY = supervision.Policy()
DAEMON = 50
STOPPED = Server(state=MPS.STOPPED, reason="the control daemon has no server", daemon=DAEMON)
EXCLUSIVE = ComputeMode.EXCLUSIVE_PROCESS


def active(*clients: int, pid: int = 100, said: str | None = None) -> Server:
    """Return a server that serves; `said`: what its daemon's output says of a fault."""
    return Server(state=MPS.ACTIVE, pid=pid, clients=clients, faults=() if said is None else (said,), daemon=DAEMON)


def at_fault(*clients: int, pid: int = 100) -> Server:
    """Return a server that says FAULT."""
    return Server(state=MPS.FAULT, pid=pid, clients=clients, reason="server 100 says FAULT", daemon=DAEMON)


def pids(*numbers: int) -> frozenset[int]:
    """Return some PIDs."""
    return frozenset(numbers)


class GPU:
    """One GPU as its supervisor sees it, observation by observation."""

    def __init__(self, wanted: Mode = Mode.SHARED, policy: supervision.Policy = POLICY) -> None:
        self.wanted, self.policy = wanted, policy
        self.state, self.now = supervision.State(), 1000.0

    def see(
        self,
        server: Server,
        *others: int,
        mode: ComputeMode = EXCLUSIVE,
        after: float = 0.0,
        event: bool = False,
        own: frozenset[int] = frozenset(),
    ) -> supervision.Decision:
        """Observe, so many seconds after the last time; `others`: processes beside the server's clients."""
        self.now += after
        processes = frozenset({*others, *server.clients, *([] if server.pid is None else [server.pid])})
        seen = Seen(server=server, compute_mode=mode, processes=processes, event=event, own=own)
        decision = supervision.decide(self.state, seen, self.wanted, now=self.now, policy=self.policy)
        self.state = decision.state
        return decision
