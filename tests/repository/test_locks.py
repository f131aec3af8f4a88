"""The lock files: what they name is installed, file by file, and what the demo installs first stays as it is."""

import re
import subprocess
from pathlib import Path

import pytest

from cotenant_e2e import configuration

ROOT = configuration.REPOSITORY
LOCKS = ROOT / "locks"
EVERY = sorted((*LOCKS.glob("*.txt"), *ROOT.glob("images/locks/*.txt")))
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}(?= |$)")


def pins(file: Path) -> dict[str, str]:
    """Versions by package."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", file.read_text(), re.MULTILINE))


def test_what_the_demo_installs_has_the_versions_of_development() -> None:
    demo, development = pins(LOCKS / "demo.txt"), pins(LOCKS / "dev.txt")
    assert len(demo) > 50
    assert {name: version for name, version in demo.items() if development.get(name, version) != version} == {}


def requirements(lock: Path) -> list[str]:
    """Each requirement on one line, without comments."""
    joined = lock.read_text().replace("\\\n", " ")
    return [line for line in joined.splitlines() if line and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("lock", EVERY, ids=lambda path: path.name)
def test_every_package_of_a_lock_has_a_version_and_hashes(lock: Path) -> None:
    found = requirements(lock)
    assert found
    for line in found:
        assert re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+", line), line
        assert HASH.search(line), line


def test_environments_are_made_by_hash_alone() -> None:
    script = (ROOT / "scripts" / "make-venv").read_text()
    installing = [line for line in script.splitlines() if re.search(r"pip (install|sync)\b|/pip\" install", line)]
    assert len(installing) == 2
    assert all("--require-hashes" in line for line in installing)


def test_make_lock_writes_hashes() -> None:
    recipe = subprocess.run(["make", "-n", "lock"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = (recipe + (ROOT / "scripts" / "lock-images").read_text()).splitlines()
    compiling = [line for line in lines if "pip compile" in line]
    assert len(compiling) == 4
    assert all("--generate-hashes" in line for line in compiling)
