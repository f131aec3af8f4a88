"""The recipes of CONTRIBUTING.md, carried out as they stand on a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "predictor", "extender", "operator", "deviceplugin", "simulator", "cli", "dashboard", "e2e", "tests")
OTHERS = ("manifests", "charts", "docs", "pyproject.toml", "CONTRIBUTING.md", "extender/README.md")
CHOSEN = """
from cotenant_api import packingpolicy
from cotenant_dashboard.view import policies
spec = packingpolicy.Spec.model_validate({"placement": "Fullest"})
print(policies.part(packingpolicy.PackingPolicy(generation=1, spec=spec), None)["chosen"])
"""


def section(title: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str) -> dict[str, str]:
    """The code of a recipe's steps, by the file that each names first."""
    found = {}
    for step in re.split(r"^\d\. ", text, flags=re.MULTILINE)[1:]:
        words, _, code = step.partition("```python\n")
        if code:
            found[re.findall(r"`(\w+/[\w/]+\.py)`", words)[0]] = textwrap.dedent(code.partition("```")[0])
    return found


class Copy:
    """A copy of what a recipe may touch, and programs that run from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", *PACKAGES, *OTHERS], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in listed.stdout.splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)

    def insert(self, name: str, code: str, *, behind: str) -> None:
        """Put code behind the last line that begins so."""
        lines = (self.folder / name).read_text(encoding="utf-8").splitlines()
        place = max(number for number, line in enumerate(lines) if line.startswith(behind))
        lines[place + 1 : place + 1] = code.splitlines()
        self.write(name, "\n".join(lines) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def python(self, *words: str) -> str:
        """What a program says that does its work."""
        path = os.pathsep.join(str(self.folder / package) for package in PACKAGES)
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_placement_is_added_by_its_recipe(copy: Copy) -> None:
    steps = blocks(section("Add a placement"))
    choices, placement, registry, tests = steps
    assert [Path(name).name for name in steps] == ["choices.py", "fullest.py", "registry.py", "test_placements.py"]
    copy.insert(choices, textwrap.indent(steps[choices], "    "), behind="    RANDOM = ")
    copy.write(placement, steps[placement])
    copy.insert(registry, textwrap.indent(steps[registry], " " * 8), behind="        packingpolicy.Placement.RANDOM: ")
    copy.insert(registry, "    fullest,", behind="    fleet,")
    copy.insert(tests, f"\n\n{steps[tests]}", behind="    ")
    cotenant = ("-c", "import sys; from cotenant_api import cli; sys.exit(cli.main(sys.argv[1:]))")
    copy.python(*cotenant, "crds", "--write", "manifests/crds")
    for command in ("chart", "reference"):
        copy.python("-m", "cotenant_e2e", command, "--write")
    assert "- Fullest" in (copy.folder / "charts/cotenant/crds/cotenant.dev_packingpolicies.yaml").read_text()
    assert '"Fullest"' in (copy.folder / "charts/cotenant/values.schema.json").read_text()
    assert "`Fullest`" in (copy.folder / "docs/reference/packingpolicy.md").read_text()
    copy.python("-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert copy.python("-c", CHOSEN).strip() == "the fullest GPU that fits"
