"""MPS, version 2 of its protocol, behind the backend's interface: one control daemon for each GPU, shared by all users.

Adopts whatever runs: it holds no process and remembers nothing but how far it has read a log. Starts no control daemon;
that is `daemons`, in a process that outlives the agent.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cotenant_api import gpunode, placement
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import Device
from cotenant_deviceplugin.mps import client_pipe, layout, leaving, logs, presence, signals
from cotenant_deviceplugin.mps.backend import Edits, Enforcement, Properties, Server
from cotenant_deviceplugin.mps.control import (
    ANSWER_SECONDS,
    INITIALIZING,
    RETRY_SECONDS,
    Answers,
    Control,
    NoAnswerError,
    NoDaemonError,
    NoProgramError,
    RefusedError,
)

MIN_COMPUTE_CAPABILITY: Final = (7, 0)
"""Older GPUs know no limits of threads: https://docs.nvidia.com/deploy/mps/latest/when-to-use-mps.html (Volta MPS)."""
CONTAINER_PIPE: Final = "/run/cotenant/mps"
"""Where a container finds the pipe of its GPU's daemon."""
SERVER: Final = "nvidia-cuda-mps-server"
END_SECONDS: Final = 3.0
"""How long a server that does not serve may take to end by itself before it is killed."""
_LOOK_SECONDS: Final = 0.05
_COMM_LENGTH: Final = 15
_MANY_CLIENTS_SINCE: Final = (13, 1)
_DOCS: Final = "https://docs.nvidia.com/deploy/mps/latest"
_STATES: Final = MappingProxyType(
    {"ACTIVE": gpunode.MPS.ACTIVE, INITIALIZING: gpunode.MPS.STARTING, "FAULT": gpunode.MPS.FAULT}
)


def properties(cuda_version: str) -> Properties:
    """Return what MPS v2 does under a driver of this CUDA version (`"13.0"`)."""
    major, _, minor = cuda_version.partition(".")
    many = (int(major), int(minor or 0)) >= _MANY_CLIENTS_SINCE
    return Properties(
        name=placement.Backend.MPS,
        separate_contexts=True,
        concurrent=True,
        prioritization=Enforcement.COOPERATIVE,
        preemption=False,
        threads=Enforcement.COOPERATIVE,
        memory=Enforcement.COOPERATIVE,
        users=False,
        fault_containment=False,
        max_clients=60 if many else 48,
        sources={
            "separate_contexts": f"{_DOCS}/when-to-use-mps.html (Volta MPS: isolated address spaces)",
            "concurrent": f"{_DOCS}/when-to-use-mps.html",
            "prioritization": f"{_DOCS}/mpsv2-interface.html (CUDA_MPS_CLIENT_PRIORITY)",
            "threads": f"{_DOCS}/mpsv2-interface.html (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: a client can only lower it)",
            "memory": f"{_DOCS}/mpsv2-interface.html (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: a client can only lower it)",
            "users": f"{_DOCS}/mpsv2-interface.html (-multiuser-server)",
            "fault_containment": f"{_DOCS}/when-to-use-mps.html (memory protection and error containment)",
            "max_clients": f"{_DOCS}/when-to-use-mps.html (48; 60 since CUDA 13.1)",
        },
    )


def limits_threads(device: Device) -> bool:
    """Return whether a limit of threads holds on a GPU at all."""
    major, _, minor = device.compute_capability.partition(".")
    return (int(major), int(minor)) >= MIN_COMPUTE_CAPABILITY


def unlimited(device: Device) -> str:
    """Why a GPU on which no limit of threads holds gives no shares."""
    return f"MPS limits no threads on compute capability {device.compute_capability}"


