"""Builds the Python package as it would be published, and checks it. Publishes nothing."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from cotenant_api import errors
from cotenant_e2e import configuration


def build(folder: Path) -> list[Path]:
    """Build the source distribution, and the wheel from what is in that; both are checked.

    Raises:
        PermanentError: one cannot be built, or twine refuses it.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], configuration.REPOSITORY)
    (source,) = folder.glob("*.tar.gz")
    unpacked = folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(source) as archive:
        archive.extractall(unpacked, filter="data")
    (tree,) = unpacked.glob("cotenant-*")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], tree)
    (wheel,) = folder.glob("*.whl")
    check([source, wheel])
    return [source, wheel]


def check(distributions: Sequence[Path]) -> None:
    """Have twine check what an index would refuse or show wrongly.

    Raises:
        PermanentError: twine refuses one; the message says why.
    """
    _run([sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions)], configuration.REPOSITORY)


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"}
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        name = " ".join(command[2:4])
        raise errors.PermanentError(f"{name} failed: {errors.shortened(said[-1] if said else 'it says nothing')}")
