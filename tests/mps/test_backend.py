"""The product's backend and supervision over each control program."""

import asyncio
import signal
import sys

import pytest

from cotenant_api.gpunode import MPS, Mode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import client_pipe, control, layout, signals, supervision, supervisor, v2
from cotenant_standin import mps_log
from mps_kit import programs
from mps_kit.exchanges import Case, State
from mps_kit.place import GPU, Place
from mps_kit.programs import ServerProgram
from node_kit import quick


class Driver:
    """A driver that takes every compute mode."""

    def __init__(self) -> None:
        self.mode = ComputeMode.DEFAULT

    async def look(self, _: GPUUID) -> supervisor.Look:
        """Nobody uses the GPU."""
        return supervisor.Look(compute_mode=self.mode, processes=frozenset())

    async def set_compute_mode(self, _: GPUUID, mode: ComputeMode) -> None:
        """At once."""
        self.mode = mode


async def test_absent_daemon_is_stopped(place: Place) -> None:
    place.pipe.mkdir(parents=True)
    seen = await place.backend().observe(GPU)
    assert (seen.state, seen.pid) == (MPS.STOPPED, None)
    assert "no MPS control daemon" in (seen.reason or "")
    assert await place.backend().answers(GPU) is False


async def test_server_is_started_seen_initializing_and_ended(place: Place) -> None:
    with place.daemon():
        backend = place.backend()
        assert (await backend.observe(GPU)).reason == "the control daemon has no server"
        await backend.start(GPU)
        seen = await backend.observe(GPU)
        assert (seen.state, seen.initializes, seen.clients, seen.outdated) == (MPS.STARTING, True, (), False)
        assert seen.reason == f"server {seen.pid} says INITIALIZING"
        await backend.start(GPU)
        assert (await backend.observe(GPU)).pid == seen.pid
        await backend.stop(GPU)
        await quick.until(lambda: f"Server {seen.pid} exited" in place.said())
        assert (await backend.observe(GPU)).state is MPS.STOPPED


async def test_server_that_heeds_nothing_is_killed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2, "END_SECONDS", 0.2)
    with place.serving(ServerProgram.STUBBORN).daemon():
        backend = place.backend()
        await backend.start(GPU)
        pid = (await backend.observe(GPU)).pid
        assert pid is not None
        await quick.until(lambda: _ignores(pid) or place.program.command[0].startswith(str(place.folder)))
        await backend.stop(GPU)
        await quick.until(lambda: not signals.process_lives(pid))
        await quick.until(lambda: f"Server {pid} exited" in place.said())
        assert (await backend.observe(GPU)).state is MPS.STOPPED


