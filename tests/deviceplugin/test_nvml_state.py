"""The stand-in's folder: what is written is read back, whole."""

from pathlib import Path

import pytest

from cotenant_standin import state


def test_a_created_machine_has_its_gpus_idle_and_loaded(tmp_path: Path) -> None:
    made = state.create(tmp_path, (state.H200, state.T4))
    first, second = made.gpus()
    assert (first.read("name"), first.memory_mib, first.compute_mode) == ("NVIDIA H200", 143771, 0)
    assert (second.read("compute_capability"), second.processes(), made.loaded) == ("7.5", {}, True)
    assert first.uuid != second.uuid
    assert made.by_uuid(second.uuid).index == 1


def test_a_model_without_a_feature_has_no_file_for_it(tmp_path: Path) -> None:
    gpu = state.create(tmp_path, (state.T4,)).gpu(0)
    with pytest.raises(FileNotFoundError):
        gpu.read("remap_pending")


def test_processes_come_change_and_go(tmp_path: Path) -> None:
    gpu = state.create(tmp_path).gpu(0)
    gpu.add_process(12, 100)
    gpu.add_process(12, 300)
    gpu.add_process(7, 50, mps=True)
    assert (gpu.processes(), gpu.mps_processes()) == ({12: 300}, {7: 50})
    gpu.remove_process(12)
    gpu.remove_process(12)
    assert gpu.processes() == {}


def test_a_value_being_written_is_no_process(tmp_path: Path) -> None:
    gpu = state.create(tmp_path).gpu(0)
    (gpu.root / "processes" / ".tmp12").write_text("")
    assert gpu.processes() == {}


def test_events_are_appended(tmp_path: Path) -> None:
    made = state.create(tmp_path)
    made.raise_xid(0, 31)
    made.raise_xid(0, 79)
    assert made.xids() == ((0, 31), (0, 79))


def test_a_gpu_is_lost_and_comes_back(tmp_path: Path) -> None:
    gpu = state.create(tmp_path).gpu(0)
    gpu.lose()
    assert gpu.lost
    gpu.restore()
    assert not gpu.lost


def test_the_driver_goes_and_comes_back(tmp_path: Path) -> None:
    made = state.create(tmp_path)
    made.unload()
    assert not made.loaded
    made.load()
    assert made.loaded


def test_the_environment_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(state.FOLDER_VARIABLE, str(tmp_path))
    assert state.folder() == tmp_path
    monkeypatch.delenv(state.FOLDER_VARIABLE)
    assert state.folder() == state.DEFAULT_FOLDER


def test_the_compute_mode_is_set_and_read(tmp_path: Path) -> None:
    gpu = state.create(tmp_path).gpu(0)
    gpu.compute_mode = state.ComputeMode.EXCLUSIVE_PROCESS
    assert gpu.compute_mode is state.ComputeMode.EXCLUSIVE_PROCESS
    gpu.unset("compute_mode")
    with pytest.raises(FileNotFoundError):
        gpu.read("compute_mode")
