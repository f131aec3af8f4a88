"""The stand-in's MPS control daemon of one GPU: servers, clients, users, faults. Every state cites its documentation.

It is that of the driver whose version the stand-in's folder names. What it answers and says without an ACTIVE server is
what NVIDIA's program of that driver does (`tests/mps_kit`); lines of a server are in the words of NVIDIA's libcuda.
Of an ACTIVE server and its clients it does what an H200 under driver 580 did (`e2e/gpu/results`), for every driver.

Named below: `interface` https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html, `usage`
https://docs.nvidia.com/deploy/mps/latest/when-to-use-mps.html, `troubleshooting`
https://docs.nvidia.com/deploy/mps/latest/troubleshooting.html, `manual` nvidia-cuda-mps-control(1). What none of them
says is marked as modelled. Not modelled: several GPUs, static partitions, a client with several contexts.

Faults for tests, files in the stand-in's folder: `mps_initializing` (a server stays INITIALIZING while it exists),
`mps_server_fails` (a server ends at once), `mps_hangs` (commands get no answer).
COTENANT_STANDIN_KILLED_BUSY=nothing: see `Daemon.leave`.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from cotenant_standin import driver, listening, mps_commands, mps_control, mps_limits, mps_log, state, waiting
from cotenant_standin.mps_parties import Client, Server

_SERVER = str(Path(__file__).with_name("mps_server.py"))
_MANY_CLIENTS_SINCE = 13010
_MEMFD_SINCE, _VERSION_TOLD_SINCE, _CONTEXTS_SINCE = 570, 570, 580
"""Drivers since which clients' memory has no name, the daemon tells its version, and lines name contexts."""
MMU_FAULT, KILLED = 31, 45
"""XIDs: GPU memory page fault; preemptive cleanup, as of a process that was killed."""


