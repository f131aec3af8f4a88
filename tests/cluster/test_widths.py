"""What people read fits their terminal, on a real pseudo-terminal of 80 and of 160 columns."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from cli import bad_words
from cluster.workloads import Workspace, template
from cotenant_api.dljob import Phase
from cotenant_e2e.installation import COTENANT

_COLOUR = re.compile(r"\x1b\[\d*m")


def on_a_terminal(columns: int, *words: str) -> list[str]:
    """The lines that a command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([COTENANT, *words], stdout=theirs, stderr=subprocess.STDOUT) as process:
        os.close(theirs)
        read = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # as Linux says that the other end is closed
                break
            if not more:
                break
            read += more
        os.close(ours)
        assert process.wait() == 0, read.decode()
    return [_COLOUR.sub("", line) for line in read.decode().replace("\r\n", "\n").splitlines()]


@pytest.fixture
def shown(workspace: Workspace, tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """Commands by name, in a cluster in which a job of a long name runs, and another waits."""
    graph = tmp_path / "graph.json"
    graph.write_bytes(bad_words.GRAPH)
    long = "a-rather-long-name-of-a-training-job-of-the-team"
    workspace.dljob(long, template=template(run_for=""))
    workspace.wait_for_phase(long, Phase.RUNNING)
    workspace.dljob("waits", gpuMemory="900Gi")
    workspace.wait_for_condition("waits", "Queued", "True", "NeverFits")
    told = ("--kubeconfig", str(workspace.installation.cluster.kubeconfig()))
    return {
        "top": ("top", *told),
        "doctor": ("doctor", *told),
        "why": ("why", f"{workspace.namespace}/{long}", *told),
        "why waits": ("why", f"{workspace.namespace}/waits", *told),
        "node": ("node", "show", "h200-0", *told),
        "predict": ("predict", str(graph)),
    }


def test_no_line_is_wider_than_the_terminal(shown: dict[str, tuple[str, ...]]) -> None:
    for name, words in shown.items():
        for columns in (80, 160):
            lines = on_a_terminal(columns, *words)
            assert [line for line in lines if len(line) > columns] == [], f"{name} at {columns}"
    narrow, wide = (on_a_terminal(columns, *shown["top"])[0].split() for columns in (80, 160))
    assert len(wide) > len(narrow)
    assert on_a_terminal(80, *shown["predict"])[0].startswith("GRAPH")
    assert on_a_terminal(80, *shown["predict"], "-o", "json")[0].startswith("{")
