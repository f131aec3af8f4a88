"""Help and errors import no more than they need: modules are counted, as times depend on the machine."""

import subprocess
import sys

import pytest

HEAVY = {
    "fastapi",
    "grpc",
    "kopf",
    "kubernetes",
    "matplotlib",
    "numpy",
    "pydantic",
    "scipy",
    "sklearn",
    "torch",
    "yaml",
}
MOST = 330
"""Modules in all, of which Python has loaded 60 before anything is imported."""
SCRIPT = """
import sys
from cotenant_api import cli
try:
    cli.main({argv!r})
except SystemExit:
    pass
sys.stdout.flush()
print("MODULES", *sorted(sys.modules))
"""


@pytest.mark.parametrize(
    "argv",
    [["--help"], ["nope"], ["top", "--help"], ["submit", "--help"], ["why"], ["doctor", "--nope"], ["node", "show"]],
    ids=" ".join,
)
def test_help_and_errors_import_nothing_heavy(argv: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(argv=argv)], capture_output=True, text=True, check=True, timeout=120
    )
    modules = done.stdout.rpartition("MODULES ")[2].split()
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    assert len(modules) <= MOST
