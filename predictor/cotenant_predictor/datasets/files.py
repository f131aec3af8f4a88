"""JSON documents in files, lines and folders, each with its place for the message of an error.

Decodes and tells kinds apart; what the documents mean is not known here.
"""

import dataclasses
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cotenant_api import errors

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


@dataclasses.dataclass(frozen=True)
class Content:
    """One document, decoded and as it was written."""

    value: Mapping[str, Any]
    text: bytes


def documents_in(paths: Iterable[Path | str]) -> Iterator[tuple[str, Content]]:
    """The documents of files and folders, in the order given, files of a folder by name; each with its place.

    Raises:
        InvalidInputError: a path is missing, a folder has no such file, a file is damaged, a line is no JSON object.
    """
    seen: set[Path] = set()
    for path in paths:
        for file in _files_of(Path(path)):
            if (resolved := file.resolve()) in seen:
                continue
            seen.add(resolved)
            yield from _documents_of(file)


def is_graph(value: Mapping[str, Any]) -> bool:
    """Whether a document is a graph."""
    return "operators" in value


def is_measurement(value: Mapping[str, Any]) -> bool:
    """Whether a document is a measurement."""
    return "mechanism" in value


def read_bytes(path: Path) -> bytes:
    """A file's content, unpacked where its name ends in `.gz`.

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


def _documents_of(file: Path) -> Iterator[tuple[str, Content]]:
    data = read_bytes(file)
    if file.name.removesuffix(".gz").endswith(".json"):
        yield str(file), _decoded(data, place=str(file))
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            place = f"{file}:{number}"
            yield place, _decoded(line, place=place)


def _decoded(text: bytes, *, place: str) -> Content:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInputError(place, text[:64], f"must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise errors.InvalidInputError(place, value, "must be a JSON object")
    return Content(value, text)
