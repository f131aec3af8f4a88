"""Results on disk: one file each, whole or not there; and archives of them that are small enough to be handed on."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MAX_BYTES = 16 * 2**20
_ARCHIVE_BYTES = 14 * 2**20
_RESULTS, _GRAPHS = "results", "graphs"


class StoreError(Exception):
    """A folder of results that cannot be used; the message says which and what to do."""


class Store:
    """A campaign's folder: `results/ID.json` and `graphs/NAME.json.gz`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (_RESULTS, _GRAPHS):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def write(self, result: Mapping[str, Any]) -> Path:
        """Write one result, named by its `id`. Raises ValueError beyond 16 MiB, and for NaN."""
        data = json.dumps(result, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
        return _write_whole(self.folder / _RESULTS / f"{result['id']}.json", data)

    def results(self) -> Iterator[dict[str, Any]]:
        """Every result, by name.

        Raises:
            StoreError: a file is no result.
        """
        for path in sorted((self.folder / _RESULTS).glob("*.json")):
            try:
                found = json.loads(path.read_bytes())
                if found["v"] != 1 or found["id"] != path.stem:
                    raise StoreError(f"{path}: is no result of this version: remove it")
            except (ValueError, TypeError, KeyError) as error:
                raise StoreError(f"{path}: is damaged: remove it, and it is measured again") from error
            yield found

    def graph_path(self, job: str) -> Path:
        """Where a job's graph document lies, or will."""
        return self.folder / _GRAPHS / f"{job}.json.gz"

    def write_graph(self, job: str, graph: Mapping[str, Any]) -> Path:
        """Write a graph document; the same bytes for the same graph."""
        data = json.dumps(graph, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
        return _write_whole(self.graph_path(job), gzip.compress(data, mtime=0))

    def graphs(self) -> dict[str, dict[str, Any]]:
        """Graph documents by job."""
        paths = sorted((self.folder / _GRAPHS).glob("*.json.gz"))
        return {path.name.removesuffix(".json.gz"): json.loads(gzip.decompress(path.read_bytes())) for path in paths}


def pack(store: Store, into: Path) -> list[Path]:
    """All files of a campaign as `campaign-N.tar.gz`, each below 16 MiB; archives that were there are replaced."""
    into.mkdir(parents=True, exist_ok=True)
    files = sorted(path for name in (_RESULTS, _GRAPHS) for path in (store.folder / name).glob("*.json*"))
    written = []
    for index, group in enumerate(_grouped(files)):
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
            for path in group:
                _add(tar, path, str(path.relative_to(store.folder)))
        written.append(_write_whole(into / f"campaign-{index}.tar.gz", buffer.getvalue()))
    for stale in set(into.glob("campaign-*.tar.gz")) - set(written):
        stale.unlink()
    return written


def unpack(archives: Iterable[Path], store: Store) -> int:
    """Bring back what was packed; files that are there already stay. Returns how many came.

    Raises:
        StoreError: an archive is damaged, or holds something else.
    """
    count = 0
    for archive in archives:
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    count += _bring(tar, member, store, archive)
        except (OSError, EOFError, tarfile.TarError) as error:
            raise StoreError(f"{archive}: cannot be unpacked: {error}") from error
    return count


def _bring(tar: tarfile.TarFile, member: tarfile.TarInfo, store: Store, archive: Path) -> int:
    parts = Path(member.name).parts
    if not member.isfile() or len(parts) != 2 or parts[0] not in (_RESULTS, _GRAPHS) or parts[1].startswith("."):
        raise StoreError(f"{archive}: holds {member.name!r}, which is no result and no graph")
    path = store.folder / parts[0] / parts[1]
    source = tar.extractfile(member)
    if path.exists() or source is None:
        return 0
    _write_whole(path, source.read())
    return 1


def _grouped(files: Sequence[Path]) -> Iterator[list[Path]]:
    """By size as if nothing were compressed, so that no archive can be too large."""
    group: list[Path] = []
    size = 0
    for path in files:
        needed = path.stat().st_size + 1024
        if group and size + needed > _ARCHIVE_BYTES:
            yield group
            group, size = [], 0
        group.append(path)
        size += needed
    if group:
        yield group


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Without owner and time, so that the same results give the same archive."""
    data = path.read_bytes()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _write_whole(path: Path, data: bytes) -> Path:
    """Return the whole file or nothing: written beside it, synced, renamed."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path}: {len(data)} bytes are more than {MAX_BYTES}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path
