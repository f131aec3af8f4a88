"""Background processes of the kit, with real ones."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import processes, waiting
from cotenant_e2e.processes import Process

SLEEP = ["sleep", "600"]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = processes.start(SLEEP, log=tmp_path / "log", environment=os.environ)
    yield process
    process.kill()


def test_a_started_process_runs_and_stops(sleeper: Process) -> None:
    assert sleeper.alive()
    sleeper.stop()
    assert not sleeper.alive()


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_time(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 600; done"
    process = processes.start(["sh", "-c", script], log=tmp_path / "log", environment=os.environ)
    waiting.wait_until(lambda: processes.last_line(tmp_path / "log") == "ready", "trap", 10)
    process.stop(grace_seconds=0.1)
    assert not process.alive()


def test_another_process_with_the_same_pid_is_left_alone(sleeper: Process) -> None:
    earlier = Process(sleeper.pid, str(int(sleeper.started) - 1))
    assert not earlier.alive()
    earlier.stop()
    earlier.kill()
    assert sleeper.alive()


def test_a_killed_process_is_not_alive_though_nobody_waited_for_it(sleeper: Process) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)
    waiting.wait_until(lambda: not sleeper.alive(), "end", 10)
    assert sleeper.rss_mib() == 0


def test_memory_is_counted(tmp_path: Path) -> None:
    assert Process.of(os.getpid()).rss_mib() > 5


def test_output_and_errors_go_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = processes.start(["sh", "-c", "echo one; echo two >&2"], log=log, environment=os.environ)
    waiting.wait_until(lambda: not process.alive(), "end", 10)
    assert log.read_text() == "one\ntwo\n"
    assert log.stat().st_mode & 0o077 == 0


def test_a_program_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(errors.PermanentError, match="cannot start /nowhere/etcd: No such file or directory"):
        processes.start(["/nowhere/etcd"], log=tmp_path / "log", environment=os.environ)


def test_processes_are_found_by_a_variable_of_theirs(tmp_path: Path) -> None:
    marked = processes.start(SLEEP, log=tmp_path / "log", environment=os.environ | {"MARK": str(tmp_path)})
    try:
        waiting.wait_until(lambda: processes.with_variable("MARK", str(tmp_path)) == [marked], "the process", 10)
    finally:
        marked.kill()
    assert processes.with_variable("MARK", str(tmp_path)) == []


def stat(name: str, state: str, *, threads: int) -> str:
    fields = [str(number) for number in range(4, 30)]
    fields[20 - 4] = str(threads)
    return f"7 ({name}) {state} {' '.join(fields)}\n"


@pytest.mark.parametrize(
    ("text", "started"),
    [
        (stat("etcd", "S", threads=9), "22"),
        (stat("a) b (c", "R", threads=1), "22"),
        (stat("etcd", "Z", threads=1), ""),
        (stat("etcd", "Z", threads=9), "22"),
        (stat("etcd", "X", threads=0), ""),
    ],
)
def test_a_process_lives_until_its_last_thread_has_ended(text: str, started: str) -> None:
    assert processes.start_time_of(text) == started


def test_the_last_line_of_a_log_explains_an_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nbind: address already in use\n\n")
    assert processes.last_line(log) == "bind: address already in use"
    assert processes.last_line(tmp_path / "none") == ""
