"""A stand-in for the base image where no registry can be reached: Debian's own packages, by debootstrap.

The image of that name is Debian's, made the same way by its makers; this one is made here, and whoever sees it is told.
"""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_e2e.imaging import engines
from cotenant_e2e.imaging.engines import Engine

SUITE: Final = "bookworm"
SOURCES: Final = Path("/etc/apt/sources.list.d/debian.sources")
NOTICE: Final = "base made by debootstrap, not pulled"


@dataclass(frozen=True)
class Origin:
    """Where packages come from. `sources`: apt's own file for the image, in its deb822 form."""

    mirror: str
    sources: str


def origin(machine: str | None) -> Origin:
    """Return the machine's own mirrors, security updates included. `machine`: text of its `SOURCES`.

    Raises:
        PermanentError: it is no Debian of this suite.
    """
    found = re.search(rf"^URIs: (\S+)\nSuites: .*\b{SUITE}\b", machine or "", re.MULTILINE)
    if not machine or not found:
        remedy = "name a base that can be pulled with IMAGE_BASE, or build on Debian"
        raise errors.PermanentError(f"{SOURCES} names no mirror of {SUITE} to make a base of: {remedy}")
    return Origin(found.group(1), machine)


def make(engine: Engine, reference: str, *, scratch: Path) -> None:
    """Make the base and give it this name. `scratch`: a folder for what is in between; needs root and 400 MiB.

    Raises:
        PermanentError: no debootstrap, no mirror, or it failed.
    """
    if not shutil.which("debootstrap"):
        remedy = f"run {engines.PACKAGES} as root, or name a base that can be pulled with IMAGE_BASE"
        raise errors.PermanentError(f"{reference} cannot be pulled, and there is no debootstrap: {remedy}")
    source = origin(SOURCES.read_text() if SOURCES.exists() else None)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        root, archive = Path(folder) / "root", Path(folder) / "base.tar"
        _run("debootstrap", "--variant=minbase", SUITE, str(root), source.mirror)
        (root / "etc" / "apt" / "sources.list").unlink(missing_ok=True)
        (root / "etc" / "apt" / "sources.list.d" / SOURCES.name).write_text(source.sources)
        _run("chroot", str(root), "apt-get", "clean")
        _run("tar", "-C", str(root), "--numeric-owner", "-cf", str(archive), ".")
        engine.import_(archive, reference)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise errors.PermanentError(f"{command[0]} failed: {errors.shortened(said[-1] if said else 'it says nothing')}")
