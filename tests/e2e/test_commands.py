"""The command line: what is wrong is one line and exit code 1."""

import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_e2e import __main__ as command_line
from cotenant_e2e import configuration


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(configuration.REPOSITORY / "e2e")} | environment
    command = [sys.executable, "-m", "cotenant_e2e", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)


def test_a_wrong_folder_of_programs_is_one_line(tmp_path: Path) -> None:
    done = run("up", "--dir", str(tmp_path), HOME=str(tmp_path), COTENANT_KUBERNETES_BIN="/nowhere")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "cotenant: up: COTENANT_KUBERNETES_BIN: '/nowhere': name a folder of Kubernetes 1.36 programs, or unset it"
    ]


def test_the_status_of_nothing_is_one_line(tmp_path: Path) -> None:
    done = run("status", "--dir", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_an_error_of_the_machine_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state.json").mkdir()
    assert command_line.main(["status", "--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"cotenant: status: {tmp_path}/state.json: Is a directory\n"


def test_down_without_a_cluster_does_nothing(tmp_path: Path) -> None:
    assert command_line.main(["down", "--dir", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()


def test_down_can_wait_for_the_end_of_its_input(tmp_path: Path) -> None:
    done = run("down", "--dir", str(tmp_path), "--when-stdin-ends")
    assert done.returncode == 0


def test_wrong_arguments_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command_line.main(["up"])
    assert "--dir" in capsys.readouterr().err
