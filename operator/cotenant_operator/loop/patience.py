"""What has to be done in the end is tried until the API server lets it be done. Decides nothing else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from cotenant_api import errors
from cotenant_operator.kube import api

_LOGGER = logging.getLogger(__name__)

Pause = Callable[[float], Awaitable[None]]


async def persist(
    work: Callable[[], Awaitable[None]], *, what: str, retry_seconds: float, pause: Pause = asyncio.sleep
) -> None:
    """Do it until it goes well; a fault of our own is raised.

    Args:
        work: to be done; it may be begun again.
        what: in words, for the log.
        retry_seconds: between two tries.
        pause: waits so many seconds.
    """
    while True:
        try:
            return await work()
        except (api.APIError, errors.TemporaryError) as error:
            _LOGGER.warning("%s: tried again in %g s: %s", what, retry_seconds, error)
            await pause(retry_seconds)
