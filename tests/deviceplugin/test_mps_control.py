"""What NVIDIA's control program is asked, and how its answers are read."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_deviceplugin.mps import control
from node_kit import gpu_machine


@pytest.fixture
def machine() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started() as found:
        yield found


def asking(machine: gpu_machine.Machine, **more: float) -> control.Control:
    return control.Control(machine.pipe(), program=machine.program, environment=machine.environment(), **more)


def test_answers_are_told_apart_by_their_kind() -> None:
    assert control.parse("11\n12\nACTIVE\n7\n8\n100.0\n50.5\n") == control.Answers(
        servers=(11, 12), status="ACTIVE", clients=(7, 8), thread_percentage=100.0, default_percentage=50.5
    )


def test_empty_lists_are_answers() -> None:
    answers = control.parse("FAULT\n100.0\n100.0\n")
    assert (answers.servers, answers.status, answers.clients) == ((), "FAULT", ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "11\n",
        "11\nACTIVE\n",
        "11\nACTIVE\n100.0\n",
        "11\nACTIVE\n7\n100\n100\n",
        "11\nServer 11 not found\n100.0\n100.0\n",
        "11\nServer not found\nServer not found\nServer not found\n100.0\n",
        "11\nACTIVE\nno clients\n100.0\n100.0\n",
        "-1\nACTIVE\n100.0\n100.0\n",
        "Cannot find MPS control daemon process\n",
    ],
)
def test_what_is_not_understood_is_no_answer(text: str) -> None:
    with pytest.raises(control.NoAnswerError, match="the MPS control daemon said"):
        control.parse(text)


async def test_one_question_tells_all_about_a_server(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    tenants = sorted(machine.tenant().pid for _ in range(2))
    answers = await asking(machine).describe(machine.server())
    assert (answers.servers, answers.status, sorted(answers.clients)) == ((machine.server(),), "ACTIVE", tenants)
    assert (answers.thread_percentage, answers.default_percentage) == (100.0, 100.0)


async def test_server_that_is_not_known_is_not_understood(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    with pytest.raises(control.NoAnswerError, match="Server 1 not found"):
        await asking(machine).describe(1)


async def test_started_server_gives_all_threads_whatever_the_defaults_were(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    machine.control("set_default_active_thread_percentage 30")
    await asking(machine).start_server()
    assert (await asking(machine).describe(machine.server())).thread_percentage == 100.0


async def test_daemon_that_is_absent_is_said_so(machine: gpu_machine.Machine) -> None:
    with pytest.raises(control.NoDaemonError, match="Cannot find MPS control daemon process"):
        await asking(machine).servers()


async def test_program_that_is_absent_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(control.NoDaemonError, match="nowhere/nvidia-cuda-mps-control: No such file"):
        await control.Control(tmp_path, program=[str(tmp_path / "nowhere/nvidia-cuda-mps-control")]).servers()


async def test_program_that_fails_silently_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(control.NoDaemonError, match="exit code 3"):
        await control.Control(tmp_path, program=["sh", "-c", "exit 3"]).servers()


async def test_daemon_that_hangs_is_not_waited_for(machine: gpu_machine.Machine) -> None:
    daemon = machine.control_daemon()
    os.kill(daemon.pid, signal.SIGSTOP)
    with pytest.raises(control.NoAnswerError, match=r"did not answer within 0\.2 s"):
        await asking(machine, timeout_seconds=0.2).servers()


async def test_without_the_program_nobody_knows_whether_a_daemon_is_there(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    without = control.Control(machine.pipe(), program=("/nowhere/nvidia-cuda-mps-control",), environment={})
    with pytest.raises(control.NoProgramError, match="No such file"):
        await without.answers()
