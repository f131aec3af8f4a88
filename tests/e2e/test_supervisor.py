"""Starting, killing and restarting processes of a cluster, with small real ones."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_e2e import cluster, processes, supervisor, waiting
from cotenant_e2e import state as states
from cotenant_e2e.components import Component, Settings
from cotenant_e2e.state import State
from cotenant_e2e.supervisor import Supervisor

SLEEP = ("sleep", "600")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "logs").mkdir()
    yield tmp_path
    cluster.down(tmp_path)


def supervise(directory: Path, *answering: str) -> Supervisor:
    """Of a new cluster; these URLs answer."""
    state = State(Settings(directory, "127.0.0.1", {}, {}))
    states.write(state)
    return Supervisor(state, lambda url: url in answering)


def is_ready(log: Path) -> bool:
    return processes.last_line(log) == "ready"


def test_a_process_that_answers_is_ready(directory: Path) -> None:
    running = supervise(directory, "http://up")
    running.start(Component("a", SLEEP, ready="http://up"))
    running.wait("a", 10)
    assert [(status.name, status.alive) for status in running.status()] == [("a", True)]


def test_a_process_that_ends_is_named_with_the_last_line_of_its_log(directory: Path) -> None:
    running = supervise(directory)
    running.start(Component("etcd", ("sh", "-c", "echo address already in use; exit 1"), ready="http://down"))
    with pytest.raises(waiting.NotReadyError, match=r"etcd ended; .*etcd\.log ends with: address already in use"):
        running.wait("etcd", 10)


def test_a_process_that_does_not_answer_in_time_is_named_with_its_log(directory: Path) -> None:
    running = supervise(directory)
    running.start(Component("a", SLEEP, ready="http://down"))
    with pytest.raises(waiting.NotReadyError, match=r"not within 0\.1 s: a ready; .*a\.log ends with: "):
        running.wait("a", 0.1)


def test_a_killed_process_is_restarted_as_it_was(directory: Path) -> None:
    running = supervise(directory)
    before = running.start(Component("a", ("sh", "-c", 'echo "$COLOR"; exec sleep 600')), {"COLOR": "green"})
    waiting.wait_until(lambda: processes.last_line(running.log("a")) == "green", "start", 10)
    running.kill("a")
    assert not running.process("a").alive()
    after = running.restart("a")
    assert after != before
    waiting.wait_until(lambda: running.log("a").read_text() == "green\ngreen\n", "restart", 10)


def test_a_paused_process_stands_still_until_it_is_resumed(directory: Path) -> None:
    running = supervise(directory)
    process = running.start(Component("a", SLEEP))

    def state() -> str:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    running.pause("a")
    waiting.wait_until(lambda: state() == "T", "stopped", 10)
    running.resume("a")
    waiting.wait_until(lambda: state() != "T", "going on", 10)
    assert process.alive()


def test_a_stopped_process_is_forgotten(directory: Path) -> None:
    running = supervise(directory)
    process = running.start(Component("a", SLEEP))
    running.stop("a")
    assert not process.alive()
    assert running.status() == []


def test_no_process_inherits_the_users_kubeconfig(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/a/production")
    running = supervise(directory)
    running.start(Component("a", ("sh", "-c", 'echo "is ${KUBECONFIG:-unset}"; exec sleep 600')))
    waiting.wait_until(lambda: processes.last_line(running.log("a")) == "is unset", "output", 10)


def test_down_stops_in_reverse_order_from_another_process(directory: Path) -> None:
    running = supervise(directory)
    script = "trap 'echo {0} >> {1}/order; exit' TERM; echo ready; while :; do sleep 0.05; done"
    for name in ("first", "second"):
        running.start(Component(name, ("sh", "-c", script.format(name, directory))))
        waiting.wait_until(functools.partial(is_ready, running.log(name)), "trap", 10)
    cluster.down(directory)
    assert (directory / "order").read_text().split() == ["second", "first"]
    assert states.read(directory) is None


def test_down_finds_processes_that_their_starter_had_no_time_to_remember(directory: Path) -> None:
    running = supervise(directory)
    lost = processes.start(SLEEP, log=running.log("lost"), environment=os.environ | {supervisor.MARK: str(directory)})
    waiting.wait_until(lambda: lost in supervisor.all_of(directory), "the process", 10)
    cluster.down(directory)
    assert not lost.alive()


def test_down_leaves_the_logs_and_removes_the_data(directory: Path) -> None:
    running = supervise(directory)
    running.start(Component("a", SLEEP))
    (directory / "etcd").mkdir()
    cluster.down(directory)
    assert running.log("a").exists()
    assert not (directory / "etcd").exists()


def test_down_twice_is_down_once(directory: Path) -> None:
    supervise(directory).start(Component("a", SLEEP))
    cluster.down(directory)
    cluster.down(directory)
    assert states.read(directory) is None