class MPSv2:
    """See `backend.Backend`.

    Args:
        root: the daemons' folder; see `layout`.
        cuda_version: of the driver, as it tells it.
        program: NVIDIA's control program, with whatever stands before it.
        alive: whether a PID of the host lives.
        timeout_seconds: for one question.
    """

    def __init__(
        self,
        root: Path,
        *,
        cuda_version: str,
        program: Sequence[str] = layout.PROGRAM,
        alive: Callable[[int], bool] | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._root, self._program, self._timeout_seconds = root, program, timeout_seconds
        self._properties = properties(cuda_version)
        self._alive = signals.process_lives if alive is None else alive
        self._tails: dict[GPUUID, logs.Tail] = {}
        self._last: dict[GPUUID, int | None] = {}
        self._served: dict[GPUUID, int] = {}

    @property
    def properties(self) -> Properties:
        """What it enforces, and how."""
        return self._properties

    def stirred(self, gpu: GPUUID) -> bool:
        """Return whether something has happened to the GPU's server since `observe`: its log grew, or it is gone.

        Costs a few system calls and no process, so it can be asked every second.
        """
        last = self._last.get(gpu)
        return gpu not in self._last or self._tail(gpu).grown() or (last is not None and not self._alive(last))

    async def observe(self, gpu: GPUUID) -> Server:
        """Return what the GPU's daemon says now, and its log since the last time.

        Raises nothing for what does not answer.
        """
        tail = self._tail(gpu)
        try:
            seen = await self._ask(gpu)
            await asyncio.to_thread(client_pipe.offer, self._root, gpu)
        except (NoAnswerError, NoProgramError) as error:
            seen = Server(state=gpunode.MPS.STARTING, pid=self._survivor(gpu), reason=str(error))
        except NoDaemonError as error:
            seen = Server(state=gpunode.MPS.STOPPED, pid=self._survivor(gpu), reason=str(error))
        daemon = await asyncio.to_thread(presence.found, layout.pipe(self._root, gpu))
        told = await asyncio.to_thread(tail.read)
        last = self._last.get(gpu)
        gone = last is not None and last != seen.pid
        ended = await asyncio.to_thread(leaving.read, self._root, gpu) if gone else frozenset[int]()
        self._last[gpu] = seen.pid
        return Server(
            state=seen.state,
            pid=seen.pid,
            clients=seen.clients,
            reason=seen.reason,
            faults=told,
            initializes=seen.initializes,
            ended=ended,
            outdated=seen.outdated,
            daemon=daemon,
        )

    async def answers(self, gpu: GPUUID) -> bool:
        """Return whether the GPU has a control daemon; one that hangs is there.

        Raises NoProgramError: then nobody knows.
        """
        return await self._control(gpu).answers()

    async def start(self, gpu: GPUUID) -> None:
        """Start the GPU's server where there is none; it initializes when this returns."""
        control = self._control(gpu)
        if not await control.servers():
            await control.start_server()

    async def stop(self, gpu: GPUUID) -> None:
        """End the GPU's servers. One that has got a client meanwhile ends with it, unless it is at fault.

        One that does not serve and does not end, as while it initializes for ever, is killed.
        """
        control = self._control(gpu)
        for server in await control.servers():
            serves = await self._status(gpu, server) == "ACTIVE"
            await control.shutdown_server(server, with_clients=not serves)
            if serves:
                # The next one cannot start before, and who uses the GPU in between has it alone.
                await _gone(control, server)
            else:
                await self._end(control, server)

    async def _end(self, control: Control, server: int) -> None:
        """See to it that a server ends, and that its daemon knows."""
        if not await _gone(control, server) and self._alive(server):
            kill(server)
            await _gone(control, server)

    async def terminate(self, gpu: GPUUID, pid: int) -> None:
        """End one client so that its neighbours live; a PID that is no client is left alone."""
        control = self._control(gpu)
        for server in await control.servers():
            if pid in await control.clients(server):
                await control.terminate_client(server, pid)

    def edits(self, gpu: GPUUID, booking: placement.GPUBooking, *, processes: int) -> Edits:
        """Pipe, limits and priority of one process of the pod; a limit is at least 1, as 0 might mean none."""
        environment = {
            layout.PIPE_DIRECTORY: CONTAINER_PIPE,
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, booking.active_thread_percentage // processes)),
            # Its daemon knows one GPU, so that clients see it as device 0 whatever its index on the host.
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={max(1, booking.memory_mib // processes)}M",
            "CUDA_MPS_CLIENT_PRIORITY": str(booking.client_priority),
            "NVIDIA_VISIBLE_DEVICES": "void",
        }
        mount = {
            "hostPath": str(layout.client_pipe(self._root, gpu)),
            "containerPath": CONTAINER_PIPE,
            # Connecting to a socket and writing to a FIFO are no writes to the file system.
            "options": ["rbind", "ro", "nosuid", "nodev", "noexec"],
        }
        return Edits(environment=environment, mounts=(mount,))

    async def _ask(self, gpu: GPUUID) -> Server:
        """All in one question where a server is known to serve; else first whether it can be asked all."""
        served = self._served.get(gpu)
        answers = None if served is None else await self._described(gpu, served)
        if answers is None or answers.servers != (served,):
            self._served.pop(gpu, None)
            servers = await self._control(gpu).servers()
            if len(servers) != 1:
                return self._without_one(gpu, servers)
            if await self._status(gpu, servers[0]) == INITIALIZING and self._alive(servers[0]):
                return _initializing(servers[0])
            answers = await self._described(gpu, servers[0])
            if answers is None or answers.servers != servers:
                reason = f"server {servers[0]} is being replaced"
                return Server(state=gpunode.MPS.STARTING, pid=self._survivor(gpu), reason=reason)
        self._served[gpu] = answers.servers[0]
        return self._judge(answers)

    def _judge(self, answers: Answers) -> Server:
        pid = answers.servers[0]
        state, reason = _STATES.get(answers.status, gpunode.MPS.STARTING), None
        own = answers.thread_percentage
        threads = answers.default_percentage if own is None else min(own, answers.default_percentage)
        if not self._alive(pid):
            state, reason = gpunode.MPS.FAULT, f"server {pid} is listed and its process is gone"
        elif state is not gpunode.MPS.ACTIVE:
            reason = f"server {pid} says {answers.status}"
        elif threads < 100:
            state = gpunode.MPS.STARTING
            reason = f"server {pid} gives its clients {threads:g} % of the threads at most"
        outdated = own is not None and threads < 100
        return Server(state=state, pid=pid, clients=answers.clients, reason=reason, outdated=outdated)

    def _without_one(self, gpu: GPUUID, servers: Sequence[int]) -> Server:
        if servers:
            reason = f"several servers: {', '.join(map(str, servers))}; one replaces another"
            return Server(state=gpunode.MPS.STARTING, pid=self._survivor(gpu), reason=reason)
        left = self._survivor(gpu)
        if left is not None:
            reason = f"server {left} has outlived its control daemon, and the present one does not know it"
            return Server(state=gpunode.MPS.STARTING, pid=left, reason=reason)
        return Server(state=gpunode.MPS.STOPPED, reason="the control daemon has no server")

    def _survivor(self, gpu: GPUUID) -> int | None:
        """Return the server known last, where it lives on without a daemon that would answer for it.

        That a server has ended under its clients is a fault, and no answer that fails may look like it.
        """
        last = self._last.get(gpu)
        return last if last is not None and self._alive(last) else None

    async def _described(self, gpu: GPUUID, server: int) -> Answers | None:
        """Return what is said of one server; None: it is not known any more, or nobody understands what is said."""
        try:
            return await self._control(gpu).describe(server)
        except NoAnswerError:
            return None

    async def _status(self, gpu: GPUUID, server: int) -> str | None:
        """In the daemon's word; None, as above."""
        try:
            return await self._control(gpu).status(server)
        except NoAnswerError:
            return None

    def _control(self, gpu: GPUUID) -> Control:
        return Control(layout.pipe(self._root, gpu), program=self._program, timeout_seconds=self._timeout_seconds)

    def _tail(self, gpu: GPUUID) -> logs.Tail:
        if gpu not in self._tails:
            self._tails[gpu] = logs.Tail(layout.log(self._root, gpu))
        return self._tails[gpu]


async def _gone(control: Control, server: int) -> bool:
    """Return whether a server's daemon does not know it any more, after a while at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while server in await control.servers():  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(_LOOK_SECONDS)
            return True
    return False


def kill(server: int) -> None:
    """Kill a server that does not end; no process of another name. Raises RefusedError."""
    try:
        handle = os.pidfd_open(server)
    except ProcessLookupError:
        return
    try:
        if Path(f"/proc/{server}/comm").read_bytes().strip() == SERVER[:_COMM_LENGTH].encode():
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return
    except PermissionError as error:
        message = f"MPS server {server} does not end, and may not be killed: {error.strerror}"
        raise RefusedError(message, delay_seconds=RETRY_SECONDS) from error
    finally:
        os.close(handle)


def _initializing(server: int) -> Server:
    reason = f"server {server} says {INITIALIZING}"
    return Server(state=gpunode.MPS.STARTING, pid=server, reason=reason, initializes=True)
