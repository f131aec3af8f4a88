"""A control daemon that hangs is replaced by evidence, and not under anybody who uses its GPU."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from cotenant_api import errors, gpunode
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.mps import daemon, daemons, presence, signals, silence, supervision, supervisor, v2
from cotenant_deviceplugin.mps.readiness import Readiness
from cotenant_standin import mps_control
from node_kit import gpu_machine, quick

QUESTIONS = 2


@pytest.fixture
def machine() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started() as found:
        yield found


class Driver:
    """Says who uses the machine's GPU, or fails."""

    def __init__(self, machine: gpu_machine.Machine) -> None:
        self._machine, self.away = machine, False

    async def set_compute_mode(self, gpu: GPUUID, mode: hardware.ComputeMode) -> None:
        """Never."""
        raise AssertionError(f"{gpu}: {mode}")

    async def usage_of(self, _: GPUUID) -> hardware.Usage:
        """As the machine's folder says, which is written by the daemon: of the dead there it tells when it runs."""
        if self.away:
            raise errors.TemporaryError("no driver", delay_seconds=1)
        gpu = self._machine.state.by_uuid(self._machine.uuid())
        living = [pid for pid in {*gpu.processes(), *gpu.mps_processes()} if signals.process_lives(pid)]
        processes = tuple(hardware.Process(pid=pid, memory_mib=1) for pid in living)
        return hardware.Usage(utilization_percent=0, memory_used_mib=0, processes=processes)


@dataclasses.dataclass
class Running:
    """The daemons of a machine."""

    machine: gpu_machine.Machine
    driver: Driver
    readiness: Readiness
    stop: asyncio.Event

    @property
    def pid(self) -> int | None:
        """Of the control daemon."""
        return presence.found(self.machine.pipe())

    async def other_than(self, pid: int) -> None:
        """Wait until another control daemon answers."""
        await quick.until(lambda: self.pid not in {None, pid} and mps_control.answers(self.machine.pipe()))


@contextlib.asynccontextmanager
async def running(machine: gpu_machine.Machine, **changes: float) -> AsyncIterator[Running]:
    settings = daemon.Settings(
        root=machine.mps_root,
        program=machine.program,
        environment=machine.environment(),
        answer_seconds=3,  # a busy machine takes its time for an answer, too
        ask_seconds=0.02,
        look_seconds=0.02,
        quit_seconds=0.1,
        first_backoff_seconds=0.01,
        hang_questions=QUESTIONS,
    )
    chosen = dataclasses.replace(settings, **changes)  # type: ignore[arg-type]
    found = Running(machine, Driver(machine), Readiness(), asyncio.Event())

    async def gpus() -> frozenset[GPUUID]:
        return frozenset({machine.uuid()})

    task = asyncio.create_task(daemons.run(chosen, gpus, found.stop, driver=found.driver, readiness=found.readiness))
    try:
        await quick.until(lambda: found.pid is not None and mps_control.answers(machine.pipe()))
        yield found
    except BaseException:
        task.cancel()  # it would wait for tenants that nobody ends
        raise
    finally:
        found.stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def stopped(pid: int | None) -> int:
    """Have a process stand still."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


async def test_daemon_that_hangs_is_replaced(machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture) -> None:
    async with running(machine) as daemons:
        first = stopped(daemons.pid)
        await daemons.other_than(first)
        assert f"control daemon {first} lives and has answered none of" in caplog.text
        assert f"control daemon {first} hangs and nobody uses the GPU: it is replaced" in caplog.text
        assert not signals.process_lives(first)
        assert machine.cuda().report()["mps"] is True


async def test_questions_without_an_answer_count_in_a_row_alone(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(machine, hang_questions=1000) as daemons:
        first = stopped(daemons.pid)
        await quick.until(lambda: caplog.text.count("did not answer within") >= QUESTIONS)
        os.kill(first, signal.SIGCONT)
        asked = machine.said().count("Cmd:get_server_list")
        await quick.until(lambda: machine.said().count("Cmd:get_server_list") > asked + 3 * QUESTIONS)
        assert (daemons.pid, "hangs" in caplog.text) == (first, False)


def test_an_answer_begins_the_count_anew() -> None:
    known = silence.Silence().longer(10).longer(30)
    assert known.hangs(50, questions=2, seconds=40)
    assert not known.hangs(50, questions=3, seconds=40)
    assert not known.hangs(49, questions=2, seconds=40)
    assert known.told(55) == "lives and has answered none of 2 questions in 45 s"
    assert not silence.Silence().hangs(50, questions=0, seconds=0)


async def test_under_a_tenant_a_daemon_that_hangs_stays_and_lets_nobody_in(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(machine) as daemons:
        tenant = machine.tenant()
        server = machine.server()
        agents = v2.MPSv2(machine.mps_root, cuda_version="13.0", program=machine.program, timeout_seconds=3)
        gpu = supervisor.Supervisor(
            machine.uuid(),
            backend=agents,
            driver=gpu_machine.MachineDriver(machine),
            monotonic=asyncio.get_running_loop().time,
            policy=supervision.Policy(manage_compute_mode=False),
        )
        assert (await gpu.settle(gpunode.Mode.SHARED)).ready
        first = stopped(daemons.pid)
        waits = f"hangs: it is replaced once nobody uses the GPU, which {tenant.pid} does"
        await quick.until(lambda: waits in caplog.text)
        assert (daemons.readiness.ready, daemons.pid) == (False, first)
        assert (tenant.process.poll(), signals.process_lives(server)) == (None, True)
        refused = await gpu.settle(gpunode.Mode.SHARED)
        assert (refused.ready, refused.fault) == (False, None)
        assert f"control daemon {first} in" in (refused.reason or "")
        assert "did not answer within 3 s; cotenant-mps replaces it once nobody uses the GPU" in (refused.reason or "")
        tenant.process.kill()
        await asyncio.to_thread(tenant.process.wait)
        await daemons.other_than(first)
        assert not signals.process_lives(server)
        await quick.until(lambda: daemons.readiness.ready)


async def test_daemon_that_hangs_stays_while_nobody_can_say_who_uses_the_gpu(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(machine) as daemons:
        daemons.driver.away = True
        first = stopped(daemons.pid)
        await quick.until(lambda: "which nobody can say now" in caplog.text)
        assert daemons.pid == first
        daemons.driver.away = False
        await daemons.other_than(first)


async def test_daemon_whose_sockets_were_taken_away_is_replaced(machine: gpu_machine.Machine) -> None:
    async with running(machine) as daemons:
        first = daemons.pid
        assert first is not None
        for path in machine.pipe().iterdir():
            path.unlink()
        await daemons.other_than(first)
        assert not signals.process_lives(first)


async def test_end_waits_for_a_tenant_whose_daemon_hangs(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(machine, hang_questions=1000) as daemons:
        tenant = machine.tenant()
        first = stopped(daemons.pid)
        daemons.stop.set()
        await quick.until(lambda: f"waiting for the end of clients [{tenant.pid}]" in caplog.text)
        assert tenant.process.poll() is None
        tenant.process.kill()
        await asyncio.to_thread(tenant.process.wait)
    assert not signals.process_lives(first)


async def test_end_does_not_wait_for_a_daemon_that_hangs_where_nobody_can_say_who_uses_the_gpu(
    machine: gpu_machine.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(machine, hang_questions=1000) as daemons:
        daemons.driver.away = True
        first = stopped(daemons.pid)
    assert "does not quit; SIGTERM" in caplog.text
    assert "does not quit; SIGKILL" in caplog.text
    assert not signals.process_lives(first)
