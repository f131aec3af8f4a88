"""Why pods of a Job cannot be made: asked for where a decision wants it. What is kept only saves requests.

Events explain, and no decision needs them: where they cannot be read, it is made without.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from cotenant_api import errors
from cotenant_operator.kube import api
from cotenant_operator.state import setbacks
from cotenant_operator.state.setbacks import FailedCreation

_LOGGER = logging.getLogger(__name__)

ASK_SECONDS: Final = 10.0
"""Least time between two questions about the same Job."""
_KEPT: Final = 1024


class Creations:
    """Reads the events that the Job controller writes about a Job."""

    def __init__(self, client: api.API, *, monotonic: Callable[[], float]) -> None:
        self._api, self._monotonic = client, monotonic
        self._known: OrderedDict[str, tuple[float, FailedCreation | None]] = OrderedDict()

    async def of(self, namespace: str, uid: str) -> FailedCreation | None:
        """Return what the events say; None: that pods are missing has another cause, or it has not been told yet."""
        now = self._monotonic()
        asked, known = self._known.get(uid, (None, None))
        if asked is not None and now < asked + ASK_SECONDS:
            return known
        try:
            events = await self._api.events_of(namespace, uid=uid, reason=setbacks.FAILED_CREATE)
            found = setbacks.of_events(events, owner=uid)
        except (api.APIError, errors.TemporaryError) as error:
            _LOGGER.warning("%s: the events of Job %s cannot be read: %s", namespace, uid, error)
            found = known
        self._known[uid] = (now, found)
        self._known.move_to_end(uid)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found