def _ignores(pid: int) -> bool:
    """Whether a process ignores SIGINT by now."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:  # noqa: PTH123
        ignored = next(line.split()[1] for line in file if line.startswith("SigIgn"))
    return bool(int(ignored, 16) >> (signal.SIGINT - 1) & 1)


async def test_server_that_fails_to_start_is_no_fault(place: Place) -> None:
    with place.serving(ServerProgram.FAILING).daemon():
        backend = place.backend()
        await backend.observe(GPU)
        await backend.start(GPU)
        await quick.until(lambda: "exited with status 1" in place.said())
        seen = await backend.observe(GPU)
        assert (seen.state, seen.pid, seen.faults) == (MPS.STOPPED, None, ())


async def test_what_is_refused_is_an_error(place: Place) -> None:
    with place.daemon() as daemon:
        await place.backend().start(GPU)
        asked = control.Control(place.pipe, program=place.program.command, environment=daemon.environment)
        (server,) = await asked.servers()
        with pytest.raises(control.RefusedError, match=f"Server {server} not found"):
            await asked.terminate_client(server, 1)
        with pytest.raises(control.RefusedError, match="Server 1 not found"):
            await asked.terminate_client(1, 2)
        await asked.shutdown_server(1, with_clients=True)
        await place.backend().terminate(GPU, 1)


async def test_questions_of_the_product_are_no_news_for_it(place: Place) -> None:
    with place.daemon():
        backend = place.backend()
        await backend.start(GPU)
        await quick.until(lambda: "Starting new server" in place.said())
        for _ in range(3):
            await backend.observe(GPU)
            await quick.until(lambda: place.said().endswith("UI closed\n"))
            assert not backend.stirred(GPU)


async def test_supervisor_starts_a_server_waits_for_it_and_replaces_one_that_never_gets_ready(place: Place) -> None:
    now = [1000.0]
    policy = supervision.Policy(settle_seconds=0, first_backoff_seconds=0)
    with place.daemon():
        driver = Driver()
        gpu = supervisor.Supervisor(
            GPU, backend=place.backend(), driver=driver, monotonic=lambda: now[0], policy=policy
        )
        first = await gpu.settle(Mode.SHARED)
        assert (first.ready, first.starts, first.published) == (False, True, MPS.STARTING)
        assert driver.mode is ComputeMode.EXCLUSIVE_PROCESS
        pid = first.state.server
        now[0] += policy.starting_seconds
        again = await gpu.settle(Mode.SHARED)
        assert (again.starts, again.fault, again.state.server == pid) == (True, None, False)
        back = await gpu.settle(Mode.WHOLE)
        assert (back.reason, back.ready, driver.mode) == (None, True, ComputeMode.DEFAULT)


async def test_fatal_line_is_read_in_the_words_of_every_driver_and_its_name_is_not_believed(place: Place) -> None:
    """The line is put into the FIFO. A tenant has it said by a command with a line end in it."""
    with place.daemon():
        backend = place.backend()
        await backend.observe(GPU)
        named = "{PID: 71, Context: 1}" if place.major >= 580 else "process 71"
        line = f"Client {named} encountered a fatal GPU error."
        (place.pipe / "log").write_bytes(mps_log.record(1, 4711, line))
        await quick.until(lambda: line in place.said())
        assert backend.stirred(GPU)
        seen = await backend.observe(GPU)
        assert [told.rpartition("] ")[2] for told in seen.faults] == [line]
        assert "Server  4711" in seen.faults[0]


async def test_words_of_a_command_are_no_fault_whoever_gives_it(place: Place) -> None:
    with place.daemon() as daemon:
        backend = place.backend()
        await backend.observe(GPU)
        forged = (
            "x\x0b[2026-01-01 12:00:00.000 Server     4] Client {PID: 71, Context: 1} encountered a fatal GPU error."
        )
        for words in (forged, forged.partition("] ")[2]):
            assert "Unknown command" in daemon.ask(Case((words,)))[0]
        await quick.until(lambda: place.said().count("encountered a fatal") >= 2)
        assert (await backend.observe(GPU)).faults == ()


async def test_text_in_the_fifo_silences_the_daemon_which_answers_on(place: Place) -> None:
    with place.daemon() as daemon:
        daemon.exchange(State.NO_SERVER, Case(()))
        (place.pipe / "log").write_bytes(b"x" * 64)
        before = place.said()
        assert daemon.ask(Case(("get_default_active_thread_percentage",))) == ("100.0\n", 0)
        assert place.said() == before


async def test_clients_folder_has_what_the_daemon_listens_to(place: Place) -> None:
    with place.daemon():
        await place.backend().observe(GPU)
        folder = layout.client_pipe(place.root, GPU)
        assert {path.name for path in folder.iterdir()} == {*client_pipe.OFFERED, client_pipe.SILENT}
        assert all((folder / name).samefile(place.pipe / name) for name in client_pipe.OFFERED)


async def test_what_a_client_writes_neither_ends_nor_silences_the_daemon(place: Place) -> None:
    with place.daemon() as daemon:
        await place.backend().observe(GPU)
        log = layout.client_pipe(place.root, GPU) / "log"
        for written in (mps_log.record(1, 4711, "x" * 30000), b"x" * 64):
            await asyncio.to_thread(log.write_bytes, written)
        daemon.exchange(State.NO_SERVER, Case(("get_default_active_thread_percentage",)))
        assert place.said().endswith("UI closed\n")
        assert daemon.process.poll() is None


@pytest.mark.parametrize("driver", programs.DRIVERS)
async def test_client_of_nvidias_library_has_a_server_started_which_is_news(driver: str) -> None:
    real = {program.major: program for program in programs.found()}.get(int(driver))
    if real is None:
        pytest.skip(f"driver {driver} could not be fetched")
    with quick.folder() as folder:
        place = Place(program=real, folder=folder)
        with place.daemon() as daemon:
            backend = place.backend()
            await backend.observe(GPU)
            code = f"import ctypes; ctypes.CDLL({str(real.library)!r}).cuInit(0)"
            client = await asyncio.create_subprocess_exec(sys.executable, "-IS", "-c", code, env=daemon.environment)
            await quick.until(lambda: f"NEW CLIENT {client.pid} from user" in place.said())
            assert await asyncio.to_thread(backend.stirred, GPU)
            assert (await backend.observe(GPU)).initializes
            client.kill()
            await client.wait()
