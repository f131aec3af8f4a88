"""The stand-in's kernel driver: who has a context on a GPU, and how much memory. No MPS here: its server is a process.

A CUDA context is a connection to `driver.sock` in the stand-in's folder, and ends with it; whose it is, SO_PEERCRED
tells, so processes in containers have the PIDs that the host counts. Requests and answers are lines:

    open UUID MIB         a context of the caller           ok | busy | oom | lost | none
    memory MIB            the caller's context holds that   ok | oom
    client UUID PID MIB   an MPS client holds that          ok | oom
    gone UUID PID         an MPS client holds nothing       ok
    xid UUID NUMBER       the GPU reports an event          ok
"""

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cotenant_standin import listening, state

SOCKET = "driver.sock"
READY = "stand-in GPU driver: ready"
_CREDENTIALS = struct.Struct("3i")


@dataclass
class Caller:
    """One connection: its process, and what it holds on which GPU."""

    pid: int
    uid: int
    gpu: str | None = None
    memory_mib: int = 0
    clients: dict[tuple[str, int], int] = field(default_factory=dict)
    """MiB by GPU and PID of MPS clients that this connection speaks for."""


class Driver:
    """All contexts of all GPUs of a folder."""

    def __init__(self, machine: state.State) -> None:
        self._machine = machine
        self._callers: list[Caller] = []

    async def serve(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; contexts of an earlier life are gone."""
        self._recount()
        listener = listening.Listener(self._machine.root / SOCKET, self._handle)
        await listener.start()
        print(READY, flush=True)
        await stop.wait()
        await listener.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = Caller(*peer(writer))
        self._callers.append(caller)
        try:
            while line := await reader.readline():
                writer.write(self.answer(caller, line.decode().split()).encode() + b"\n")
                await writer.drain()
        finally:
            self._callers.remove(caller)
            self._recount()

    def answer(self, caller: Caller, words: list[str]) -> str:
        """Return what is said to one line."""
        match words:
            case ["open", gpu, mib]:
                return self._open(caller, gpu, int(mib))
            case ["memory", mib] if caller.gpu is not None:
                return self._hold(caller, caller.gpu, int(mib))
            case ["client", gpu, pid, mib]:
                return self._client(caller, (gpu, int(pid)), int(mib))
            case ["gone", gpu, pid]:
                caller.clients.pop((gpu, int(pid)), None)
                self._recount()
                return "ok"
            case ["xid", gpu, number]:
                self._machine.raise_xid(self._machine.by_uuid(gpu).index, int(number))
                return "ok"
        return "unknown"

    def _open(self, caller: Caller, gpu: str, mib: int) -> str:
        """`nvmlComputeMode_t`: EXCLUSIVE_PROCESS allows the contexts of one process, PROHIBITED none.

        https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html; the error is
        cudaErrorDevicesUnavailable, "all CUDA-capable devices are busy or unavailable".
        """
        try:
            found = self._machine.by_uuid(gpu)
        except KeyError:
            return "none"
        if not self._machine.loaded:
            return "none"
        if found.lost:
            return "lost"
        mode = found.compute_mode
        others = {each.pid for each in self._callers if each.gpu == gpu} - {caller.pid}
        if mode == state.ComputeMode.PROHIBITED or (mode == state.ComputeMode.EXCLUSIVE_PROCESS and others):
            return "busy"
        return self._hold(caller, gpu, mib)

    def _hold(self, caller: Caller, gpu: str, mib: int) -> str:
        if self._used(gpu) - (caller.memory_mib if caller.gpu == gpu else 0) + mib > self._memory(gpu):
            return "oom"
        caller.gpu, caller.memory_mib = gpu, mib
        self._recount()
        return "ok"

    def _client(self, caller: Caller, key: tuple[str, int], mib: int) -> str:
        if self._used(key[0]) - caller.clients.get(key, 0) + mib > self._memory(key[0]):
            return "oom"
        caller.clients[key] = mib
        self._recount()
        return "ok"

    def _memory(self, gpu: str) -> int:
        return self._machine.by_uuid(gpu).memory_mib

    def _used(self, gpu: str) -> int:
        own = sum(each.memory_mib for each in self._callers if each.gpu == gpu)
        return own + sum(mib for each in self._callers for (at, _), mib in each.clients.items() if at == gpu)

    def _recount(self) -> None:
        """Have the folder say what the connections hold."""
        for gpu in self._machine.gpus():
            own: dict[int, int] = {}
            shared: dict[int, int] = {}
            for caller in self._callers:
                if caller.gpu == gpu.uuid:
                    own[caller.pid] = own.get(caller.pid, 0) + caller.memory_mib
                for (at, pid), mib in caller.clients.items():
                    if at == gpu.uuid:
                        shared[pid] = mib
            # The list of compute processes holds clients beside their server, as an H200's under driver 580 does.
            _write(gpu, {**shared, **own}, gpu.processes(), mps=False)
            _write(gpu, shared, gpu.mps_processes(), mps=True)


def peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """PID and UID of the process at the other end, as this process's namespaces count: unix(7), SO_PEERCRED."""
    connection = writer.get_extra_info("socket")
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(data)
    return pid, uid


def _write(gpu: state.GPU, wanted: dict[int, int], present: dict[int, int], *, mps: bool) -> None:
    for pid in present.keys() - wanted.keys():
        gpu.remove_process(pid, mps=mps)
    for pid, mib in wanted.items():
        if present.get(pid) != mib:
            gpu.add_process(pid, mib, mps=mps)


async def _main(folder: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Driver(state.State(folder)).serve(stop)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        os.umask(0o022)
        asyncio.run(_main(Path(sys.argv[1]) if len(sys.argv) > 1 else state.folder()))
