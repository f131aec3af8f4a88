"""What really is on a node: GPUs, containers, and what its agent has written to disk. It outlives agent and kubelet."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cotenant_api.names import GPUUID, NodeName, PodUID

Ended = Callable[[PodUID], None]


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container that runs.

    Attributes:
        shares: hundredths by GPU.
        ends: when its work is done, by the loop's time.
    """

    uid: PodUID
    name: str
    namespace: str
    shares: dict[GPUUID, int]
    ends: float


@dataclass
class Machine:
    """One node.

    Attributes:
        specs: tenants for which the agent has written a CDI specification; a container starts only with one.
        containers: those that run.
        over: pods whose container ended by itself, and whether well.
        sick: GPUs that are broken at present.
        on: whether it is powered.
        writes: of its GPUNode, by all agents that it had.
    """

    name: NodeName
    gpus: tuple[GPUUID, ...]
    model: str
    specs: dict[PodUID, dict[GPUUID, int]] = field(default_factory=dict)
    containers: dict[PodUID, Container] = field(default_factory=dict)
    over: dict[PodUID, bool] = field(default_factory=dict)
    sick: set[GPUUID] = field(default_factory=set)
    on: bool = True
    writes: int = 0

    def start(self, container: Container) -> bool:
        """Start a container; it cannot without its specification."""
        if not self.on or container.uid not in self.specs:
            return False
        self.containers[container.uid] = container
        return True

    def stop(self, uid: PodUID) -> None:
        """Its container is no more."""
        self.containers.pop(uid, None)

    def lose_power(self) -> None:
        """Everything on it ends, and its disk is wiped before it comes back."""
        self.on = False
        self.containers.clear()
        self.specs.clear()
        self.over.clear()
