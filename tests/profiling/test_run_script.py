"""The script that carries a campaign from call to call, on the simulated GPU."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiling.conftest import Lab

SCRIPT = Path(__file__).parents[2] / "e2e" / "gpu" / "run.sh"
QUICK = "--device modelled --no-graphs --window-seconds 0.2 --ramp-seconds 0.05"


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    lab = Lab(tmp_path)
    own = {"COTENANT_SIMULATED_DEVICE": str(lab.folder / "gpu"), "PYTHON": sys.executable, "PROFILE": QUICK}
    return {"env": {**os.environ, **own}, "stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def test_a_second_call_goes_on_from_the_archives_of_the_first(tmp_path: Path, options: dict[str, Any]) -> None:
    archives = tmp_path / "archives"
    first = subprocess.run([SCRIPT, "smoke", "alone", archives], check=True, **options)
    assert first.stdout == f"{archives}/campaign-0.tar.gz\n"
    second = subprocess.run([SCRIPT, "smoke", "alone,triples", archives], check=True, **options)
    bar, summary = second.stderr.splitlines()
    assert bar.startswith("[########################] 6/6, triples 1/1")
    assert summary == "6 of 6 runs done, 0 left"


def test_a_call_that_is_ended_keeps_what_was_measured(tmp_path: Path, options: dict[str, Any]) -> None:
    archives = tmp_path / "archives"
    with subprocess.Popen([SCRIPT, "smoke", "alone,pairs", archives], **options) as process:
        assert process.stderr is not None
        assert "1/10" in process.stderr.readline()
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 143
    assert (archives / "campaign-0.tar.gz").exists()


def test_without_a_set_the_usage_is_shown(options: dict[str, Any]) -> None:
    found = subprocess.run([SCRIPT], check=False, **options)
    assert found.returncode != 0
    assert "usage: run.sh SET" in found.stderr
