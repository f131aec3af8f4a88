"""The ledger on disk: written whole, so that a crash at any point leaves the old one or the new one.

A file that cannot be read is kept under another name and told of, never guessed at and never overwritten.
"""

import asyncio
import hashlib
import json
import logging
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field

from cotenant_api import documents, errors, placement
from cotenant_api.names import Namespace, PodUID
from cotenant_deviceplugin import files
from cotenant_deviceplugin.binding.grants import Grant
from cotenant_deviceplugin.binding.ledger import Allocation, InconsistentError, Ledger, Nonce
from cotenant_deviceplugin.kubelet.plugin import Token

FILE = "ledger.json"
DELAY_SECONDS = 1.0
MAX_BROKEN = 100
"""Broken files that are kept; more than that is no accident."""

_log = logging.getLogger(__name__)


class Disk(Protocol):
    """Where the ledger survives the agent and the machine's reboots."""

    async def read(self) -> Ledger:
        """Return what was written last; empty where nothing was, or where it cannot be read any more."""

    async def write(self, ledger: Ledger) -> None:
        """Return once it is on disk. Raises TemporaryError; the old one or the new one then stands."""


class _Grant(documents.Model):
    pod_uid: PodUID = Field(alias="podUID")
    namespace: Namespace
    pod: str
    container: str
    booked: placement.Placement


class _Allocation(documents.Model):
    nonce: Annotated[Nonce, Field(min_length=1)]
    tokens: tuple[Token, ...]
    minted_at: datetime
    grant: _Grant | None = None


class _File(documents.Document):
    """The ledger's file, version 1. `checksum`: SHA-256 of the canonical JSON without it."""

    checksum: str
    allocations: tuple[_Allocation, ...]


class LedgerFile:
    """The ledger in a file of a folder that outlives reboots."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    async def read(self) -> Ledger:
        """Return the ledger; a broken file is set aside.

        Raises:
            UnsupportedVersionError: a newer release wrote it: this one must not run.
            TemporaryError: the disk does not answer.
        """
        return await asyncio.to_thread(self._read)

    async def write(self, ledger: Ledger) -> None:
        """Replace the file; on disk when this returns."""
        await asyncio.to_thread(files.replace, self._path, to_text(ledger))

    def _read(self) -> Ledger:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return Ledger()
        except OSError as error:
            raise errors.TemporaryError(f"{self._path}: {error.strerror}", delay_seconds=DELAY_SECONDS) from error
        try:
            return from_text(data)
        except errors.UnsupportedVersionError:
            raise
        except (errors.InvalidInputError, InconsistentError) as error:
            _log.error("%s is broken and was kept as %s: %s", self._path, self._set_aside(), error)
            return Ledger()

    def _set_aside(self) -> Path:
        names = (self._path.with_name(f"{FILE}.broken-{number}") for number in range(1, MAX_BROKEN + 1))
        aside = next((path for path in names if not path.exists()), None)
        if aside is None:
            text = f"{self._path} is broken, and {MAX_BROKEN} others were kept already: look at them and remove them"
            raise errors.TemporaryError(text, delay_seconds=DELAY_SECONDS)
        try:
            self._path.replace(aside)
            files.sync_folder(self._path.parent)
        except OSError as error:
            raise errors.TemporaryError(f"{self._path}: {error.strerror}", delay_seconds=DELAY_SECONDS) from error
        return aside


def to_text(ledger: Ledger) -> str:
    """Return the file's content."""
    value = {"v": _File.MAJOR, "allocations": [_allocation(each).to_object() for each in ledger.allocations]}
    return documents.canonical(value | {"checksum": checksum(value)})


def from_text(data: bytes) -> Ledger:
    """Return the ledger in a file's content.

    Raises:
        UnsupportedVersionError: of a newer release.
        InvalidInputError: not what was written.
        InconsistentError: it was written, and yet cannot be.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInputError(FILE, data[:64], f"must be JSON: {error}") from error
    read = _File.from_object(value, source=FILE)
    if checksum({key: each for key, each in value.items() if key != "checksum"}) != read.checksum:
        raise errors.InvalidInputError(f"{FILE}.checksum", read.checksum, "must be that of the content")
    return Ledger(tuple(_from(each) for each in read.allocations))


def _allocation(each: Allocation) -> _Allocation:
    grant = each.grant
    return _Allocation(
        nonce=each.nonce,
        tokens=tuple(sorted(each.tokens)),
        minted_at=each.minted_at,
        grant=None
        if grant is None
        else _Grant(
            pod_uid=grant.pod_uid,
            namespace=grant.namespace,
            pod=grant.pod,
            container=grant.container,
            booked=grant.booked,
        ),
    )


def _from(each: _Allocation) -> Allocation:
    grant = each.grant
    return Allocation(
        nonce=each.nonce,
        tokens=frozenset(each.tokens),
        minted_at=each.minted_at,
        grant=None
        if grant is None
        else Grant(
            pod_uid=grant.pod_uid,
            namespace=grant.namespace,
            pod=grant.pod,
            container=grant.container,
            booked=grant.booked,
        ),
    )


def checksum(value: dict[str, Any]) -> str:
    """Of a file's content without its checksum."""
    return f"sha256:{hashlib.sha256(documents.canonical(value).encode()).hexdigest()}"
