"""What a client of the API server knows: the objects of some kinds, somewhat later than they are, and in order.

The models of kube-scheduler, kubelets and agents use it. They hear nothing while their link is partitioned.
"""

import asyncio
import collections
from collections.abc import Callable, Sequence

from api_server import store
from simulation import network, processes

Heard = Callable[[store.Change], None]


class Informer:
    """Tells a process of changes, in order, in the process itself.

    Args:
        link: its latency and its partitions count.
        heard: is called in the process.
        node: as by a field selector: it hears only of pods that are bound to this node; None: of all.
    """

    def __init__(
        self,
        link: network.Link,
        process: processes.Process,
        collections_: Sequence[str],
        heard: Heard,
        *,
        node: str | None = None,
    ) -> None:
        self._link, self._process, self._heard, self._node = link, process, heard, node
        self._collections = tuple(collections_)
        self._objects = link.network.objects
        self._loop = asyncio.get_running_loop()
        self._waiting: collections.deque[store.Change] = collections.deque()
        self._due = self._loop.time()
        self._pumping = False

    def start(self) -> None:
        """List, then hear of changes."""
        for collection in self._collections:
            for value in list(self._objects.objects[collection].values()):
                self._take(store.Change(collection, "ADDED", value, None))
        self._objects.listeners.append(self._take)

    def stop(self) -> None:
        """Hear no more."""
        if self._take in self._objects.listeners:
            self._objects.listeners.remove(self._take)

    def _take(self, change: store.Change) -> None:
        if change.collection not in self._collections:
            return
        if self._node is not None and change.value["spec"].get("nodeName") != self._node:
            return
        self._waiting.append(change)
        if not self._pumping:
            self._pumping = True
            self._next()

    def _next(self) -> None:
        self._due = max(self._due, self._loop.time() + self._link.latency())
        self._loop.call_at(self._due, self._pump, context=self._link.network.outside)

    def _pump(self) -> None:
        if not self._process.alive:
            self.stop()
            return
        if not self._link.open:
            self._due = self._loop.time() + 0.5
            self._next()
            return
        change = self._waiting.popleft()
        self._loop.call_soon(self._heard, change, context=self._process.context.copy())
        self._pumping = bool(self._waiting)
        if self._waiting:
            self._next()
