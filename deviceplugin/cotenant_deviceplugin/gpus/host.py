"""The processes of the host: which pods live here at all. Needs the host's PID namespace (hostPID)."""

import asyncio
from pathlib import Path

from cotenant_api import errors
from cotenant_api.names import PodUID
from cotenant_deviceplugin.gpus.processes import Processes

DELAY_SECONDS = 1.0


class HostProcesses:
    """See `binding.grants.Processes`.

    Args:
        processes: tells whose a process is.
        proc: where the host's /proc is.
    """

    def __init__(self, processes: Processes, *, proc: Path = Path("/proc")) -> None:
        self._processes, self._proc = processes, proc

    async def alive(self) -> frozenset[PodUID]:
        """Pods of which any process lives, on a GPU or not."""
        return await asyncio.to_thread(self._alive)

    def _alive(self) -> frozenset[PodUID]:
        try:
            pids = [int(entry.name) for entry in self._proc.iterdir() if entry.name.isdigit()]
            return frozenset(self._processes.owned(pids).pods.values())
        except OSError as error:
            raise errors.TemporaryError(f"{self._proc}: {error}", delay_seconds=DELAY_SECONDS) from error
