"""Keeps a store like the API server: lists, then watches, and lists again when the watch is too old."""

from contextlib import aclosing

from cotenant_deviceplugin.kube import cluster
from cotenant_deviceplugin.kube.stores import Store
from cotenant_deviceplugin.retry import Retry

PAUSE_SECONDS = 1.0
"""Between two watches, so that an API server that ends each at once is not flooded."""
ABSENT_SECONDS = 300.0
"""Until a kind that the API server does not know is asked for again."""


class Reflector:
    """Follows one selection for ever.

    Args:
        what: names it in the log.
        selection: what is followed.
        store: gets it.
        may_be_absent: an API server that does not know the kind has none of it; else that is a failure.
    """

    def __init__(self, what: str, selection: cluster.Selection, store: Store, *, may_be_absent: bool = False) -> None:
        self._what = what
        self._selection = selection
        self._store = store
        self._may_be_absent = may_be_absent
        self._version = ""

    async def follow(self, api: cluster.Cluster, retry: Retry) -> None:
        """Go on until cancelled."""
        while True:
            pause = await retry.until_done(self._what, lambda: self._round(api, retry))
            await retry.clock.sleep(pause)

    async def _round(self, api: cluster.Cluster, retry: Retry) -> float:
        """One watch, until the API server ends it; seconds until the next. What failed is resumed where it stood."""
        if not self._version and not await self._listed(api):
            return ABSENT_SECONDS
        try:
            async with aclosing(api.watch(self._selection, resource_version=self._version)) as events:
                async for kind, manifest in events:
                    retry.working(self._what)
                    self._take(kind, manifest)
        except cluster.ExpiredError:
            self._version = ""
        return PAUSE_SECONDS

    async def _listed(self, api: cluster.Cluster) -> bool:
        """Return whether the API server knows the kind."""
        try:
            listed = await api.list(self._selection)
        except cluster.NotFoundError:
            if not self._may_be_absent:
                raise
            self._store.replace(())
            return False
        self._store.replace(listed.get("items") or ())
        self._version = listed["metadata"]["resourceVersion"]
        return True

    def _take(self, kind: str, manifest: cluster.Object) -> None:
        if kind == cluster.OPENED:
            return
        if kind != cluster.BOOKMARK:
            self._store.apply(kind, manifest)
        self._version = manifest["metadata"]["resourceVersion"]
