"""What the node around the agent allows: puts together what is remembered of it, for readiness and for offers."""

from collections.abc import Callable, Iterable, Mapping
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


@dataclass(frozen=True)
class Said:
    """By the admin.

    Attributes:
        runtime_has_cdi: of a containerd 1.7, where CDI is a setting.
        selector: labels that the Node carries while it is Cotenant's.
    """

    runtime_has_cdi: bool
    selector: Mapping[str, str]


class Around:
    """The node's surroundings, as they are now.

    Args:
        stores: what is watched.
        said: what the admin said of the node.
        kubelet_fault: why kubelet does not know the resource; None: it does.
        registered: resources by which other device plugins hand out the GPUs, as kubelet knows them.

    Attributes:
        driver_fault: why MPS of the node's driver cannot hold tenants.
        specification_fault: why no CDI specification serves a GPU of this node.
    """

    def __init__(
        self,
        stores: Stores,
        said: Said,
        *,
        kubelet_fault: Callable[[], str | None],
        registered: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.driver_fault: str | None = None
        self.specification_fault: str | None = None
        self._registered = registered
        self._stores, self._said, self._kubelet_fault = stores, said, kubelet_fault

    def read(self) -> readiness.Surroundings:
        """As the status tells it."""
        slices = ("NVIDIA's DRA driver",) if self._stores.slices.offer() else ()
        spec = self._stores.policy.spec
        return readiness.Surroundings(
            container_runtime=self._stores.node.container_runtime,
            runtime_has_cdi=self._said.runtime_has_cdi,
            driver_fault=self.driver_fault,
            specification_fault=self.specification_fault,
            foreign=(*sorted({*self._stores.node.offered, *self._registered()}), *slices),
            kubelet_fault=self._kubelet_fault(),
            offering=spec is not None and spec.mode is packingpolicy.Mode.PACK,
            lacking_labels=self._lacking(),
        )

    def closed(self) -> str | None:
        """Why no share of this node may be handed out; None: they may. What was never seen closes."""
        return readiness.closed(self.read()) if self._stores.synced else UNSEEN

    def given_back(self) -> bool:
        """Return whether the node's GPUs are somebody else's.

        What Cotenant changed of them is to be as it was before.
        """
        return self._stores.synced and readiness.given_back(self.read())

    def _lacking(self) -> tuple[str, ...]:
        labels = self._stores.node.labels
        return tuple(f"{key}={value}" for key, value in self._said.selector.items() if labels.get(key) != value)
