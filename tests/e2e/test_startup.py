"""Starting a cluster, as far as it can be refused: etcd is a program that ends at once."""

from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import cluster, processes, startup, supervisor, waiting
from cotenant_e2e import state as states
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.components import Component, Settings
from cotenant_e2e.state import State
from cotenant_e2e.supervisor import Supervisor
from e2e import fakes


def programs(tmp_path: Path) -> dict[str, Path]:
    folder = fakes.write_kubernetes(tmp_path / "bin")
    fakes.write_program(folder / "etcd", "echo mkdir: no space left on device; exit 1")
    return {path.name: path for path in folder.iterdir()}


def running_cluster(directory: Path) -> processes.Process:
    (directory / "logs").mkdir(parents=True)
    state = State(Settings(directory, "127.0.0.1", {}, {}))
    states.write(state)
    return Supervisor(state, lambda _: True).start(Component("a", ("sleep", "600")))


def test_a_component_that_cannot_start_is_named_with_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(waiting.NotReadyError, match=r"etcd ended; .* no space left on device"):
        startup.start(tmp_path / "c", programs(tmp_path))


def test_a_failed_start_leaves_the_logs_and_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(waiting.NotReadyError):
        startup.start(tmp_path / "c", programs(tmp_path))
    assert (tmp_path / "c" / "logs" / "etcd.log").exists()
    assert {path.name for path in (tmp_path / "c").iterdir()} == {"logs", "lock"}


def test_a_failed_start_can_be_tried_again(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(waiting.NotReadyError, match="etcd ended"):
            startup.start(tmp_path / "c", programs(tmp_path))


def test_a_folder_with_a_running_cluster_is_refused_with_the_remedy(tmp_path: Path) -> None:
    process = running_cluster(tmp_path / "c")
    with pytest.raises(errors.PermanentError, match="holds a running cluster: stop it with `down --dir"):
        startup.start(tmp_path / "c", programs(tmp_path))
    assert process.alive()
    cluster.down(tmp_path / "c")


def test_a_crashed_cluster_makes_room(tmp_path: Path) -> None:
    running_cluster(tmp_path / "c").kill()
    with pytest.raises(waiting.NotReadyError, match="etcd ended"):
        startup.start(tmp_path / "c", programs(tmp_path))


def test_a_folder_with_foreign_data_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "c" / "pki").mkdir(parents=True)
    with pytest.raises(errors.PermanentError, match="holds pki, which no cluster left: choose an empty folder"):
        startup.start(tmp_path / "c", programs(tmp_path))
    assert (tmp_path / "c" / "pki").exists()


def test_a_folder_that_cannot_be_made_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.PermanentError, match="choose another folder with --dir"):
        startup.start(tmp_path / "file" / "c", programs(tmp_path))


def test_opening_a_folder_without_a_cluster_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(errors.PermanentError, match="holds no cluster: start one with `up --dir"):
        Cluster.open(tmp_path)


def test_processes_of_another_cluster_are_not_this_ones(tmp_path: Path) -> None:
    process = running_cluster(tmp_path / "other")
    try:
        assert supervisor.all_of(tmp_path / "c") == []
        cluster.down(tmp_path / "c")
        assert process.alive()
    finally:
        cluster.down(tmp_path / "other")
