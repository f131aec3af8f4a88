"""Tells in the PackingPolicy's status which model predicts, and which one waits beside it.

The candidate is only named: it is used when a person puts it into the active one's place and starts the operator again.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

from cotenant_api import errors, packingpolicy
from cotenant_operator.kube import api
from cotenant_operator.loop import patience
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.views import Key
from cotenant_predictor.models import store

_LOGGER = logging.getLogger(__name__)

LOOK_SECONDS: Final = 300.0
CANDIDATE: Final = "candidate"
"""The folder beside that of `--model` in which retraining leaves what is better."""


class Names:
    """The names of the two models.

    Args:
        client: reads and writes the policy.
        active: reference of the model that was loaded.
        folder: where it was loaded from; None: it ships, and there is no candidate beside it.
    """

    def __init__(self, client: api.API, *, active: str, folder: Path | None) -> None:
        self._client, self._active, self._folder = client, active, folder

    async def run(self, *, pause: patience.Pause = asyncio.sleep) -> None:
        """Tell it now, and every few minutes, for ever."""
        while True:
            what = "telling the PackingPolicy which model predicts"
            await patience.persist(self.tell, what=what, retry_seconds=LOOK_SECONDS, pause=pause)
            await pause(LOOK_SECONDS)

    async def tell(self) -> None:
        """Write the names where they differ. Raises APIError, TemporaryError."""
        key = Key("", packingpolicy.NAME)
        try:
            found = await self._client.get(Kind.POLICY, key)
        except api.NotFoundError:
            return
        wanted: dict[str, Any] = {"active": self._active, "candidate": await asyncio.to_thread(self._candidate)}
        written = (found.get("status") or {}).get("model") or {}
        if {name: written.get(name) for name in wanted} != wanted:
            as_it_was = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
            patch = {"metadata": as_it_was, "status": {"model": wanted}}
            await self._client.merge(Kind.POLICY, key, patch, subresource="status")

    def _candidate(self) -> str | None:
        """Return the candidate's reference; None where there is none, it cannot be read, or it is the active one."""
        if self._folder is None:
            return None
        folder = self._folder if self._folder.is_dir() else self._folder.parent
        file = folder.parent / CANDIDATE / store.FILE
        if not file.exists():
            return None
        try:
            reference = store.load(file).reference
        except errors.InvalidInputError as error:
            _LOGGER.warning("the candidate model cannot be used: %s", error)
            return None
        return None if reference == self._active else reference
