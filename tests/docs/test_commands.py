"""Command blocks of the pages that need no cluster, run as they stand, each page in a folder of its own."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_api import cli
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


def typed(block: blocks.Block) -> Iterator[list[str]]:
    """The words of each `cotenant` that stands at the beginning of a line, up to what is the shell's or another's."""
    for step in blocks.steps(block) if block.language in blocks.COMMANDS else ():
        for line in step.script.replace("\\\n", " ").split("\n"):
            found = re.match(r"(?:kubectl )?cotenant (?=[a-z])(.*)", line)
            if found is not None:
                words = shlex.split(found[1], comments=True)
                ends = (place for place, word in enumerate(words) if re.match(r"[|&;]|2?[<>]|--$", word))
                yield words[: next(ends, len(words))]


LINES = {f"{block.page}: {shlex.join(words)}": words for block in blocks.of_pages(ROOT) for words in typed(block)}


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    return cli.parser(cli.entries())


@pytest.mark.parametrize("line", LINES)
def test_a_command_that_a_page_shows_is_one_that_there_is(line: str, parser: argparse.ArgumentParser) -> None:
    assert parser.parse_args(LINES[line]).command == LINES[line][0]
