"""Which pods have held a GPU without a server for so long that they are in its way. Pure.

A pod's time counts until the server serves again, whichever of its processes held the GPU: one that lets go for a
moment now and then keeps the server from starting as well. No pod is named for the time of another.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cotenant_api.names import PodUID
from cotenant_deviceplugin.gpus.processes import Owned

EVICT_SECONDS = 30.0


def without_server(holders: Owned, tenants: Collection[PodUID], *, answered: bool) -> frozenset[PodUID]:
    """Return the tenants of a GPU that hold the GPU without its MPS server.

    Args:
        holders: the processes that hold the GPU and are no known clients, by owner.
        tenants: pods that the GPU was granted to.
        answered: whether the control daemon says who the clients are. While it does not, a process that is no tenant's
            may be the server, and all the others its clients. Without such a process there is no server.
    """
    pods = frozenset(holders.pods.values())
    if not answered and (holders.foreign or not pods.issubset(tenants)):
        return frozenset()
    return pods.intersection(tenants)


@dataclass(frozen=True)
class Held:
    """What is known of one GPU since its server served last.

    Attributes:
        seconds: how long each pod has held it: between looks that both saw the pod there.
        present: who held it at the last look.
        at: when that was, by a clock that never goes back.
    """

    seconds: Mapping[PodUID, float] = field(default_factory=dict)
    present: frozenset[PodUID] = frozenset()
    at: float = 0.0

    def looked(self, pods: Collection[PodUID], now: float) -> "Held":
        """Return what is known after another look, which saw these pods."""
        stayed = self.present.intersection(pods)
        longer = {pod: self.seconds.get(pod, 0.0) + (now - self.at) * (pod in stayed) for pod in pods}
        return Held({**self.seconds, **longer}, frozenset(pods), now)

    def in_the_way(self) -> frozenset[PodUID]:
        """Return the pods that hold the GPU now, and have held it for too long."""
        return frozenset(pod for pod in self.present if self.seconds[pod] >= EVICT_SECONDS)


NOBODY = Held()
