"""CDI specifications as files: finds NVIDIA's, writes, lists and removes ours. Decides nothing."""

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.binding import cdi
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.mps.backend import Edits

DELAY_SECONDS = 1.0
PREFIX, SUFFIX = "cotenant.dev-share_", ".json"
PARTIAL, PARTIAL_SUFFIX = ".cotenant.dev-share_", ".partial"
"""A runtime reads *.json and *.yaml alone, so it never sees a file that is half written."""
SUFFIXES = (".json", ".yaml")
BASE_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where runtimes look; a later one wins."""


class Specifications(Protocol):
    """What the container runtime can resolve."""

    async def missing(self, gpus: Mapping[GPUUID, int]) -> frozenset[GPUUID]:
        """Those of the GPUs (with their indexes) that NVIDIA's specification does not know."""

    async def write(self, nonce: Nonce, gpus: Mapping[GPUUID, int], edits: Edits) -> None:
        """Have the name resolve to these GPUs with these edits. Raises TemporaryError."""

    async def names(self) -> frozenset[Nonce]:
        """What resolves now, or was about to. Raises TemporaryError."""

    async def remove(self, nonces: Collection[Nonce]) -> None:
        """Have these names resolve no more. Raises TemporaryError."""


@dataclass(frozen=True)
class _Stamp:
    """By which a changed file is known."""

    inode: int
    size: int
    changed_ns: int


class SpecificationFiles:
    """Specifications in the folders that container runtimes read.

    Args:
        folder: where ours go.
        base_folders: where NVIDIA's toolkit puts its own, `.yaml` or `.json`; a later folder wins.
    """

    def __init__(self, folder: Path, *, base_folders: Iterable[Path] = BASE_FOLDERS) -> None:
        self._folder = folder
        self._base_folders = tuple(base_folders)
        self._read: dict[Path, tuple[_Stamp, cdi.Object | None]] = {}

    async def missing(self, gpus: Mapping[GPUUID, int]) -> frozenset[GPUUID]:
        """GPUs without a specification, or with one that cannot be used."""
        return await asyncio.to_thread(self._missing, dict(gpus))

    async def write(self, nonce: Nonce, gpus: Mapping[GPUUID, int], edits: Edits) -> None:
        """Write the file, if it is not there with this content."""
        await asyncio.to_thread(self._write, nonce, dict(gpus), edits)

    async def names(self) -> frozenset[Nonce]:
        """Nonces of our files, of half written ones too."""
        return await asyncio.to_thread(self._names)

    async def remove(self, nonces: Collection[Nonce]) -> None:
        """Remove their files, if they are there."""
        await asyncio.to_thread(self._remove, tuple(nonces))

    def _missing(self, gpus: Mapping[GPUUID, int]) -> frozenset[GPUUID]:
        absent, read = set(), functools.cache(self._specifications)
        for uuid, index in gpus.items():
            try:
                self._base(read, uuid, index)
            except errors.TemporaryError:
                absent.add(uuid)
        return frozenset(absent)

    def _write(self, nonce: Nonce, gpus: Mapping[GPUUID, int], edits: Edits) -> None:
        read = functools.cache(self._specifications)
        bases = [self._base(read, uuid, index) for uuid, index in gpus.items()]
        try:
            text = json.dumps(cdi.specification(nonce, bases, edits), indent=1, sort_keys=True)
        except errors.InvalidInputError as error:
            raise errors.TemporaryError(f"NVIDIA's CDI specification: {error}", delay_seconds=DELAY_SECONDS) from error
        path = self._path(nonce)
        with _as_temporary(self._folder), contextlib.suppress(FileNotFoundError):
            if path.read_text(encoding="utf-8") == text:
                return
        files.replace(path, text, partial=self._partial(nonce))

    def _names(self) -> frozenset[Nonce]:
        with _as_temporary(self._folder):
            return frozenset(
                Nonce(path.name.removeprefix(start).removesuffix(end))
                for start, end in ((PREFIX, SUFFIX), (PARTIAL, PARTIAL_SUFFIX))
                for path in self._folder.glob(f"{start}*{end}")
            )

    def _remove(self, nonces: Collection[Nonce]) -> None:
        with _as_temporary(self._folder):
            for nonce in nonces:
                self._path(nonce).unlink(missing_ok=True)
                self._partial(nonce).unlink(missing_ok=True)

    def _path(self, nonce: Nonce) -> Path:
        return self._folder / f"{PREFIX}{nonce}{SUFFIX}"

    def _partial(self, nonce: Nonce) -> Path:
        return self._folder / f"{PARTIAL}{nonce}{PARTIAL_SUFFIX}"

    def _base(self, read: Callable[[Path], list[cdi.Object]], gpu: GPUUID, index: int) -> cdi.Base:
        """Of the last folder that has it; two files of one folder that both do exclude each other for runtimes too.

        `read`: gives a folder's specifications; each folder is read once for all GPUs.
        """
        for folder in reversed(self._base_folders):
            try:
                found = [base for each in read(folder) if (base := cdi.base_of(each, gpu, index))]
            except errors.InvalidInputError as error:
                raise errors.TemporaryError(f"{folder}: {error}", delay_seconds=DELAY_SECONDS) from error
            if len(found) > 1:
                text = f"{folder}: several files know GPU {gpu}: keep one"
                raise errors.TemporaryError(text, delay_seconds=DELAY_SECONDS)
            if found:
                return found[0]
        where = " or ".join(str(folder) for folder in self._base_folders)
        raise errors.TemporaryError(
            f"no CDI specification of kind {cdi.BASE_KIND} in {where} knows GPU {gpu}", delay_seconds=DELAY_SECONDS
        )

    def _specifications(self, folder: Path) -> list[cdi.Object]:
        with _as_temporary(folder):
            if not folder.is_dir():
                return []
            # Our own files are many, and are none of NVIDIA's.
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries if not entry.name.startswith((PREFIX, PARTIAL)))
            paths = [folder / name for name in names if name.endswith(SUFFIXES)]
            return [content for path in paths if (content := self._content(path)) is not None]

    def _content(self, path: Path) -> cdi.Object | None:
        """What a file says, read again only when it has changed; None: nothing about GPUs."""
        try:
            status = path.stat()
            stamp = _Stamp(status.st_ino, status.st_size, status.st_mtime_ns)
            known = self._read.get(path)
            if known is None or known[0] != stamp:
                known = (stamp, _parsed(path.read_text(encoding="utf-8")))
                self._read[path] = known
        except FileNotFoundError:
            return None
        return known[1]


def _parsed(text: str) -> cdi.Object | None:
    """YAML, of which JSON is a part. A file that is none is another's affair: runtimes skip it as well."""
    try:
        value: Any = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError:
        return None
    return value if isinstance(value, dict) and value.get("kind") == cdi.BASE_KIND else None


@contextlib.contextmanager
def _as_temporary(folder: Path) -> Any:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise errors.TemporaryError(f"{folder}: {error}", delay_seconds=DELAY_SECONDS) from error
