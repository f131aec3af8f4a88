"""What a cluster's folder remembers."""

import dataclasses
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import state as states
from cotenant_e2e.components import Settings
from cotenant_e2e.processes import Process
from cotenant_e2e.state import Record, State


def state(directory: Path) -> State:
    return State(Settings(directory, "127.0.0.1", {"etcd": 20_000}, {"etcd": Path("/bin/etcd")}, lease_seconds=200))


def record(name: str, pid: int) -> Record:
    return Record(name, Process(pid, "12345"), ("/bin/x", "--flag"), {"A": "b"}, "http://127.0.0.1:1/healthz")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = state(tmp_path).with_record(record("etcd", 1)).with_record(record("operator", 2))
    states.write(written)
    assert states.read(tmp_path) == written


def test_the_state_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    states.write(state(tmp_path))
    assert (tmp_path / states.FILE).stat().st_mode & 0o077 == 0


def test_a_folder_without_a_cluster_has_no_state(tmp_path: Path) -> None:
    assert states.read(tmp_path) is None


def test_a_restarted_process_keeps_its_place(tmp_path: Path) -> None:
    before = state(tmp_path).with_record(record("etcd", 1)).with_record(record("operator", 2))
    after = before.with_record(record("etcd", 3))
    assert [(entry.name, entry.process.pid) for entry in after.records] == [("etcd", 3), ("operator", 2)]


def test_a_forgotten_process_is_gone(tmp_path: Path) -> None:
    after = state(tmp_path).with_record(record("etcd", 1)).without_record("etcd")
    assert after == state(tmp_path)


def test_an_unknown_process_is_refused_with_the_known_names(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="name one of these: etcd"):
        state(tmp_path).with_record(record("etcd", 1)).record("etdc")


@pytest.mark.parametrize("text", ["", "{", "{}", '{"v": 2, "settings": {}, "records": []}', "[]"])
def test_an_unreadable_state_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / states.FILE).write_text(text)
    with pytest.raises(errors.InvalidInputError, match="remove the folder"):
        states.read(tmp_path)


def test_states_are_values(tmp_path: Path) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        state(tmp_path).records = ()  # type: ignore[misc]
