"""Completion: scripts of the real command line, run by a real bash, and what kubectl is answered."""

import argparse
import os
import shutil
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from cotenant_api import cli
from cotenant_cli.commands import completing, completion


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    return cli.parser(cli.entries())


def words(parser: argparse.ArgumentParser, *typed: str) -> tuple[set[str], int]:
    found, directive = completing.candidates(parser, typed)
    return {one.word for one in found}, directive


def test_commands_are_completed_with_what_they_are_for(parser: argparse.ArgumentParser) -> None:
    found, directive = completing.candidates(parser, ["wh"])
    assert [one.word for one in found] == ["why"]
    assert found[0].about.startswith("say why a DLJob")
    assert directive == completing.NO_FILES


@pytest.mark.parametrize(
    ("typed", "some", "directive"),
    [
        ([""], {"why", "submit", "doctor", "node"}, completing.NO_FILES),
        (["node", ""], {"show", "drain"}, completing.NO_FILES),
        (["node", "drain", "n1", "--t"], {"--timeout"}, completing.NO_FILES),
        (["top", "-o", "j"], {"json"}, completing.NO_FILES),
        (["top", "--watch", "--out"], {"--output"}, completing.NO_FILES),
        (["top", "-n", "--wa"], {"--watch"}, completing.NO_FILES),
        (["why", "--kubeconfig", ""], set(), completing.FILES),
        (["why", "be"], set(), completing.FILES),
        (["top", ""], set(), completing.NO_FILES),
        (["completion", ""], {"bash", "zsh", "fish"}, completing.NO_FILES),
    ],
)
def test_what_may_follow_is_answered(
    parser: argparse.ArgumentParser, typed: list[str], some: set[str], directive: int
) -> None:
    found, told = words(parser, *typed)
    assert (found >= some, told) == (True, directive)
    assert bool(found) == bool(some)


def test_kubectls_program_prints_candidates_and_the_directive_last() -> None:
    entries = metadata.entry_points(group="console_scripts")
    (script,) = [entry for entry in entries if entry.name == "kubectl_complete-cotenant"]
    run = f"from {script.module} import {script.attr}; raise SystemExit({script.attr}())"
    ran = subprocess.run(
        [sys.executable, "-c", run, "node", ""], capture_output=True, text=True, check=True, timeout=60
    )
    lines = ran.stdout.splitlines()
    assert lines[-1] == ":4"
    assert lines[0].startswith("show\tits agent, GPUs")


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_script_knows_commands_options_and_files(parser: argparse.ArgumentParser, shell: str) -> None:
    script = completion.script(parser, shell)
    for word in ("submit", "doctor", "kubeconfig", "drain"):
        assert word in script


def test_bash_completes_by_the_script(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    program = tmp_path / "cotenant"
    program.touch()
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    file = tmp_path / "script"
    file.write_text(completion.script(parser, "bash"))
    ask = f"""
source {file}
COMP_WORDS=(cotenant node dr); COMP_CWORD=2; COMP_LINE='cotenant node dr'; COMP_POINT=16
$(complete -p cotenant | sed 's/.*-F \\([^ ]*\\).*/\\1/') cotenant dr node
echo "${{COMPREPLY[@]}}"
"""
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    ran = subprocess.run([bash, "--norc", "-c", ask], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["drain"], ran.stderr
