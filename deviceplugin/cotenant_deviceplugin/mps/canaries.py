"""Runs canaries (`canary`) and says what they prove. Whether one is needed, and what follows, is decided elsewhere.

A canary that is killed while it works may hurt its neighbours, as any client of MPS may: one that does not end is taken
off the GPU by the server first.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.mps import canary, layout

LIBRARY: Final = "libcuda.so.1"
SECONDS: Final = 20
"""For one canary: the first context of a driver without persistence takes several."""
KILL_SECONDS: Final = 5.0
"""How long one that was killed may take to end: in a driver that hangs it never does."""


class Server(Protocol):
    """What a canary that does not end is taken off the GPU by (`backend.Backend`)."""

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        """End one client so that its neighbours live."""


class Canaries:
    """Runs one canary at a time for each GPU.

    Args:
        root: the MPS daemons' folder; see `layout`.
        library: path of `libcuda.so.1`; None: where the dynamic linker finds it.
        seconds: for one canary.
        kill_seconds: for the end of one that was killed.
        environment: of the canaries; None: this process's.
    """

    def __init__(
        self,
        root: Path,
        *,
        library: Path | None = None,
        seconds: int = SECONDS,
        kill_seconds: float = KILL_SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._root, self._library = root, str(library or LIBRARY)
        self._seconds, self._kill_seconds = seconds, kill_seconds
        inherited = os.environ if environment is None else environment
        self._environment = {name: value for name, value in inherited.items() if not name.startswith("CUDA_")}
        self._last: dict[GPUUID, asyncio.subprocess.Process] = {}

    @property
    def pids(self) -> frozenset[int]:
        """Processes of canaries: they use GPUs and are nobody's tenants."""
        return frozenset(process.pid for process in self._last.values() if process.returncode is None)

    def last(self, gpu: GPUUID) -> int | None:
        """Return the process of the last canary of a GPU, also where it has ended."""
        return self._last[gpu].pid if gpu in self._last else None

    async def run(self, gpu: GPUUID, *, server: Server | None) -> str | None:
        """Run one, as a client of the GPU's MPS server, or directly (None). Why it did not pass; None: it did."""
        if gpu in self._last and self._last[gpu].returncode is None:
            return "an earlier canary has not ended, although it was killed: the driver hangs"
        command = (sys.executable, "-IS", canary.__file__, self._library, gpu, str(self._seconds + 1))
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._with_gpu(gpu, shared=server is not None),
            )
        except OSError as error:
            return f"a canary could not be run: {error.strerror}"
        self._last[gpu] = process
        try:
            async with asyncio.timeout(self._seconds):
                output, complaint = await process.communicate()
        except TimeoutError:
            return f"a canary did not end within {self._seconds} s"
        finally:
            await self._end(gpu, process, server)
        said = output.decode(errors="replace"), complaint.decode(errors="replace")
        return fault(process.returncode or 0, *said, shared=server is not None)

    def _with_gpu(self, gpu: GPUUID, *, shared: bool) -> dict[str, str]:
        """Without MPS the pipe is a folder that does not exist, or CUDA would look where it looks by itself."""
        pipe = layout.pipe(self._root, gpu) if shared else self._root / "none"
        return self._environment | {layout.PIPE_DIRECTORY: str(pipe), "CUDA_VISIBLE_DEVICES": gpu}

    async def _end(self, gpu: GPUUID, process: asyncio.subprocess.Process, server: Server | None) -> None:
        if process.returncode is not None:
            return
        if server is not None:
            # A server that cannot be asked serves no neighbour that could be hurt.
            with contextlib.suppress(errors.TemporaryError):
                await server.terminate(gpu, process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._kill_seconds):
                await process.wait()


def fault(exit_code: int, output: str, complaint: str, *, shared: bool) -> str | None:
    """Why a canary did not pass; None: it did. Pure.

    Args:
        exit_code: of the process, as asyncio tells it: below 0 the signal that ended it.
        output: what it printed.
        complaint: what it printed on its standard error.
        shared: whether it was to be a client of MPS. CUDA runs on without MPS where it does not find the daemon
            (manual page nvidia-cuda-mps-control(1)): then it has proved nothing about the server.
    """
    if exit_code < 0:
        return f"a canary was ended by {signal.Signals(-exit_code).name}"
    try:
        told = json.loads(output)
    except ValueError:
        told = None
    match told:
        case {"passed": True, "mps": False} if shared:
            return "a canary ran without MPS: it did not find the daemon"
        case {"passed": True}:
            return None
        case {"step": step, "error": error}:
            return f"a canary failed: {step}: {error}"
        case {"unrunnable": reason}:
            return f"a canary could not be run (--no-canary goes without): {errors.shortened(reason)}"
    said = (complaint or output).strip() or f"exit code {exit_code}"
    return f"a canary could not be run: {errors.shortened(said)}"
