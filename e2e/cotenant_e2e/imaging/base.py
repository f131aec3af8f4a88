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
DEFAULT_MIRROR: Final = "http://deb.debian.org/debian"
SOURCES: Final = Path("/etc/apt/sources.list.d/debian.sources")
NOTICE: Final = "base made by debootstrap, not pulled"


@dataclass(frozen=True)
class Origin:
    """Where packages come from. `sources`: apt's own file for the image, in its deb822 form."""

    mirror: str
    sources: str


def origin(machine: str | None) -> Origin:
    """The machine's mirrors where it is a Debian of this suite, else Debian's. `machine`: text of its `SOURCES`."""
    if machine:
        found = re.search(rf"^URIs: (\S+)\nSuites: .*\b{SUITE}\b", machine, re.MULTILINE)
        if found:
            return Origin(found.group(1), machine)
    stanzas = [(DEFAULT_MIRROR, f"{SUITE} {SUITE}-updates"), (f"{DEFAULT_MIRROR}-security", f"{SUITE}-security")]
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    texts = [
        f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {key}\n" for uri, suites in stanzas
    ]
    return Origin(DEFAULT_MIRROR, "\n".join(texts))


def make(engine: Engine, reference: str, *, scratch: Path) -> None:
    """Make the base and give it this name. `scratch`: a folder for what is in between; needs root and 400 MiB.

    Raises:
        PermanentError: no debootstrap, or it failed.
    """
    if not shutil.which("debootstrap"):
        raise errors.PermanentError(
            f"{reference} cannot be pulled, and there is no debootstrap: run {engines.PACKAGES}"
        )
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
