"""Folders that containers use are labelled for them; without SELinux nothing is."""

import os
import socket
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_deviceplugin import selinux

RUN = b"system_u:object_r:var_run_t:s0:c1,c2\0"
FOR_CONTAINERS = b"system_u:object_r:container_file_t:s0\0"


def labels(folder: Path) -> set[bytes]:
    paths = [folder, *folder.rglob("*")]
    return {os.getxattr(path, selinux.ATTRIBUTE) for path in paths}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may label")
def test_a_folder_and_what_an_earlier_life_left_in_it_is_for_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "GPU-0" / "pipe").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("GPU-0/pipe/control")
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.setxattr(path, selinux.ATTRIBUTE, RUN)
    selinux.label_for_containers(tmp_path)
    assert labels(tmp_path) == {FOR_CONTAINERS}


def test_without_selinux_the_folder_is_made_and_nothing_is_labelled(tmp_path: Path) -> None:
    selinux.label_for_containers(tmp_path / "mps")
    assert (tmp_path / "mps").is_dir()
    assert selinux.ATTRIBUTE not in os.listxattr(tmp_path / "mps")


def test_a_refusal_names_the_folder_and_the_value_of_the_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "getxattr", refuse)
    with pytest.raises(errors.PermanentError, match=r"mps: SELinux .*denied: .*node\.seLinuxOptions"):
        selinux.label_for_containers(tmp_path / "mps")
