"""The Lease of one agent. It decides nothing about when the agent is alive."""

from datetime import datetime

from cotenant_api import errors
from cotenant_api.names import Namespace, NodeName
from cotenant_deviceplugin.kube import cluster, manifests


class AgentLease:
    """Renews a Lease as kubelet renews that of its Node: each renewal names the version that it follows.

    So a renewal that arrives late is refused. It cannot bring back an older time, or the owner of a former Node.
    """

    def __init__(self, api: cluster.Cluster, node: NodeName, namespace: Namespace) -> None:
        self._api = api
        self._node, self._namespace = node, namespace
        self._path = cluster.lease_path(node, namespace)
        self._last: manifests.Preconditions | None = None

    async def renew(self, *, node_uid: str, now: datetime) -> None:
        """Set the renewal time and the owner; create the Lease where there is none.

        Raises:
            TemporaryError: the Lease is not what it was when this agent wrote it last; the next call reads it.
        """
        last = self._last or await self._read()
        # Until it is answered, what stands may be this renewal or the last one.
        self._last = None
        wanted = manifests.lease(self._node, self._namespace, node_uid=node_uid, now=now, on=last)
        try:
            if last is None:
                written = await self._api.create(cluster.leases_path(self._namespace), wanted)
            else:
                written = await self._api.apply(self._path, wanted)
        except (cluster.AlreadyExistsError, cluster.NotFoundError) as error:
            raise errors.TemporaryError(str(error), delay_seconds=0) from error
        self._last = manifests.Preconditions.of(written)

    async def _read(self) -> manifests.Preconditions | None:
        """Return what stands; None: there is no Lease."""
        try:
            # RBAC could let an agent get all Leases or none; admission lets it patch its own, and this changes nothing.
            return manifests.Preconditions.of(await self._api.patch(self._path, {}))
        except cluster.NotFoundError:
            return None
