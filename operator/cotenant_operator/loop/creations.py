"""Why pods of a workload cannot be made: asked for where a decision wants it. What is kept only saves requests.

Answers explain, and no decision needs them: where they cannot be read, it is made without.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from cotenant_api import errors, names
from cotenant_operator.kube import api
from cotenant_operator.state import setbacks, views
from cotenant_operator.state.setbacks import FailedCreation

_LOGGER = logging.getLogger(__name__)

ASK_SECONDS: Final = 10.0
"""Least time between two questions about the same workload."""
_KEPT: Final = 1024


class Creations:
    """Reads what the controllers of Jobs and ReplicaSets say of the pods that they cannot make."""

    def __init__(self, client: api.API, *, monotonic: Callable[[], float]) -> None:
        self._api, self._monotonic = client, monotonic
        self._known: OrderedDict[str, tuple[float, FailedCreation | None]] = OrderedDict()

    async def of_job(self, namespace: str, uid: str) -> FailedCreation | None:
        """Return what the events say; None: that pods are missing has another cause, or it has not been told yet."""
        return await self._once(uid, lambda: self._of_job(namespace, uid))

    async def of_deployment(self, current: views.Deployment, *, dljob_uid: str) -> FailedCreation | None:
        """Return why no pods of its present template can be made; None: they can, or it has not been told yet.

        Args:
            current: the Deployment.
            dljob_uid: UID of the DLJob for which it was made.
        """
        return await self._once(
            f"{current.meta.uid}/{current.meta.generation}", lambda: self._of_deployment(current.meta, dljob_uid)
        )

    async def _of_job(self, namespace: str, uid: str) -> FailedCreation | None:
        events = await self._api.events_of(namespace, uid=uid, reason=setbacks.FAILED_CREATE)
        return setbacks.of_events(events, owner=uid)

    async def _of_deployment(self, meta: views.Meta, dljob_uid: str) -> FailedCreation | None:
        namespace, selector = meta.key.namespace, f"{names.DLJOB_UID_LABEL}={dljob_uid}"
        found = await self._api.replica_sets(namespace, selector=selector)
        present = setbacks.present_set(found, owner=meta.uid)
        if present is None or setbacks.refusal(present) is None:
            return None
        uid = present["metadata"]["uid"]
        events = await self._api.events_of(namespace, uid=uid, reason=setbacks.FAILED_CREATE)
        return setbacks.of_replica_set(present, events, owner=meta.uid)

    async def _once(self, key: str, ask: Callable[[], Awaitable[FailedCreation | None]]) -> FailedCreation | None:
        now = self._monotonic()
        asked, known = self._known.get(key, (None, None))
        if asked is not None and now < asked + ASK_SECONDS:
            return known
        try:
            found = await ask()
        except (api.APIError, errors.TemporaryError) as error:
            _LOGGER.warning("why pods of workload %s are missing cannot be read: %s", key, error)
            found = known
        self._known[key] = (now, found)
        self._known.move_to_end(key)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found
