"""Whether a node agent wanted a pod evicted for the GPU memory that it used: asked for where a decision wants it.

It stands in the GPUNode of the pod's node, which that node's agent alone can write, before anybody evicts the pod; so
one question about an evicted pod is enough. What is kept only saves requests.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from cotenant_api import gpunode
from cotenant_api.names import NodeName, PodUID
from cotenant_operator.kube import api
from cotenant_operator.state import reading
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.views import Key

_KEPT: Final = 4096


class Overuses:
    """Reads what node agents say of pods."""

    def __init__(self, client: api.API) -> None:
        self._api = client
        self._known: OrderedDict[PodUID, bool] = OrderedDict()

    async def of(self, pods: Mapping[PodUID, NodeName]) -> dict[PodUID, bool]:
        """Of each of these pods, by the node that it was on, whether it should go for its GPU memory."""
        return {uid: await self._of(uid, node) for uid, node in sorted(pods.items())}

    async def _of(self, uid: PodUID, node: NodeName) -> bool:
        if uid not in self._known:
            self._known[uid] = await self._told(uid, node)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[uid]

    async def _told(self, uid: PodUID, node: NodeName) -> bool:
        try:
            found = reading.gpu_node(await self._api.get(Kind.GPU_NODE, Key("", node)))
        except api.NotFoundError:
            return False
        told = [(entry.pod_uid, entry.evict) for gpu in found.gpus.values() for entry in gpu.tenants]
        told += [(entry.pod_uid, entry.evict) for gpu in found.gpus.values() for entry in gpu.ended]
        return (uid, gpunode.EvictionReason.MEMORY_OVERUSE) in told
