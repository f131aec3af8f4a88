"""The demo needs less than development does: every command loads with what the demo installs, and no more."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from cotenant_e2e import __main__ as dispatcher

REPOSITORY = Path(__file__).parents[2]
NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)
LOADED = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}: the demo installs it not", name=name)

sys.meta_path.insert(0, Absent())
from cotenant_e2e import __main__ as dispatcher
for name in dispatcher.COMMANDS:
    dispatcher._command(name)
"""


def locked(name: str) -> set[str]:
    """Distributions of a lock file, by their normal names."""
    text = (REPOSITORY / "locks" / f"{name}.txt").read_text()
    return {re.sub(r"[-_.]+", "-", found).lower() for found in NAME.findall(text)}


def test_every_command_loads_with_what_the_demo_installs() -> None:
    beyond = locked("dev") - locked("demo")
    assert "cyclonedx-python-lib" in beyond
    absent = {
        module
        for module, distributions in metadata.packages_distributions().items()
        if all(re.sub(r"[-_.]+", "-", each).lower() in beyond for each in distributions)
    }
    script = LOADED.format(absent=sorted(absent))
    environment = {"PYTHONPATH": str(Path(dispatcher.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
