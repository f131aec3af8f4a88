"""The product's MPS daemons over each control program of a driver that it supports."""

import asyncio
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode, Usage
from cotenant_deviceplugin.mps import daemon, daemons, layout, output, signals
from cotenant_standin import building, state
from mps_kit import programs
from mps_kit.place import GPU, Place
from mps_kit.programs import Real, ServerProgram
from node_kit import quick

COMMAND = """
import argparse
from cotenant_deviceplugin.commands import mps_daemons
parser = argparse.ArgumentParser()
mps_daemons.configure(parser)
raise SystemExit(mps_daemons.run(parser.parse_args()))
"""


class Driver:
    """A driver of which no compute mode is set."""

    async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
        """Never."""
        raise AssertionError(f"{gpu}: {mode}")

    async def usage_of(self, _: GPUUID) -> Usage:
        """Nobody uses the GPU."""
        return Usage(utilization_percent=0, memory_used_mib=0)


async def gpus() -> frozenset[GPUUID]:
    """One."""
    return frozenset({GPU})


async def answering(place: Place) -> None:
    """Wait until its daemon answers."""
    async with asyncio.timeout(quick.PATIENCE_SECONDS):
        while not await place.backend().answers(GPU):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(place: Place, settings: daemon.Settings | None = None) -> AsyncIterator[asyncio.Event]:
    """The daemons, until the block ends."""
    stop = asyncio.Event()
    task = asyncio.create_task(daemons.run(settings or place.settings(), gpus, stop, driver=Driver()))
    try:
        await answering(place)
        yield stop
    finally:
        stop.set()
        await task


def pid(place: Place) -> int:
    return int((place.pipe / "nvidia-cuda-mps-control.pid").read_text())


async def test_daemon_serves_says_all_on_its_output_and_ends_when_told(supported: Place) -> None:
    async with running(supported):
        seen = await supported.backend().observe(GPU)
        assert seen.reason == "the control daemon has no server"
        started = pid(supported)
    assert not signals.process_lives(started)
    assert "Starting control daemon using socket" in supported.said()
    assert {path.name for path in layout.log(supported.root, GPU).iterdir()} == {"output.log"}


async def test_daemon_that_died_is_started_again(supported: Place) -> None:
    async with running(supported):
        first = pid(supported)
        os.kill(first, signal.SIGKILL)
        await quick.until(
            lambda: (
                (supported.pipe / "nvidia-cuda-mps-control.pid").exists()
                and (supported.pipe / "nvidia-cuda-mps-control.pid").read_text().strip() not in {"", str(first)}
            )
        )
        await answering(supported)


@pytest.mark.parametrize("server", [ServerProgram.INITIALIZING, ServerProgram.STUBBORN])
async def test_server_that_initializes_for_ever_outlives_no_daemon(supported: Place, server: ServerProgram) -> None:
    place = supported.serving(server)
    async with running(place):
        backend = place.backend()
        await backend.start(GPU)
        started = (await backend.observe(GPU)).pid
        assert started is not None
    await quick.until(lambda: not signals.process_lives(started))


async def test_daemon_that_does_not_answer_is_ended(supported: Place, caplog: pytest.LogCaptureFixture) -> None:
    settings = dataclasses.replace(supported.settings(), answer_seconds=0.5)
    async with running(supported, settings):
        started = pid(supported)
        os.kill(started, signal.SIGSTOP)
    assert "does not quit; SIGKILL" in caplog.text
    assert not signals.process_lives(started)


async def test_what_it_says_takes_bounded_room_and_no_line_is_lost(
    supported: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question has a number, and is repeated in the output. The daemon goes on while room is made."""
    settings = dataclasses.replace(supported.settings(), output_bytes=4096, look_seconds=0.001)
    said, punch, gone = layout.output(supported.root, GPU), output.punch, bytearray()

    def kept_and_punched(file: int, length: int) -> None:
        gone.extend(os.pread(file, length - len(gone), len(gone)))
        punch(file, length)

    monkeypatch.setattr(output, "punch", kept_and_punched)
    questions = [f"get_server_status {number}" for number in range(1_000_000, 1_001_000)]
    async with running(supported, settings):
        command, pipe = [*supported.program.command], {layout.PIPE_DIRECTORY: str(supported.pipe)}
        asking = asyncio.to_thread(programs.ask, command, questions, {**settings.environment, **pipe})
        assert (await asking)[1] == 0
        await quick.until(lambda: said.stat().st_blocks * 512 <= 3 * 4096)
    repeated = re.findall(rb"Cmd:(get_server_status \d+)\n", bytes(gone) + said.read_bytes()[len(gone) :])
    assert [question.decode() for question in repeated] == questions
    assert len(gone) > 4096


async def test_daemon_of_an_earlier_life_is_left_to_its_clients(
    supported: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with supported.daemon() as earlier:
        async with running(supported):
            await quick.until(lambda: "another control daemon is in" in caplog.text)
            assert earlier.process.poll() is None


@pytest.mark.parametrize(
    ("library", "status", "words"),
    [("/nowhere", 244, "finds no libcuda.so.1"), ("", 100, "CUDA finds no GPU")],
)
async def test_daemon_of_580_that_ends_without_a_word_is_told_with_what_to_look_at(
    caplog: pytest.LogCaptureFixture, library: str, status: int, words: str
) -> None:
    real = {program.major: program for program in programs.found()}.get(580)
    if real is None:
        pytest.skip("driver 580 could not be fetched")
    with quick.folder() as folder:
        place = Place(program=real, folder=folder)
        path = library or str(real.library.parent)
        settings = dataclasses.replace(place.settings(), environment={**place.environment(), "LD_LIBRARY_PATH": path})
        stop = asyncio.Event()
        task = asyncio.create_task(daemons.run(settings, gpus, stop, driver=Driver()))
        await quick.until(lambda: f"ended with code {status}: " in caplog.text and words in caplog.text)
        stop.set()
        await task


@contextlib.contextmanager
def ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Whatever the block has found, the process does not outlive it."""
    try:
        yield
    finally:
        process.kill()


def command(place: Place, version: str) -> "subprocess.Popen[str]":
    """`cotenant mps-daemons` on a machine whose driver is of this version."""
    machine = state.create(place.folder / "machine")
    machine.gpu(0).set("uuid", GPU)
    (machine.root / "driver_version").write_text(f"{version}\n")
    arguments = [
        "--ready-port",
        "0",
        "--mps-root",
        str(place.root),
        "--nvml",
        str(building.nvml()),
        "--control",
        *place.program.command,
    ]
    environment = place.environment()
    if isinstance(place.program, Real):
        environment = {**environment, state.FOLDER_VARIABLE: str(machine.root)}
    else:
        (Path(environment[state.FOLDER_VARIABLE]) / "driver_version").write_text(f"{version}\n")
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )


async def test_command_serves_a_supported_driver_and_leaves_an_older_one_alone(place: Place) -> None:
    with command(place, place.program.version) as process, ended(process):
        if place.major < 570:
            assert process.stderr is not None
            said = await asyncio.to_thread(process.stderr.readline)
            assert f"waiting for the driver: driver {place.program.version} is older than 570" in said
            assert not layout.pipe(place.root, GPU).exists()
        else:
            await answering(place)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 20) == 0
    assert await place.backend().answers(GPU) is False
