"""Keeps a store like the API server: lists, then watches, and lists again when the watch is too old."""

from contextlib import aclosing

from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.kube.stores import Store
from cotenant_deviceplugin.retry import Retry

PAUSE_SECONDS = 1.0
"""Between two watches, so that an API server that ends each at once is not flooded."""


class Reflector:
    """Follows one selection for ever. `what` names it in the log."""

    def __init__(self, what: str, selection: cluster.Selection, store: Store) -> None:
        self._what = what
        self._selection = selection
        self._store = store
        self._version = ""

    async def follow(self, api: cluster.Cluster, retry: Retry) -> None:
        """Go on until cancelled."""
        while True:
            await retry.until_done(self._what, lambda: self._round(api, retry))
            await retry.clock.sleep(PAUSE_SECONDS)

    async def _round(self, api: cluster.Cluster, retry: Retry) -> None:
        """One watch, until the API server ends it. What failed is resumed where it stood."""
        if not self._version:
            listed = await api.list(self._selection)
            self._store.replace(listed.get("items") or ())
            self._version = listed["metadata"]["resourceVersion"]
        try:
            async with aclosing(api.watch(self._selection, resource_version=self._version)) as events:
                async for kind, manifest in events:
                    retry.working(self._what)
                    self._take(kind, manifest)
        except cluster.ExpiredError:
            self._version = ""

    def _take(self, kind: str, manifest: cluster.Object) -> None:
        if kind == cluster.OPENED:
            return
        if kind != cluster.BOOKMARK:
            self._store.apply(kind, manifest)
        self._version = manifest["metadata"]["resourceVersion"]
