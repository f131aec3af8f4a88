"""Command blocks of the pages that need no cluster, run as they stand, each page in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_e2e.documentation import blocks

ROOT = Path(__file__).parents[2]
STEPS = blocks.run_by("tests/docs/test_commands.py", ROOT)
SHOWN = ("docs", "manifests", "predictor")
"""Folders of the repository that commands name."""
SECONDS = 300


@pytest.mark.parametrize("page", STEPS)
def test_the_commands_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    for folder in SHOWN:
        (tmp_path / folder).symlink_to(ROOT / folder)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for step in STEPS[page]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", step.script],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        assert blocks.missing(step, done.stdout) == []
