"""What the agent does with pods by way of the API server: read one freshly, tell about one. It changes none."""

import collections
import contextlib

from cotenant_api import errors
from cotenant_api.names import Namespace, NodeName
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.clock import Clock
from cotenant_deviceplugin.kube import cluster, manifests

TOLD_LIMIT = 4096
"""Events of which it is remembered that they were created; the API server keeps each for an hour."""


class FreshPods:
    """Reads pods of one node from the API server, never from what is remembered.

    Both raise TemporaryError while nobody can tell; what the API server refuses today it may grant tomorrow.
    """

    def __init__(self, api: cluster.Cluster, node: NodeName) -> None:
        self._api = api
        self._node = node

    async def read(self, namespace: Namespace, name: str) -> pods.BoundPod | None:
        """Return the pod as it stands; None: there is none, or it asks for no share."""
        try:
            return pods.read(await self._api.get(cluster.pod_path(namespace, name)))
        except cluster.NotFoundError:
            return None
        except errors.PermanentError as error:
            raise errors.TemporaryError(str(error), delay_seconds=0) from error

    async def bound(self) -> tuple[pods.BoundPod, ...]:
        """Every pod that is bound to the node and asks for a share."""
        try:
            listed = await self._api.list(cluster.pods_of(self._node))
        except errors.PermanentError as error:
            raise errors.TemporaryError(str(error), delay_seconds=0) from error
        return tuple(bound for each in listed.get("items") or () if (bound := pods.read(each)) is not None)


class PodEvents:
    """Tells about pods in their events, once per pod and reason, also across restarts."""

    def __init__(self, api: cluster.Cluster, node: NodeName, clock: Clock) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._told: collections.OrderedDict[str, None] = collections.OrderedDict()

    async def tell(self, about: manifests.Subject, *, reason: str, message: str) -> None:
        """Create the event, if it has not been."""
        made = manifests.event(about, node=self._node, reason=reason, message=message, now=self._clock.now())
        key = f"{about.namespace}/{made['metadata']['name']}"
        if key in self._told:
            return
        # Told by an earlier agent, or the namespace is gone and its pods with it.
        with contextlib.suppress(cluster.AlreadyExistsError, cluster.NotFoundError):
            await self._api.create(cluster.events_path(about.namespace), made)
        self._told[key] = None
        if len(self._told) > TOLD_LIMIT:
            self._told.popitem(last=False)
