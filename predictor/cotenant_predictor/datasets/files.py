"""JSON documents in files, lines and folders, each with its place for the message of an error.

Decodes and tells kinds apart; what the documents mean is not known here.
"""

import dataclasses
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from cotenant_api import errors

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


OnBad: TypeAlias = Callable[[errors.InvalidInputError], None]
"""What is done about a document that cannot be used: raises, or is told of it and lets the others be read."""


def refuse(error: errors.InvalidInputError) -> None:
    """Let nothing be read where a document cannot be used."""
    raise error


@dataclasses.dataclass(frozen=True)
class Content:
    """One document, decoded and as it was written."""

    value: Mapping[str, Any]
    text: bytes


def documents_in(paths: Iterable[Path | str], *, on_bad: OnBad = refuse) -> Iterator[tuple[str, Content]]:
    """Yield the documents of files and folders, in the order given, files of a folder by name; each with its place.

    Args:
        paths: of files and folders.
        on_bad: told of a line that is no JSON object.

    Raises:
        InvalidInputError: a path is missing, a folder has no such file, a file is damaged.
    """
    seen: set[Path] = set()
    for path in paths:
        for file in _files_of(Path(path)):
            if (resolved := file.resolve()) in seen:
                continue
            seen.add(resolved)
            yield from _documents_of(file, on_bad)


def is_graph(value: Mapping[str, Any]) -> bool:
    """Return whether a document is a graph."""
    return "operators" in value


def is_measurement(value: Mapping[str, Any]) -> bool:
    """Return whether a document is a measurement."""
    return "mechanism" in value


def read_bytes(path: Path) -> bytes:
    """Return a file's content, unpacked where its name ends in `.gz`.

    Raises:
        InvalidInputError: it cannot be read, or is damaged.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.name.endswith(".gz") else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise errors.InvalidInputError(str(path), data[:16], f"must be a whole gzip file: {error}") from error
    except OSError as error:
        raise errors.InvalidInputError("DATA", str(path), f"cannot be read: {error.strerror}") from error


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        if path.exists() and not path.name.endswith(SUFFIXES):
            raise errors.InvalidInputError("DATA", str(path), f"must end in one of {', '.join(SUFFIXES)}")
        return [path]
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))
    if not found:
        raise errors.InvalidInputError(
            "DATA", str(path), f"the folder holds no file that ends in {', '.join(SUFFIXES)}"
        )
    return found


def _documents_of(file: Path, on_bad: OnBad) -> Iterator[tuple[str, Content]]:
    data = read_bytes(file)
    if file.name.removesuffix(".gz").endswith(".json"):
        yield str(file), _decoded(data, place=str(file))
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        try:
            found = _decoded(line, place=place)
        except errors.InvalidInputError as error:
            on_bad(error)
        else:
            yield place, found


def _decoded(text: bytes, *, place: str) -> Content:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInputError(place, text[:64], f"must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise errors.InvalidInputError(place, value, "must be a JSON object")
    return Content(value, text)
