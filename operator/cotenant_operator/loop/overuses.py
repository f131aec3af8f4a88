"""Whether a node agent has told that a pod used too much GPU memory: asked for where a decision wants it.

An agent tells before it evicts, so that one question about an evicted pod is enough. What is kept only saves requests.
"""

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_operator.kube import api

_KEPT: Final = 4096


class Overuses:
    """Reads the events that node agents write about pods."""

    def __init__(self, client: api.API) -> None:
        self._api = client
        self._known: OrderedDict[PodUID, bool] = OrderedDict()

    async def of(self, namespace: str, uids: Collection[PodUID]) -> dict[PodUID, bool]:
        """Of each of these pods, whether it was told."""
        return {uid: await self._of(namespace, uid) for uid in sorted(uids)}

    async def _of(self, namespace: str, uid: PodUID) -> bool:
        if uid not in self._known:
            events = await self._api.events_of(namespace, uid=uid, reason=names.GPU_MEMORY_OVERUSE)
            by = ((event.get("source") or {}).get("component") for event in events)
            self._known[uid] = names.NODE_AGENT_ACCOUNT in by
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[uid]
