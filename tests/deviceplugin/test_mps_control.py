"""What NVIDIA's control program is asked, and how its answers are read."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_deviceplugin.mps import control, presence
from mps_kit import programs, session
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


@pytest.mark.parametrize("status", ["INITIALIZING", "FAULT"])
def test_server_that_cannot_be_asked_itself_is_understood_without_its_percentage(status: str) -> None:
    answers = control.parse(f"11\n{status}\n100.0\n")
    assert (answers.servers, answers.status, answers.clients) == ((11,), status, ())
    assert (answers.thread_percentage, answers.default_percentage) == (None, 100.0)


@pytest.mark.parametrize("driver", programs.DRIVERS)
def test_what_nvidias_program_says_of_a_server_that_initializes_is_understood(driver: str) -> None:
    described = [each for each in session.kept(driver)["exchanges"] if len(each.get("commands", ())) == 5]
    read = {each["state"]: control.parse(each["output"].replace("SERVER", "11")) for each in described[1:]}
    assert [answers.status for answers in read.values()] == ["INITIALIZING", "FAULT"]
    with pytest.raises(control.NoAnswerError, match="Server 1 not found"):
        control.parse(described[0]["output"])


@pytest.mark.parametrize("driver", programs.DRIVERS)
async def test_what_nvidias_program_refuses_is_an_error(driver: str, tmp_path: Path) -> None:
    refused = [
        each
        for each in session.kept(driver)["exchanges"]
        if each.get("commands") in (["terminate_client 1 2"], ["start_server"])
    ]
    assert len(refused) >= 2
    for each in refused:
        (tmp_path / "said").write_text(each["output"])
        asked = control.Control(tmp_path, program=["sh", "-c", f"cat >{tmp_path}/asked; cat {tmp_path}/said"])
        with pytest.raises(control.RefusedError, match=r"refused .*(not found|is required)"):
            await asked.terminate_client(1, 2)


async def test_server_that_is_gone_already_needs_no_end(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    await asking(machine).shutdown_server(1, with_clients=False)


@pytest.mark.parametrize("said", ["echo Cannot send command to MPS control daemon process", "true"])
async def test_connection_that_a_living_daemon_drops_is_made_again(tmp_path: Path, said: str) -> None:
    once = f"cat >/dev/null; [ -e {tmp_path}/asked ] && echo 11 100.0 && exit; touch {tmp_path}/asked; {said}; exit 1"
    assert await control.Control(tmp_path, program=["sh", "-c", once]).servers() == (11,)


async def test_daemon_that_breaks_off_each_time_is_there(tmp_path: Path) -> None:
    program = ["sh", "-c", "cat >/dev/null; echo Cannot send command to MPS control daemon process; exit 1"]
    tmp_path.joinpath("pipe").mkdir()
    asked = control.Control(tmp_path / "pipe", program=program)
    with pytest.raises(control.NoAnswerError, match="broke off"):
        await asked.servers()
    assert await asked.answers()


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


async def test_daemon_that_died_is_absent_whatever_it_left(machine: gpu_machine.Machine) -> None:
    daemon = machine.control_daemon()
    daemon.kill()
    daemon.wait()
    assert (machine.pipe() / presence.PID_FILE).exists()
    with pytest.raises(control.NoDaemonError, match="the log of cotenant-mps says why none is started"):
        await asking(machine).servers()
    assert not await asking(machine).answers()


async def test_daemon_that_lives_and_cannot_be_reached_is_told_from_one_that_is_absent(
    machine: gpu_machine.Machine,
) -> None:
    daemon = machine.control_daemon()
    (machine.pipe() / "control").unlink()
    told = f"MPS control daemon {daemon.pid} in .* lives and cannot be asked: .*Cannot find.*cotenant-mps replaces it"
    with pytest.raises(control.NoAnswerError, match=told):
        await asking(machine).servers()
    assert await asking(machine).answers()


async def test_daemon_that_lives_and_has_no_word_is_told_from_one_that_is_absent(machine: gpu_machine.Machine) -> None:
    daemon = machine.control_daemon()
    silent = control.Control(machine.pipe(), program=["sh", "-c", "cat >/dev/null; exit 1"])
    with pytest.raises(control.NoAnswerError, match=f"control daemon {daemon.pid} .* cannot be asked: 'exit code 1'"):
        await silent.servers()


@pytest.mark.parametrize("content", ["", "0", "-1", "none", "99999999999999999999", "own"])
def test_file_that_names_no_control_daemon_names_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / presence.PID_FILE).write_text(content.replace("own", str(os.getpid())))
    assert presence.found(tmp_path) is None


@pytest.mark.parametrize("question", ["servers", "clients"])
async def test_daemon_that_is_busy_is_not_taken_for_one_without_servers_or_clients(
    tmp_path: Path, question: str
) -> None:
    script = "while read line; do case $line in get_server_status*) echo ACTIVE;; esac; done"
    asked = control.Control(tmp_path, program=["sh", "-c", script])
    with pytest.raises(control.NoAnswerError, match=r"answers nothing to get_.*: it is busy"):
        await (asked.servers() if question == "servers" else asked.clients(11))


async def test_answer_without_end_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(control.NoAnswerError, match="answers more than 65536 bytes"):
        await control.Control(tmp_path, program=["yes"]).servers()


async def test_program_that_is_absent_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(control.NoDaemonError, match="nowhere/nvidia-cuda-mps-control: No such file"):
        await control.Control(tmp_path, program=[str(tmp_path / "nowhere/nvidia-cuda-mps-control")]).servers()


async def test_program_that_fails_silently_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(control.NoDaemonError, match="exit code 3"):
        await control.Control(tmp_path, program=["sh", "-c", "exit 3"]).servers()


async def test_daemon_that_hangs_is_not_waited_for(machine: gpu_machine.Machine) -> None:
    daemon = machine.control_daemon()
    os.kill(daemon.pid, signal.SIGSTOP)
    with pytest.raises(control.NoAnswerError, match=rf"daemon {daemon.pid} in .* did not answer within 0\.2 s"):
        await asking(machine, timeout_seconds=0.2).servers()


async def test_without_the_program_nobody_knows_whether_a_daemon_is_there(machine: gpu_machine.Machine) -> None:
    machine.control_daemon()
    without = control.Control(machine.pipe(), program=("/nowhere/nvidia-cuda-mps-control",), environment={})
    with pytest.raises(control.NoProgramError, match="No such file"):
        await without.answers()
