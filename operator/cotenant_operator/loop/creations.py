"""Why pods of a workload cannot be made: asked for where a decision wants it. What is kept only saves requests.

Answers explain, and no decision needs them: where they cannot be read, it is made without.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from cotenant_api import errors, names
from cotenant_operator.kube import api
from cotenant_operator.state import reading, setbacks, views
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.setbacks import FailedCreation
from cotenant_operator.state.views import Key

_LOGGER = logging.getLogger(__name__)

ASK_SECONDS: Final = 10.0
"""Least time between two questions about the same workload."""
_KEPT: Final = 1024
MOST_SETS: Final = 100
"""ReplicaSets of one DLJob that are looked at; its Deployment keeps 11."""


class Creations:
    """Reads what the controllers of Jobs and ReplicaSets say of the pods that they cannot make."""

    def __init__(self, client: api.API, *, monotonic: Callable[[], float]) -> None:
        self._api, self._monotonic = client, monotonic
        self._known: OrderedDict[str, tuple[float, int, FailedCreation | None]] = OrderedDict()
        # One at a time: many large objects side by side would not fit into memory.
        self._large = asyncio.Lock()

    async def of_job(self, namespace: str, uid: str) -> FailedCreation | None:
        """Return what the events say; None: that pods are missing has another cause, or it has not been told yet."""
        return await self._once(uid, 0, lambda: self._of_events(namespace, uid, owner=uid))

    async def of_deployment(self, current: views.Deployment, *, dljob_uid: str) -> FailedCreation | None:
        """Return why no pods of its present template can be made; None: they can, or it has not been told yet.

        Args:
            current: the Deployment.
            dljob_uid: UID of the DLJob for which it was made.
        """
        meta = current.meta
        return await self._once(meta.uid, meta.generation, lambda: self._of_deployment(current, dljob_uid))

    async def _of_deployment(self, current: views.Deployment, dljob_uid: str) -> FailedCreation | None:
        owner, namespace = current.meta.uid, current.meta.key.namespace
        async with self._large:
            said = await self._of_replica_set(current, selector=f"{names.DLJOB_UID_LABEL}={dljob_uid}")
        if said is None:
            return None
        replica_set, refused = said
        try:
            told = await self._of_events(namespace, replica_set, owner=owner)
        except (api.APIError, errors.TemporaryError) as error:
            _LOGGER.warning("%s: the events of ReplicaSet %s cannot be read: %s", namespace, replica_set, error)
            told = None
        return setbacks.told_anew(refused, told)

    async def _of_replica_set(self, current: views.Deployment, *, selector: str) -> tuple[str, FailedCreation] | None:
        """Return the UID of the present template's ReplicaSet, and what it says; None: there is none yet, or nothing.

        Anybody may make ReplicaSets with these labels, of any size and number.
        """
        namespace, found = current.meta.key.namespace, list[api.Json]()
        pages = self._api.pages(Kind.REPLICA_SET, metadata_only=True, namespace=namespace, selector=selector)
        async for page in pages:
            found.extend(page)
            if len(found) > MOST_SETS:
                _LOGGER.warning("%s: more than %d ReplicaSets have the label %s", namespace, MOST_SETS, selector)
                return None
        newest = setbacks.newest_set(found, owner=current.meta.uid)
        if newest is None:
            return None
        try:
            present = await self._api.one(Kind.REPLICA_SET, Key(namespace, newest["metadata"]["name"]))
        except api.NotFoundError:
            return None
        if reading.revision(present["spec"]["template"]) != current.revision:
            # The Deployment controller has yet to make one of the present template.
            return None
        said = setbacks.of_replica_set(present, owner=current.meta.uid)
        return None if said is None else (present["metadata"]["uid"], said)

    async def _of_events(self, namespace: str, uid: str, *, owner: str) -> FailedCreation | None:
        events = await self._api.events_of(namespace, uid=uid, reason=setbacks.FAILED_CREATE)
        return setbacks.of_events(events, owner=owner)

    async def _once(
        self, uid: str, generation: int, ask: Callable[[], Awaitable[FailedCreation | None]]
    ) -> FailedCreation | None:
        now = self._monotonic()
        asked, of, known = self._known.get(uid, (None, generation, None))
        if of != generation:
            asked, known = None, None
        if asked is not None and now < asked + ASK_SECONDS:
            return known
        try:
            found = await ask()
        except (api.APIError, errors.TemporaryError) as error:
            _LOGGER.warning("why pods of workload %s are missing cannot be read: %s", uid, error)
            found = known
        self._known[uid] = (now, generation, found)
        self._known.move_to_end(uid)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found
