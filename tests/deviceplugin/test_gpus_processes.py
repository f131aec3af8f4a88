"""Whose a process is."""

import os
from pathlib import Path

import pytest

from cotenant_api.names import PodUID
from cotenant_deviceplugin.gpus import processes

UID = "8f14e45f-ceea-467f-9575-7b6f2c0f3a11"
OTHER = "c9f0f895-fb98-4b91-99f5-1fd0297e236d"
FLAT = UID.replace("-", "_")
ID = "0" * 64


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/pod{UID}/{ID}",
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods/besteffort/pod{UID}/crio-{ID}",
        f"/kubepods.slice/kubepods-pod{FLAT}.slice/cri-containerd-{ID}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice/cri-containerd-{ID}.scope",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{FLAT}.slice/crio-{ID}.scope/container",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{FLAT}.slice/cri-containerd-{ID}.scope",
        f"/system.slice/containerd.service/kubepods-burstable-pod{FLAT}.slice:cri-containerd:{ID}",
        f"/../../besteffort/pod{UID}/{ID}",
        f"/k8s.io/kubepods/burstable/pod{UID}/{ID}/init.scope",
    ],
)
def test_the_pod_is_found_however_its_cgroup_is_named(path: str) -> None:
    assert processes.pod_in(f"0::{path}\n") == UID


def test_a_static_pod_has_the_hash_that_kubelet_gave_it() -> None:
    digits = UID.replace("-", "")
    assert processes.pod_in(f"0::/kubepods/burstable/pod{digits}/{ID}\n") == digits


def test_all_hierarchies_of_version_1_are_read() -> None:
    text = f"12:pids:/kubepods/pod{UID}/{ID}\n5:cpu,cpuacct:/kubepods/pod{UID}/{ID}\n1:name=systemd:/\n0::/\n"
    assert processes.pod_in(text) == UID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/\n",
        "0::/user.slice/user-1000.slice/session-1.scope\n",
        "0::/system.slice/containerd.service\n",
        "no cgroup\n",
        f"0::/kubepods/pod{UID}x/{ID}\n",
        f"0::/docker/{ID}\n",
    ],
)
def test_a_process_of_no_pod_has_none(text: str) -> None:
    assert processes.pod_in(text) is None


def test_hierarchies_that_contradict_one_another_name_no_pod() -> None:
    assert processes.pod_in(f"2:cpu:/kubepods/pod{UID}/{ID}\n1:memory:/kubepods/pod{OTHER}/{ID}\n") is None


def test_a_cgroup_that_a_container_made_below_its_own_does_not_count() -> None:
    assert processes.pod_in(f"0::/kubepods/pod{UID}/{ID}/kubepods/pod{OTHER}/{ID}\n") == UID


def process(proc: Path, pid: int, text: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(text)


def test_processes_are_sorted_by_owner(tmp_path: Path) -> None:
    process(tmp_path, 10, f"0::/kubepods/pod{UID}/{ID}\n")
    process(tmp_path, 11, "0::/user.slice\n")
    process(tmp_path, 12, f"0::/kubepods/pod{OTHER}/{ID}\n")
    owned = processes.Processes(proc=tmp_path).owned([10, 11, 12, 13], ours=[12])
    assert owned == processes.Owned({10: PodUID(UID)}, frozenset({11}), frozenset({13}))


def test_a_cgroup_that_a_container_named_by_any_bytes_is_read(tmp_path: Path) -> None:
    (tmp_path / "10").mkdir()
    (tmp_path / "10" / "cgroup").write_bytes(f"0::/kubepods/pod{UID}/{ID}/".encode() + b"\xff\n")
    assert processes.Processes(proc=tmp_path).pod_of(10) == UID


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_a_name_with_what_ends_lines_elsewhere_is_one_line(mark: str) -> None:
    assert processes.pod_in(f"0::/kubepods/pod{UID}/{ID}/a{mark}0::/kubepods/pod{OTHER}/{ID}\n") == UID


def test_one_process_is_asked_for(tmp_path: Path) -> None:
    process(tmp_path, 10, f"0::/kubepods/pod{UID}/{ID}\n")
    process(tmp_path, 11, "0::/\n")
    table = processes.Processes(proc=tmp_path)
    assert [table.pod_of(pid) for pid in (10, 11, 12)] == [UID, None, None]


def test_this_process_is_of_no_pod_of_a_test_cluster() -> None:
    owned = processes.Processes().owned([os.getpid()])
    assert owned.gone == frozenset()
