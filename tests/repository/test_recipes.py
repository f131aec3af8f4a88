"""The recipes of CONTRIBUTING.md, carried out as they stand on a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "predictor", "extender", "operator", "deviceplugin", "simulator", "cli", "dashboard", "e2e", "tests")
OTHERS = ("manifests", "charts", "docs", "pyproject.toml", "CONTRIBUTING.md", "extender/README.md")
COTENANT = "import sys; from cotenant_api import cli; sys.exit(cli.main(sys.argv[1:]))"
CHOSEN = """
from cotenant_api import packingpolicy
from cotenant_dashboard.view import policies
spec = packingpolicy.Spec.model_validate({"placement": "Fullest"})
print(policies.part(packingpolicy.PackingPolicy(generation=1, spec=spec), None)["chosen"])
"""


def section(title: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def steps_of(title: str) -> list[tuple[str, str]]:
    """The steps of a recipe that have code: the file that each names first, and the code as it stands in the file."""
    found = []
    for step in re.split(r"^\d\. ", section(title), flags=re.MULTILINE)[1:]:
        words, _, code = step.partition("   ```")
        if code:
            name = re.findall(r"`(\w+/[\w/-]+\.(?:py|js|md))`", words)[0]
            lines = code.partition("\n")[2].partition("   ```")[0].splitlines()
            found.append((name, "\n".join(line[3:] for line in lines) + "\n"))
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

    def append(self, name: str, code: str) -> None:
        """Put code at the end of a file."""
        self.write(name, (self.folder / name).read_text(encoding="utf-8") + f"\n\n{code}")

    def replace(self, name: str, code: str, *, at: str) -> None:
        """Put a line in the place of the one that begins so."""
        text = (self.folder / name).read_text(encoding="utf-8")
        (former,) = (line for line in text.splitlines(keepends=True) if line.startswith(at))
        self.write(name, text.replace(former, code))

    def generate(self) -> None:
        """Do what `make manifests reference` does."""
        for words in (("--write", "manifests/crds"), ("--reference", "docs/dljob.md")):
            self.python("-c", COTENANT, "crds", *words)
        for command in ("chart", "reference"):
            self.python("-m", "cotenant_e2e", command, "--write")

    def test(self, *names: str) -> None:
        """Run tests."""
        self.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *names)

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
    (choices, name), (placement, score), (registry, row), (tests, test) = steps_of("Add a placement")
    copy.insert(choices, name, behind="    RANDOM = ")
    copy.write(placement, score)
    copy.insert(registry, row, behind="        packingpolicy.Placement.RANDOM: ")
    copy.insert(registry, "    fullest,", behind="    fleet,")
    copy.append(tests, test)
    copy.generate()
    assert "- Fullest" in (copy.folder / "charts/cotenant/crds/cotenant.dev_packingpolicies.yaml").read_text()
    assert '"Fullest"' in (copy.folder / "charts/cotenant/values.schema.json").read_text()
    assert "`Fullest`" in (copy.folder / "docs/reference/packingpolicy.md").read_text()
    copy.test(tests)
    assert copy.python("-c", CHOSEN).strip() == "the fullest GPU that fits"


def test_a_field_that_pods_get_is_added_by_its_recipe(copy: Copy) -> None:
    steps = steps_of("Add a field of a DLJob that its pods get")
    (names, name), (types, field), (template, note), (upgrades, later), (tests, test) = steps
    copy.insert(names, name, behind="MINIMUM_RUN_SECONDS: ")
    copy.insert(types, field, behind='    """Controller that runs the Job')
    copy.insert(template, note, behind="        found[names.GPU_MODELS] = ")
    copy.insert(upgrades, later, behind='    "podFailurePolicy",')
    copy.append(tests, test)
    copy.generate()
    assert "purpose:" in (copy.folder / "charts/cotenant/crds/cotenant.dev_dljobs.yaml").read_text()
    assert "| `purpose` | string |" in (copy.folder / "docs/dljob.md").read_text()
    copy.test(tests, upgrades, "tests/repository/test_dljob_page.py")


def test_a_reason_is_added_by_its_recipe(copy: Copy) -> None:
    (reasons, name), (causes, cause), (page, row), (tests, test) = steps_of("Add a reason why a pod waits")
    copy.insert(reasons, name, behind='    INVALID_REQUEST = "InvalidRequest"')
    copy.replace(causes, cause, at="    NODE_GONE = ")
    copy.insert(page, row, behind="| `InvalidRequest` | ")
    copy.append(tests, test)
    copy.generate()
    copy.test(tests, "tests/extender/test_ledger.py", "tests/repository/test_dljob_page.py")


def test_a_figure_of_the_dashboard_is_added_by_its_recipe(copy: Copy) -> None:
    (view, figure), (script, title), (_, shown), (tests, test) = steps_of("Add a figure to the dashboard")
    copy.insert(view, figure, behind='        "freeGPUs": ')
    copy.insert(script, title, behind='  ["gpus", ')
    copy.insert(script, shown, behind='    this.#figures.get("gpus")')
    copy.append(tests, test)
    copy.test(tests)
