"""What goes wrong on a control plane, on purpose; and what kubelet would do: whatever has ended is started again."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from cotenant_api import errors
from cotenant_e2e import client as clients
from cotenant_e2e import components, installation, waiting
from cotenant_e2e.background import Background
from cotenant_e2e.cluster import Cluster

SECONDS = 60
LOOK_SECONDS = 0.2
Fault = Callable[[Cluster], None]


def extender_is_killed(cluster: Cluster) -> None:
    """SIGKILL: its ledger, its earmarks and what it had in flight are forgotten."""
    cluster.kill(installation.EXTENDER)


def etcd_hangs(cluster: Cluster) -> None:
    """Until the API server says that it is not ready; what was asked meanwhile is answered late."""
    with cluster.paused(components.ETCD):
        _wait_until_unready(cluster)


def api_server_is_killed(cluster: Cluster) -> None:
    """SIGKILL: every connection and every watch breaks; its next start knows no older versions."""
    cluster.kill(components.API_SERVER)


def everything_at_once(cluster: Cluster) -> None:
    """While etcd hangs, extender and kube-scheduler are killed: the new ones find a Lease that nobody renews.

    The extender serves until that Lease expires, steps down, and takes over with the next kube-scheduler.
    """
    with cluster.paused(components.ETCD):
        _wait_until_unready(cluster)
        for victim in (installation.EXTENDER, components.COTENANT_SCHEDULER):
            cluster.kill(victim)


FAULTS: Sequence[Fault] = (extender_is_killed, etcd_hangs, api_server_is_killed, everything_at_once)


class Keeper(Background):
    """Starts every process that has ended again, for the block."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        super().__init__(self._keep, every_seconds=LOOK_SECONDS)

    def _keep(self) -> None:
        # What ends again at once, because it cannot do without what hangs, is started again until it stays.
        with suppress(waiting.NotReadyError):
            self._cluster.revive()


def _wait_until_unready(cluster: Cluster) -> None:
    def unready() -> bool:
        try:
            cluster.client.get("/readyz")
        except (clients.APIError, errors.TemporaryError):
            return True
        return False

    waiting.wait_until(unready, "unready API server", SECONDS)
