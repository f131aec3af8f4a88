"""Reads a script that is to run as a job, with the modules beside it that it imports. Sends nothing."""

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import errors

FOLDER: Final = "/opt/cotenant/code"
"""Where the container finds what the ConfigMap holds."""
MAX_BYTES: Final = 900 * 1024
"""Of all files: an object of Kubernetes has 1 MiB at most, as JSON."""
CONFIG_MAP: Final = "configmap"
IMAGE: Final = "image"
PLACES: Final = (CONFIG_MAP, IMAGE)
_SUFFIX: Final = ".py"
_IN_THE_IMAGE: Final = f"build it into the image, and name its path there with --code {IMAGE}"
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")


@dataclass(frozen=True, slots=True)
class Code:
    """A script.

    Attributes:
        path: in the container.
        files: what its ConfigMap holds, by name; empty: the image has it.
    """

    path: str
    files: Mapping[str, str]


def is_script(target: str) -> bool:
    """Return whether MODEL names a script."""
    return target.endswith(_SUFFIX) and ":" not in target


def read(target: str, place: str) -> Code:
    """Return a script with the modules that it imports from its own folder, and those import.

    Args:
        target: path of the script; in the image where `place` is `IMAGE`.
        place: one of `PLACES`.

    Raises:
        InvalidInputError: a file cannot be read, is no Python, or does not fit; or a package is imported, which a
            ConfigMap cannot hold.
    """
    if place == IMAGE:
        return Code(target, {})
    script = Path(target)
    # Python looks for modules beside the file itself where the script is a link.
    folder = script.resolve().parent
    files: dict[str, str] = {}
    wanted = [script]
    while wanted:
        path = wanted.pop()
        if path.name not in files:
            files[path.name] = _text(path)
            wanted.extend(_beside(folder, path, files[path.name]))
    size = sum(len(text.encode()) for text in files.values())
    if size > MAX_BYTES:
        remedy = f"is {size} bytes with what it imports, and may be {MAX_BYTES}: {_IN_THE_IMAGE}"
        raise errors.InvalidInputError("MODEL", target, remedy)
    return Code(f"{FOLDER}/{script.name}", files)


def _text(path: Path) -> str:
    if not _KEY.fullmatch(path.name):
        raise errors.InvalidInputError("MODEL", str(path), "must have a name of letters, digits, '-', '_' and '.'")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        remedy = f"cannot be read: {error}; a script of the image goes with --code {IMAGE}"
        raise errors.InvalidInputError("MODEL", str(path), remedy) from error


def _beside(folder: Path, path: Path, text: str) -> Iterator[Path]:
    """Yield the modules that a file imports and that stand in the script's folder: Python looks there first."""
    try:
        tree = ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise errors.InvalidInputError("MODEL", str(path), f"is no Python of this version: {error}") from error
    for module in sorted(_imported(tree)):
        if (folder / module / "__init__.py").is_file():
            remedy = f"imports the package {module}/, and a ConfigMap holds no folders: {_IN_THE_IMAGE}"
            raise errors.InvalidInputError("MODEL", str(path), remedy)
        found = folder / f"{module}{_SUFFIX}"
        if found.is_file():
            yield found
        elif any((folder / module).glob(f"*{_SUFFIX}")) and not _is_installed(module):
            remedy = f"imports from the folder {module}/, and a ConfigMap holds no folders: {_IN_THE_IMAGE}"
            raise errors.InvalidInputError("MODEL", str(path), remedy)


def _is_installed(module: str) -> bool:
    """Return whether Python takes an installed package before a folder without `__init__.py`."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None


def _imported(tree: ast.AST) -> set[str]:
    """Return the first words of all that is imported."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found
