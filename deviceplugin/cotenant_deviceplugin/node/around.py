"""What the node around the agent allows: puts together what is remembered of it, for readiness and for offers."""

from collections.abc import Callable
from dataclasses import dataclass

from cotenant_api import packingpolicy
from cotenant_deviceplugin.kube import surroundings
from cotenant_deviceplugin.publishing import readiness

UNSEEN = "the agent has not seen the Node, its GPUNode and the PackingPolicy yet"


@dataclass(frozen=True)
class Stores:
    """What is watched."""

    node: surroundings.Node
    slices: surroundings.Slices
    policy: surroundings.Policy

    @property
    def synced(self) -> bool:
        """Whether all have been seen once."""
        return self.node.synced and self.slices.synced and self.policy.spec is not None


class Around:
    """The node's surroundings, as they are now.

    Args:
        stores: what is watched.
        runtime_has_cdi: the admin's word.
        kubelet_fault: why kubelet does not know the resource; None: it does.

    Attributes:
        specification_fault: why NVIDIA's CDI specification serves no GPU of this node.
    """

    def __init__(self, stores: Stores, *, runtime_has_cdi: bool, kubelet_fault: Callable[[], str | None]) -> None:
        self.specification_fault: str | None = None
        self._stores, self._runtime_has_cdi, self._kubelet_fault = stores, runtime_has_cdi, kubelet_fault

    def read(self) -> readiness.Surroundings:
        """As the status tells it."""
        slices = ("NVIDIA's DRA driver",) if self._stores.slices.offer() else ()
        spec = self._stores.policy.spec
        return readiness.Surroundings(
            container_runtime=self._stores.node.container_runtime,
            runtime_has_cdi=self._runtime_has_cdi,
            specification_fault=self.specification_fault,
            foreign=(*self._stores.node.offered, *slices),
            kubelet_fault=self._kubelet_fault(),
            offering=spec is not None and spec.mode is packingpolicy.Mode.PACK,
        )

    def closed(self) -> str | None:
        """Why no share of this node may be handed out; None: they may. What was never seen closes."""
        return readiness.closed(self.read()) if self._stores.synced else UNSEEN
