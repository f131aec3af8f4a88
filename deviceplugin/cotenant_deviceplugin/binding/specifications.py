"""The agent's CDI specifications as files: writes, lists and removes them. Decides nothing."""

import asyncio
import contextlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.binding import bases, cdi
from cotenant_deviceplugin.binding.grants import Numbers
from cotenant_deviceplugin.binding.ledger import Nonce
from cotenant_deviceplugin.mps.backend import Edits

DELAY_SECONDS = 1.0
(PREFIX, HIDDEN), SUFFIX, PARTIAL_SUFFIX, WITHDRAWN_SUFFIX = bases.OURS, ".json", ".partial", ".withdrawn"
"""A runtime reads *.json and *.yaml alone, so it never sees a file that is half written, or withdrawn."""


class Specifications(Protocol):
    """What the container runtime can resolve."""

    async def write(self, nonce: Nonce, gpus: Mapping[GPUUID, Numbers], edits: Edits) -> None:
        """Have the name resolve to these GPUs with these edits. Raises TemporaryError."""

    async def names(self) -> frozenset[Nonce]:
        """Return what resolves now, or was about to. Raises TemporaryError."""

    async def restrict(self, minors: Mapping[Nonce, Collection[int]]) -> None:
        """Have none of these names resolve that gives other GPUs than those of its minor numbers.

        It stays among the names: a container may run that was started with it. Raises TemporaryError.
        """

    async def remove(self, nonces: Collection[Nonce]) -> None:
        """Have these names resolve no more. Raises TemporaryError."""


class SpecificationFiles:
    """Specifications in a folder that container runtimes read.

    Args:
        folder: where ours go.
        gpus: where the GPUs' own edits come from.
    """

    def __init__(self, folder: Path, gpus: bases.Bases) -> None:
        self._folder = folder
        self._gpus = gpus

    async def write(self, nonce: Nonce, gpus: Mapping[GPUUID, Numbers], edits: Edits) -> None:
        """Write the file, if it is not there with this content."""
        await asyncio.to_thread(self._write, nonce, dict(gpus), edits)

    async def names(self) -> frozenset[Nonce]:
        """Nonces of our files, of half written and of withdrawn ones too."""
        return await asyncio.to_thread(self._names)

    async def restrict(self, minors: Mapping[Nonce, Collection[int]]) -> None:
        """Rename the files that give other GPUs, or that cannot be read."""
        await asyncio.to_thread(self._restrict, dict(minors))

    async def remove(self, nonces: Collection[Nonce]) -> None:
        """Remove their files, if they are there."""
        await asyncio.to_thread(self._remove, tuple(nonces))

    def _write(self, nonce: Nonce, gpus: Mapping[GPUUID, Numbers], edits: Edits) -> None:
        try:
            text = json.dumps(cdi.specification(nonce, self._gpus.bases(gpus), edits), indent=1, sort_keys=True)
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
                for start, end in ((PREFIX, SUFFIX), (HIDDEN, PARTIAL_SUFFIX), (HIDDEN, WITHDRAWN_SUFFIX))
                for path in self._folder.glob(f"{start}*{end}")
            )

    def _restrict(self, minors: Mapping[Nonce, Collection[int]]) -> None:
        for nonce, wanted in minors.items():
            path = self._path(nonce)
            with _as_temporary(self._folder), contextlib.suppress(FileNotFoundError):
                if cdi.minors(path.read_bytes()) != frozenset(wanted):
                    path.replace(self._withdrawn(nonce))

    def _remove(self, nonces: Collection[Nonce]) -> None:
        with _as_temporary(self._folder):
            for nonce in nonces:
                self._path(nonce).unlink(missing_ok=True)
                self._partial(nonce).unlink(missing_ok=True)
                self._withdrawn(nonce).unlink(missing_ok=True)

    def _path(self, nonce: Nonce) -> Path:
        return self._folder / f"{PREFIX}{nonce}{SUFFIX}"

    def _partial(self, nonce: Nonce) -> Path:
        return self._folder / f"{HIDDEN}{nonce}{PARTIAL_SUFFIX}"

    def _withdrawn(self, nonce: Nonce) -> Path:
        return self._folder / f"{HIDDEN}{nonce}{WITHDRAWN_SUFFIX}"


@contextlib.contextmanager
def _as_temporary(folder: Path) -> Any:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise errors.TemporaryError(f"{folder}: {error}", delay_seconds=DELAY_SECONDS) from error
