"""What forges run is what people run: make targets alone, and all that `.ci/run` has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
GITHUB = REPOSITORY / ".github" / "workflows"
GITLAB = REPOSITORY / ".gitlab-ci.yml"
TARGETS = frozenset(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
COMMAND = re.compile(
    r'(?:sudo )?make (?:"?\$\{?\{? ?(?:matrix\.target|TARGET) ?\}?\}?"?|([a-z-]+))(?: [A-Z]+="[^"]*")*'
)


def github() -> Iterator[tuple[str, list[str], list[str]]]:
    """Jobs: name, commands, targets of the matrix."""
    for file in sorted(GITHUB.glob("*.yaml")):
        for name, job in yaml.safe_load(file.read_text())["jobs"].items():
            matrix = job.get("strategy", {}).get("matrix", {}).get("target", [])
            yield f"{file.name}:{name}", [step["run"] for step in job["steps"] if "run" in step], matrix


def gitlab() -> Iterator[tuple[str, list[str], list[str]]]:
    """The same of GitLab's."""
    value: dict[str, Any] = yaml.safe_load(GITLAB.read_text())
    for name, job in value.items():
        if isinstance(job, dict) and "script" in job:
            rows = job.get("parallel", {}).get("matrix", [])
            yield f"gitlab:{name}", job["script"], [target for row in rows for target in row["TARGET"]]


JOBS = [*github(), *gitlab()]


@pytest.mark.parametrize(("commands", "matrix"), [job[1:] for job in JOBS], ids=[job[0] for job in JOBS])
def test_a_job_runs_targets_of_the_makefile_and_nothing_else(commands: list[str], matrix: list[str]) -> None:
    found = [COMMAND.fullmatch(command) for command in commands]
    assert all(found)
    named = {match[1] for match in found if match is not None and match[1]}
    assert named | set(matrix) <= TARGETS


@pytest.mark.parametrize("forge", [github, gitlab])
def test_a_forge_runs_all_that_is_green_on_a_clean_clone(forge: Any) -> None:
    ran = {target for _, commands, matrix in forge() for target in (*matrix, *commands) if "test" in target or matrix}
    ran |= {command.removeprefix("sudo ").removeprefix("make ") for _, commands, _ in forge() for command in commands}
    script = (REPOSITORY / ".ci" / "run").read_text()
    wanted = set(re.findall(r"make (test-[a-z]+|lint|docs|packages)", script))
    test = re.search(r"^test: ([a-z -]+)##", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert test is not None
    assert wanted | set(test[1].split()) <= ran


@pytest.mark.parametrize("file", sorted(GITHUB.glob("*.yaml")), ids=lambda file: file.name)
def test_an_action_of_others_is_named_by_its_commit(file: Path) -> None:
    used = re.findall(r"uses: (\S+)", file.read_text())
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)