class Daemon:
    """The control daemon."""

    def __init__(self, machine: state.State, *, gpu: str, multiuser: bool, recorder: mps_log.Recorder) -> None:
        self.machine, self.gpu, self.multiuser = machine, gpu, multiuser
        self.driver = mps_control.driver()
        self.server: Server | None = None
        environment = os.environ.get
        self.default = mps_limits.asked(
            environment("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", ""),
            environment("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", ""),
            "",
            gpu=gpu,
        )
        self.default_memory: dict[int, int | None] = {0: self.default.memory_mib}
        """In MiB, by device."""
        self.waits_for_clients = False
        """Since a server was ended while it initialized: the next one is asked for its clients, and waited for."""
        self.quitting = asyncio.Event()
        self.stopped = asyncio.Event()
        self.changed = asyncio.Condition()
        self._recorder = recorder
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def max_clients(self) -> int:
        """`usage`: 48 clients for each GPU since Volta, 60 since CUDA 13.1."""
        version = int((self.machine.root / "cuda_version").read_text())
        return 60 if version >= _MANY_CLIENTS_SINCE else 48

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a connection: of the front end, or of a client for as long as it lives."""
        line = (await reader.readline()).decode()
        if line:
            self.say("Accepting connection...")
        if line.startswith("client "):
            await self._serve(reader, writer, line.split()[1:])
        elif line:
            await self._converse(reader, writer)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.say("NEW UI")
        while (line := (await reader.readline()).decode()).startswith("command "):
            command = (await reader.readexactly(int(line.removeprefix("command ")))).decode(errors="replace")
            await self._while_there("mps_hangs")
            answer = await mps_commands.run(self, command.removesuffix("\n"))
            writer.write(f"{answer}{mps_control.END_OF_ANSWER}\n".encode())
            await writer.drain()
            if self.stopped.is_set():
                return
        self.say("UI closed")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: list[str]) -> None:
        pid, uid = driver.peer(writer)
        client = Client(pid, uid, writer, mps_limits.asked(*words, gpu=self.gpu))
        answer = await self._admit(client)
        client.tell(answer)
        server = self.server
        if server is None or client not in server.clients:
            await writer.drain()
            return
        clean = False
        try:
            while line := (await reader.readline()).decode().split():
                clean = line == ["bye"]
                await self._request(server, client, line)
        finally:
            await self.leave(server, client, clean=clean)

    async def _request(self, server: Server, client: Client, words: list[str]) -> None:
        match words:
            case ["memory", mib]:
                client.tell(await self._memory(server, client, int(mib)))
            case ["busy" | "idle" as what]:
                client.busy = what == "busy"
            case ["fault"]:
                await self.fault(server, client, MMU_FAULT)

    async def _memory(self, server: Server, client: Client, mib: int) -> str:
        """`interface`, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: an allocation beyond the limit fails as out of memory."""
        limit = client.granted.memory_mib
        if limit is not None and mib > limit:
            return "oom"
        return await self.ask(server, f"client {self.gpu} {client.pid} {mib}")

    async def _admit(self, client: Client) -> str:
        """Give a client a server, or the word that refuses it.

        `manual`: the first client has a server started with its user ID; a client of another user waits until all
        clients of the running server have ended, which is then shut down and another one started. `interface`,
        -multiuser-server: clients of all users are taken as clients of the root user. `troubleshooting`: while a server
        is at fault, new clients get CUDA_ERROR_MPS_SERVER_NOT_READY. cudaErrorMpsMaxClientsReached: too many.
        """
        user = 0 if self.multiuser else client.uid
        new = f"NEW CLIENT {client.pid} from user {client.uid}"
        started = False
        async with self.changed:
            while True:
                server = self.server
                if self.quitting.is_set() or (server is not None and server.status == "FAULT"):
                    return "not-ready"
                if server is None:
                    if started:
                        return "failed"
                    self.say(f"{new}: Server is not ready, push client to pending list")
                    await self.start(user)
                    started = True
                elif server.busy:
                    await self.changed.wait()
                elif server.user != user or server.closing:
                    if server.clients:
                        self.say(f"{new}: Server is not ready, push client to pending list")
                        await self.changed.wait()
                    else:
                        await self.end(server)
                elif len(server.clients) >= self.max_clients:
                    return "max-clients"
                else:
                    self.say(f"{new}: Server already exists")
                    return self._connect(server, client)

    def _connect(self, server: Server, client: Client) -> str:
        client.granted = server.limits.lowered(client.asked)
        server.connected += 1
        client.number = server.connected
        server.clients.append(client)
        self.server_says(server, *self._words(client, "Received new client request", "connected"))
        granted = client.granted
        memory = "-" if granted.memory_mib is None else granted.memory_mib
        return f"ok {server.pid} {self.gpu} {granted.thread_percentage:g} {memory} {granted.priority}"

    def _words(self, client: Client, older: str, newer: str) -> tuple[str, ...]:
        """Return what a server says of a client: from 580 on with its PID."""
        if self.driver < _CONTEXTS_SINCE:
            return (older,)
        return (f"Client {{PID: {client.pid}, Context ID: 1}} {newer}",)

    async def start(self, user: int) -> None:
        """Start a server with the defaults of now, unless there is one; it initializes when this returns.

        `troubleshooting`: it is initializing while it does what cuInit and cuCtxCreate do. In EXCLUSIVE_PROCESS that
        fails beside another process. `interface`, set_default_*: later changes of defaults do not reach it.
        """
        if self.server is not None:
            return
        fails = (self.machine.root / "mps_server_fails").exists()
        command = [_SERVER, str(self.machine.root / driver.SOCKET), self.gpu, str(user)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-IS", *(("-c", "raise SystemExit(1)") if fails else command)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.server = server = Server(process, user, self.default)
        self.say(f"Starting new server {server.pid} for user {user}", pid=server.pid)
        task = asyncio.create_task(self._initialize(server))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _initialize(self, server: Server) -> None:
        ready = await self._answer(server) == "ok"
        if not ready:
            await server.process.wait()  # it ends by itself, with a status of its own
        async with self.changed:
            if self.server is not server:
                return
            if not ready:
                await self.end(server)
            else:
                server.ready.set()
                if not server.closing:
                    server.status = "ACTIVE"
                self.say(f"NEW SERVER {server.pid}: Ready")
                self._watch(server)
            self.changed.notify_all()
        await self.settle()

    async def fault(self, server: Server, culprit: Client, xid: int) -> None:
        """Have a fatal fault of one client reach all clients of the GPU; the server takes no new ones.

        `usage`, memory protection and error containment: it is reported to all clients that share the GPU, without
        saying which of them caused it; new clients are refused until all of these have ended. As run: the line names
        the first client that there is, whoever caused it, or one that lives where a killed one did. The XID: modelled.
        """
        if server.status != "ACTIVE":
            return
        server.status = "FAULT"
        server.affected = list(server.clients)
        pid = next((client.pid for client in server.clients if not client.terminated), culprit.pid)
        named = f"{{PID: {pid}, Context: 1}}" if self.driver >= _CONTEXTS_SINCE else f"process {pid}"
        self.server_says(
            server, f"Client {named} encountered a fatal GPU error.", "Server is handling a fatal GPU error."
        )
        await self.ask(server, f"xid {self.gpu} {xid}")
        # Last, for a client that is told ends: its end is heard once this has returned.
        for client in server.affected:
            client.tell("fault")

    async def leave(self, server: Server, client: Client, *, clean: bool) -> None:
        """Take out a client that is gone.

        `usage`, client early termination: killing a client that is not idle by a signal leaves the others in an
        undefined state. As run: seldom a fatal fault for them. Here always, unless the environment says `nothing`.
        `usage`, error containment: when the last client of a fault has ended, the server serves again.
        """
        await self._drop(server, client)
        self.server_says(server, f"Client process {client.pid} disconnected")
        undefined = os.environ.get("COTENANT_STANDIN_KILLED_BUSY", "fault")
        if client.busy and not clean and server.clients and undefined == "fault":
            await self.fault(server, client, KILLED)
        await self.settle()

    async def terminate(self, server: Server, client: Client) -> None:
        """`interface`, terminate_client: ends the client's work on the GPU, and no other client notices.

        The process lives on and gets CUDA_ERROR_MPS_CLIENT_TERMINATED (cudaErrorMpsClientTerminated). As run: until it
        ends it stays in the list of clients. Modelled: and keeps its memory.
        """
        client.tell("terminated")
        client.busy, client.terminated = False, True
        self.server_says(server, *self._words(client, "Client termination succeeded.", "terminated"))
        await self.settle()

    async def _drop(self, server: Server, client: Client) -> None:
        if client in server.affected:
            server.affected.remove(client)
            if server.status == "FAULT" and not server.affected:
                server.status = "ACTIVE"
                model = self.machine.by_uuid(self.gpu).read("name")
                self.server_says(server, f"Destroy server context on device 0 ({model})")
        if client in server.clients:
            server.clients.remove(client)
            # Last, for who sees in the driver's list that a client is gone may be the next one.
            if server is self.server:
                await self.ask(server, f"gone {self.gpu} {client.pid}")

    async def settle(self) -> None:
        """Whoever waits looks again; a server that is to close ends with its last client."""
        async with self.changed:
            server = self.server
            if server is not None and server.closing and not server.busy and not server.clients:
                await self.end(server)
            self.changed.notify_all()

    async def end(self, server: Server) -> None:
        """End the server process; what clients are left lose their connection."""
        self.server = None
        self.waits_for_clients |= server.busy
        server.ready.set()
        if server.process.returncode is None:
            server.process.kill()
        status = await server.process.wait()
        self.say(f"Server {server.pid} exited with status {max(0, status)}")
        if self.driver < _MEMFD_SINCE:
            self.say("Removed Shm file at ")
        for client in server.clients:
            client.writer.close()
        server.clients.clear()

    async def ask(self, server: Server, request: str) -> str:
        """Return the driver's answer to what the server asks it; `none` when the server is gone."""
        async with server.asking:
            if server.process.stdin is None or server.process.returncode is not None:
                return "none"
            try:
                server.process.stdin.write(f"{request}\n".encode())
                await server.process.stdin.drain()
            except ConnectionError:
                return "none"
            return await self._answer(server)

    async def _answer(self, server: Server) -> str:
        if server.process.stdout is None:
            return "none"
        return (await server.process.stdout.readline()).decode().strip() or "none"

    def _watch(self, server: Server) -> None:
        """Modelled: a server that dies takes its clients' connections along (cudaErrorMpsRpcFailure)."""

        async def watch() -> None:
            await server.process.wait()
            if self.server is server:
                async with self.changed:
                    await self.end(server)
                    self.changed.notify_all()

        task = asyncio.create_task(watch())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _while_there(self, fault: str) -> None:
        await waiting.until(lambda: self.stopped.is_set() or not (self.machine.root / fault).exists())

    def begin(self, path: Path) -> None:
        """Say what it says first."""
        self.say(f"Starting control daemon using socket {path}")
        pipe = f"{mps_control.PIPE_DIRECTORY}={path.parent}"
        self.say(f"To connect CUDA applications to this daemon, set env {pipe}")
        if self.driver >= _VERSION_TOLD_SINCE:
            cuda = 12080 if self.driver < _CONTEXTS_SINCE else int((self.machine.root / "cuda_version").read_text())
            self.say(f"CUDA MPS Control binary version: {cuda}")

    def say(self, text: str, *, pid: int | None = None) -> None:
        """Say a line of the control daemon's; `pid`: of a child that says it."""
        self._recorder.say(0, pid or os.getpid(), text)

    def server_says(self, server: Server, *lines: str) -> None:
        """Lines of a server's."""
        for line in lines:
            self._recorder.say(1, server.pid, line)


async def _serve(*, multiuser: bool) -> int:
    pipe = mps_control.pipe_directory()
    logs = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY") or "/var/log/nvidia-mps")
    path = pipe / mps_control.SOCKET
    if mps_control.answers(pipe):
        mps_log.tell_another(pipe, f"Using log directory: {logs}")
        print(mps_control.RUNNING)
        return 1
    machine = state.State(state.folder())
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES") or machine.gpus()[0].uuid
    recorder = mps_log.Recorder(pipe, logs if mps_control.LOGS in os.environ else None)
    recorder.start()
    daemon = Daemon(machine, gpu=gpu, multiuser=multiuser, recorder=recorder)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, daemon.stopped.set)
    (pipe / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    daemon.begin(path)
    listener = listening.Listener(path, daemon.handle)
    await listener.start()
    await daemon.stopped.wait()
    if daemon.server is not None:
        await daemon.end(daemon.server)
    await listener.close()
    recorder.close()
    return 0


def main(*, multiuser: bool) -> int:
    """Run in the foreground until `quit` or SIGTERM."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(mps_control.PROGRAM[:15], encoding="ascii")
    return asyncio.run(_serve(multiuser=multiuser))
