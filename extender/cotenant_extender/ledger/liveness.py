"""Judge by their Leases which node agents are alive.

An agent is alive while the renewal time in its Lease has changed within the last `LEASE_SECONDS` of our own monotonic
clock, as kube-controller-manager judges kubelets. The renewal time is compared with the one seen before it, never with
a clock: the clock of a node may be wrong by any amount.

A Lease that is seen for the first time counts as renewed at that moment. So an agent that died before this process
started counts as alive for at most `LEASE_SECONDS` more. Its Node offers no `cotenant.dev/gpu-share` meanwhile: kubelet
withdraws the resource when the device plugin's socket closes.
"""

import math

from cotenant_api import gpunode
from cotenant_api.names import NodeName
from cotenant_extender.ledger import deadlines


class Heartbeats:
    """Renewals of the agents' Leases, as they were observed. Times are by a clock that never goes back."""

    def __init__(self) -> None:
        self._renewal: dict[NodeName, float] = {}
        self._expiry: deadlines.Deadlines[NodeName] = deadlines.Deadlines()

    @property
    def names(self) -> list[NodeName]:
        """The nodes whose agents have a Lease."""
        return list(self._renewal)

    def observe(self, name: NodeName, renewed: float, *, now: float) -> None:
        """Note the renewal time of a Lease; 0: the Lease was never renewed, or cannot be read."""
        if self._renewal.get(name) == renewed:
            return
        self._renewal[name] = renewed
        self._expiry.drop(name)
        if renewed:
            self._expiry.put(name, now + gpunode.LEASE_SECONDS)

    def forget(self, name: NodeName) -> None:
        """Forget a Lease that is gone."""
        self._renewal.pop(name, None)
        self._expiry.drop(name)

    def alive(self, name: NodeName, *, now: float) -> bool:
        """Return whether an agent is alive."""
        return now < self._expiry.at.get(name, -math.inf)

    def expired(self, *, now: float) -> list[NodeName]:
        """Return the agents that have fallen silent since this was asked last."""
        return self._expiry.due(now=now)
