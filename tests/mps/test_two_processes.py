"""Two processes of MPS daemons on one node, and what an earlier one has left: real processes on real programs."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus.hardware import ComputeMode, Usage
from cotenant_deviceplugin.mps import daemons, layout, presence, signals
from cotenant_standin import building, state
from mps_kit.place import GPU, Place
from mps_kit.programs import Real
from node_kit import quick

COMMAND = """
import argparse
from cotenant_deviceplugin.commands import mps_daemons
parser = argparse.ArgumentParser()
mps_daemons.configure(parser)
raise SystemExit(mps_daemons.run(parser.parse_args()))
"""
GATED = """#!/bin/sh
case " $* " in *" -f "*) echo $$ >>{folder}/starts; while [ ! -e {folder}/gate ]; do sleep 0.01; done ;; esac
exec {program} "$@"
"""


class Driver:
    """A driver whose GPU nobody uses."""

    async def set_compute_mode(self, gpu: GPUUID, mode: ComputeMode) -> None:
        """Never."""
        raise AssertionError(f"{gpu}: {mode}")

    async def usage_of(self, _: GPUUID) -> Usage:
        """Nobody."""
        return Usage(utilization_percent=0, memory_used_mib=0)


class Process:
    """`cotenant mps-daemons` on the place's folder; its log is a file."""

    def __init__(self, place: Place, name: str, environment: dict[str, str], program: str) -> None:
        self.log, self.port = place.folder / f"{name}.log", _free_port()
        arguments = ["--ready-port", str(self.port), "--mps-root", str(place.root), "--nvml", str(building.nvml())]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *arguments, "--control", program], env=environment, stderr=log
            )

    def ready(self) -> bool:
        """As kubelet looks."""
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def said(self) -> str:
        """Its log."""
        return self.log.read_text()


@contextlib.contextmanager
def processes(place: Place, *, program: str | None = None) -> Iterator[tuple[Process, Process]]:
    """Two, started at once; with them ends what they leave behind."""
    environment = place.environment()
    if isinstance(place.program, Real):
        machine = state.create(place.folder / "machine")
        machine.gpu(0).set("uuid", GPU)
        environment = {**environment, state.FOLDER_VARIABLE: str(machine.root)}
    folder = Path(environment[state.FOLDER_VARIABLE])
    (folder / "driver_version").write_text(f"{place.program.version}\n")
    both = tuple(Process(place, name, environment, program or place.program.command[0]) for name in ("one", "two"))
    try:
        yield both[0], both[1]
    finally:
        for each in both:
            each.process.kill()
            each.process.wait()
        left = presence.found(place.pipe)
        if left is not None:
            os.kill(left, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def answering(place: Place) -> None:
    async with asyncio.timeout(quick.PATIENCE_SECONDS):
        while not await place.backend().answers(GPU):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.02)


async def offered(place: Place, done: Callable[[], bool]) -> None:
    """Have the agent look until tenants have the daemon: one that is slow to answer is looked at again."""
    async with asyncio.timeout(quick.PATIENCE_SECONDS):
        await place.backend().observe(GPU)
        while not done():
            await asyncio.sleep(0.02)
            await place.backend().observe(GPU)


WAITS = "another process of MPS daemons serves"


async def test_of_two_that_begin_at_once_one_starts_a_daemon_and_the_other_waits(supported: Place) -> None:
    """The daemon takes its time to start, so that the other one would find none."""
    folder, gated = supported.folder, supported.folder / "nvidia-gated"
    gated.write_text(GATED.format(folder=folder, program=supported.program.command[0]))
    gated.chmod(0o755)
    with processes(supported, program=str(gated)) as both:
        await quick.until(lambda: any(WAITS in each.said() for each in both))
        await quick.until((folder / "starts").exists)
        (folder / "gate").touch()
        await answering(supported)
        serving, waiting = sorted(both, key=lambda each: WAITS in each.said())
        await quick.until(serving.ready)
        assert (WAITS in serving.said(), waiting.ready()) == (False, False)
        assert (folder / "starts").read_text().split() == [str(presence.found(supported.pipe))]


async def test_the_one_that_waits_takes_nothing_away_and_takes_over_what_the_other_leaves(supported: Place) -> None:
    with processes(supported) as both:
        await answering(supported)
        await quick.until(lambda: any(WAITS in each.said() for each in both))
        serving, waiting = sorted(both, key=lambda each: WAITS in each.said())
        daemon, files = presence.found(supported.pipe), sorted(path.name for path in supported.pipe.iterdir())
        assert daemon is not None
        serving.process.kill()
        serving.process.wait()
        await quick.until(lambda: "another control daemon is in" in waiting.said())
        await quick.until(waiting.ready)
        assert (presence.found(supported.pipe), signals.process_lives(daemon)) == (daemon, True)
        assert sorted(path.name for path in supported.pipe.iterdir()) == files
        await answering(supported)


async def test_the_one_that_waits_ends_when_told_and_leaves_the_other_alone(supported: Place) -> None:
    with processes(supported) as both:
        await answering(supported)
        await quick.until(lambda: any(WAITS in each.said() for each in both))
        serving, waiting = sorted(both, key=lambda each: WAITS in each.said())
        daemon = presence.found(supported.pipe)
        waiting.process.terminate()
        assert await asyncio.to_thread(waiting.process.wait, quick.PATIENCE_SECONDS) == 0
        assert (serving.process.poll(), presence.found(supported.pipe)) == (None, daemon)
        await answering(supported)


@contextlib.asynccontextmanager
async def running(place: Place) -> AsyncIterator[None]:
    """The product's daemons, which take few questions for proof."""
    stop = asyncio.Event()
    settings = dataclasses.replace(place.settings(), answer_seconds=3, ask_seconds=0.05, hang_questions=2)

    async def gpus() -> frozenset[GPUUID]:
        return frozenset({GPU})

    task = asyncio.create_task(daemons.run(settings, gpus, stop, driver=Driver()))
    try:
        yield
    finally:
        stop.set()
        await task


async def test_daemon_that_hangs_is_replaced(supported: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with running(supported):
        await answering(supported)
        first = presence.found(supported.pipe)
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        await quick.until(lambda: presence.found(supported.pipe) not in {None, first})
        await answering(supported)
        assert f"control daemon {first} lives and has answered none of" in caplog.text
        assert not signals.process_lives(first)


async def test_daemon_of_an_earlier_life_that_hangs_is_replaced(
    supported: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with supported.daemon() as earlier:
        os.kill(earlier.process.pid, signal.SIGSTOP)
        async with running(supported):
            await quick.until(lambda: "another control daemon is in" in caplog.text)
            assert await asyncio.to_thread(earlier.process.wait, quick.PATIENCE_SECONDS) == -signal.SIGKILL
            await answering(supported)
            assert presence.found(supported.pipe) not in {None, earlier.process.pid}
    assert f"control daemon {earlier.process.pid} hangs and nobody uses the GPU: it is replaced" in caplog.text


async def test_a_daemon_that_is_replaced_is_offered_to_running_containers(supported: Place) -> None:
    """Their folder stays the same one, and leads to the new daemon."""
    async with running(supported):
        await answering(supported)
        mounted = layout.client_pipe(supported.root, GPU)
        await offered(supported, mounted.exists)
        folder, first = mounted.stat().st_ino, presence.found(supported.pipe)
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        await quick.until(lambda: presence.found(supported.pipe) not in {None, first})
        await answering(supported)
        await offered(supported, lambda: (mounted / "control").samefile(supported.pipe / "control"))
        assert mounted.stat().st_ino == folder
