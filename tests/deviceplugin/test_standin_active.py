"""The stand-in's answers about a server that is ACTIVE are those of NVIDIA's program on a real GPU."""

from collections.abc import Iterator

import pytest

from cotenant_deviceplugin.mps import logs
from mps_kit import active
from node_kit import gpu_machine, quick

RECORDINGS = [active.kept(driver) for driver in active.drivers()]


@pytest.fixture
def machine() -> Iterator[gpu_machine.Machine]:
    with gpu_machine.started() as found:
        yield found


@pytest.fixture(params=RECORDINGS, ids=active.drivers())
def recording(request: pytest.FixtureRequest) -> dict[str, object]:
    return dict(request.param)


def compared(machine: gpu_machine.Machine, recording: dict[str, object], state: str, *clients: int) -> None:
    """Ask the stand-in what NVIDIA's program was asked in a state, and compare the answers."""
    server = machine.server()
    pids = recording["clients"]
    assert isinstance(pids, list)
    assert isinstance(recording["server"], int)
    theirs, ours = {}, {}
    for command, output in active.in_state(recording, state).items():
        theirs[command] = active.plain(output, server=recording["server"], clients=pids)
        asked = command.replace("SERVER", str(server)).replace("CLIENT", str((*clients, 0)[0]))
        ours[command] = active.plain(machine.control(asked), server=server, clients=clients)
    assert theirs
    assert ours == theirs


def test_recording_is_what_the_results_of_the_gpu_hold() -> None:
    found = active.from_results()
    assert active.kept(found["driver"]) == found


def test_recording_has_each_command_that_the_campaign_asks() -> None:
    (recording,) = RECORDINGS
    assert len(active.in_state(recording, active.ACTIVE)) == 12


def test_it_answers_about_an_active_server_with_two_clients(
    machine: gpu_machine.Machine, recording: dict[str, object]
) -> None:
    machine.control_daemon()
    machine.start_server()
    clients = [machine.tenant().pid for _ in range(2)]
    compared(machine, recording, active.ACTIVE, *clients)


def test_it_answers_about_defaults_and_a_live_servers_limit(
    machine: gpu_machine.Machine, recording: dict[str, object]
) -> None:
    machine.control_daemon()
    machine.control("set_default_active_thread_percentage 50", "set_default_device_pinned_mem_limit 0 4096M")
    machine.start_server()
    compared(machine, recording, active.SET)


def test_it_answers_to_the_end_of_a_client(machine: gpu_machine.Machine, recording: dict[str, object]) -> None:
    machine.control_daemon()
    machine.start_server()
    compared(machine, recording, active.ENDING, machine.tenant().pid)


async def test_it_answers_and_says_of_a_fault(machine: gpu_machine.Machine, recording: dict[str, object]) -> None:
    machine.control_daemon()
    machine.start_server()
    stuck = machine.tenant("--ignore-faults")
    machine.cuda("--crash").end()
    await quick.until(lambda: "fatal" in machine.said())
    compared(machine, recording, active.AT_FAULT, stuck.pid)
    fatal = recording["fatal"]
    assert isinstance(fatal, list)
    ours, theirs = ([_words(line) for line in logs.fatal(text)] for text in (machine.said(), "\n".join(fatal) + "\n"))
    assert ours == theirs


def _words(line: str) -> str:
    """Return a line without its time and without PIDs."""
    return "".join(character for character in line.rpartition("] ")[2] if not character.isdigit())


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ("get_device_client_list", "Device GPU-1\n719\n724\n"),
        ("ps", "PID       ID    SERVER\n719       1     709\n"),
    ],
)
def test_an_answer_of_other_words_is_noticed(machine: gpu_machine.Machine, changed: str, to: str) -> None:
    machine.control_daemon()
    machine.start_server()
    clients = [machine.tenant().pid for _ in range(2)]
    (recording,) = RECORDINGS
    exchanges = [{**each, "output": to} if each["command"] == changed else each for each in recording["exchanges"]]
    with pytest.raises(AssertionError):
        compared(machine, {**recording, "exchanges": exchanges}, active.ACTIVE, *clients)
