"""Objects that are read because no watch may have told of them, as they are now."""

from datetime import datetime

from cotenant_operator.kube import api
from cotenant_operator.life import causes
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.store import Store
from cotenant_operator.state.views import Key


class Reads:
    """Reads single objects into the store."""

    def __init__(self, client: api.API, store: Store) -> None:
        self._api, self._store = client, store

    async def unwatched(self, key: Key) -> None:
        """Read the workloads of a DLJob of which no watch tells."""
        for found in self._store.unwatched(key):
            await self._read(found.kind, found.key, uid=found.uid)

    async def late_pod(self, observed: Observed, *, now: datetime) -> bool:
        """Read a pod that is about to be given up for not starting: it may have started since; whether there is one."""
        current = observed.current_job
        if current is None or current.ended is not None or current.finished:
            return False
        late, _ = causes.not_started(observed, current, now)
        if late is not None:
            await self._read(Kind.POD, late.pod.meta.key, uid=late.pod.meta.uid)
        return late is not None

    async def _read(self, kind: Kind, key: Key, *, uid: str) -> None:
        try:
            self._store.put(kind, await self._api.get(kind, key))
        except api.NotFoundError:
            if uid:
                self._store.remove(kind, uid)
