"""The LimitRanges of namespaces in which gangs wait for quotas. What is kept only saves requests."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from cotenant_operator.kube import api
from cotenant_operator.state import defaults
from cotenant_operator.state.defaults import Defaults

_LOGGER = logging.getLogger(__name__)

ASK_SECONDS: Final = 30.0
"""Least time between two questions about the same namespace."""
_KEPT: Final = 1024


class LimitRanges:
    """Reads what the LimitRanges of a namespace put into containers."""

    def __init__(self, client: api.API, *, monotonic: Callable[[], float]) -> None:
        self._api, self._monotonic = client, monotonic
        self._known: OrderedDict[str, tuple[float, Defaults]] = OrderedDict()

    async def of(self, namespace: str) -> Defaults:
        """Return what they put; nothing where they may not be read: the API server counts them all the same."""
        now = self._monotonic()
        asked, known = self._known.get(namespace, (None, defaults.NONE))
        if asked is not None and now < asked + ASK_SECONDS:
            return known
        try:
            known = defaults.read(await self._api.limit_ranges(namespace))
        except api.ForbiddenError as error:
            _LOGGER.warning("LimitRanges of namespace %s: %s: apply manifests/rbac/operator.yaml", namespace, error)
            known = defaults.NONE
        self._known[namespace] = (now, known)
        self._known.move_to_end(namespace)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return known
