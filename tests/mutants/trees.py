"""Copies of the extender's package, one file of which may be another. The sources are only read."""

import os
import shutil
import sys
from pathlib import Path

from mutants import mutation

PACKAGE = mutation.SOURCES.name


def copied(folder: Path, mutant: mutation.Mutant | None = None) -> Path:
    """Put a copy of the package into an empty folder, with a mutant's file; returns the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(mutation.SOURCES, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        (folder / PACKAGE / mutant.file).write_text(mutant.content)
    return folder


def module(file: str) -> str:
    """Return the name of the module in a file below the package's folder."""
    return ".".join((PACKAGE, *Path(file).with_suffix("").parts)).removesuffix(".__init__")


def use(folder: Path) -> None:
    """Import the package from a folder in this process, and in those that it starts.

    Raises:
        RuntimeError: the package was imported before.
    """
    if PACKAGE in sys.modules:
        raise RuntimeError(f"{PACKAGE} was imported before its copy in {folder} could be")
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    sys.dont_write_bytecode = True
