"""Whether the MPS daemons of a node serve, and what is in the way: told to the log, and to kubelet by an open port."""

import asyncio
import contextlib
import logging
from typing import Final

PORT: Final = 9478
"""By default, so that a DaemonSet need not name it to programs of other versions."""
RETRY_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class Readiness:
    """What is in the way, by whose it is: a GPU's, or of all."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._changed = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether nothing is in the way."""
        return not self._reasons

    def tell(self, whose: str, reason: str | None) -> None:
        """Say what is in the way of something, once; None: nothing."""
        if self._reasons.get(whose) == reason:
            return
        if reason is None:
            log.info("%s: no longer: %s", whose, self._reasons.pop(whose))
        else:
            log.warning("%s: %s", whose, reason)
            self._reasons[whose] = reason
        self._changed.set()

    async def listen(self, port: int) -> None:
        """Take connections while nothing is in the way, for ever."""
        while True:
            self._changed.clear()
            if not self.ready:
                await self._changed.wait()
                continue
            try:
                async with await asyncio.start_server(_close, port=port):
                    while self.ready:
                        self._changed.clear()
                        await self._changed.wait()
            except OSError as error:
                log.error("port %d, by which readiness is told: %s", port, error)  # noqa: TRY400  # that says it all
                await asyncio.sleep(RETRY_SECONDS)


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
