"""The command line: subcommands from entry points, and errors as one line."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import cotenant_api
from cotenant_api import cli
from cotenant_api.commands import crds


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"cotenant {cotenant_api.__version__}\n"


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["conquer"])
    assert stopped.value.code == 2
    assert "invalid choice: 'conquer'" in capsys.readouterr().err


def test_a_cotenant_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["crds", "--check", "/nowhere"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cotenant: crds: /nowhere/")
    assert captured.err.count("\n") == 1


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from cotenant_api import cli
sys.exit(cli.main({argv!r}))
"""


@pytest.mark.parametrize(
    ("missing", "argv", "extra"),
    [
        ("numpy", ["predict", "graph.json"], "predictor"),
        ("fastapi", ["extender"], "extender"),
        ("kopf", ["operator"], "operator"),
        ("kubernetes", ["why", "job"], "cli"),
        ("h11", ["simulated-agents", "--config", "agents.yaml"], "deviceplugin"),
    ],
)
def test_a_missing_extra_says_which_to_install(missing: str, argv: list[str], extra: str) -> None:
    script = WITHOUT.format(missing=missing, argv=argv)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert f"pip install '.[{extra}]' in a clone" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_the_commands_without_any_extra() -> None:
    script = WITHOUT.format(missing="numpy", argv=["--help"])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    for command in ("crds", "extract", "predict", "extender", "operator", "simulated-agents", "top", "why"):
        assert command in done.stdout


@pytest.fixture
def abandoned() -> Iterator[int]:
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(("argument", "code"), [("crds", 0), ("--help", cli.NO_READER), ("--version", cli.NO_READER)])
def test_a_reader_that_goes_ends_a_command_without_a_traceback(abandoned: int, argument: str, code: int) -> None:
    script = f"import sys; from cotenant_api import cli; sys.exit(cli.main([{argument!r}]))"
    # Buffered, as it is for people: else argparse itself is silent about the pipe.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, stdout=abandoned, stderr=subprocess.PIPE, env=environment, check=False, timeout=60)
    assert (done.stderr, done.returncode) == (b"", code)


def test_another_pipe_that_breaks_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(crds, "run", run)
    with pytest.raises(BrokenPipeError):
        cli.main(["crds"])
