"""The GPUs' own CDI edits: found in the folders of container runtimes, or else made with NVIDIA's tool."""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cotenant_api import errors
from cotenant_api.names import GPUUID
from cotenant_deviceplugin.binding import cdi, choice, made
from cotenant_deviceplugin.binding.grants import Numbers

DELAY_SECONDS = 1.0
OURS = ("cotenant.dev-share_", ".cotenant.dev-share_")
"""How the names of the agent's own files begin: they are many, and are none of NVIDIA's."""
SUFFIXES = (".json", ".yaml")
MAX_BYTES = 1024 * 1024
"""Of a file. NVIDIA's for 16 GPUs has some 100 KiB; reading takes some 50 times a file's size in memory."""
MAX_DEPTH = 32
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where runtimes look; a later one wins."""


@dataclass(frozen=True)
class Look:
    """What was found for the GPUs of a node.

    Attributes:
        reasons: of each GPU for which there is nothing, what was looked for where, and what helps.
        made: whether some GPUs are served by a specification that the agent has made.
    """

    reasons: Mapping[GPUUID, str] = field(default_factory=dict)
    made: bool = False

    @property
    def missing(self) -> frozenset[GPUUID]:
        """GPUs for which there is nothing."""
        return frozenset(self.reasons)

    @property
    def reason(self) -> str | None:
        """Why there is nothing for one of them; None: no GPU is missing."""
        return next(iter(self.reasons.values()), None)


@dataclass(frozen=True)
class _Stamp:
    """By which a changed file is known."""

    inode: int
    size: int
    changed_ns: int


_Read = dict[Path, tuple[_Stamp, choice.Found | None]]


class Bases:
    """Where the edits of a GPU come from.

    Args:
        folders: where NVIDIA's parts put their specifications, `.yaml` or `.json`; a later folder wins.
        maker: asked where no specification serves; None: nobody is.
        monotonic: a clock that never goes back, in seconds.
    """

    def __init__(
        self,
        folders: Iterable[Path] = FOLDERS,
        *,
        maker: made.Maker | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = tuple(folders)
        self._read: _Read = {}
        self._driver: str | None = None
        self._made = made.Made(maker, monotonic)

    async def look(self, gpus: Mapping[GPUUID, Numbers], driver: str) -> Look:
        """Look for every GPU, and have what is missing made.

        Args:
            gpus: with their numbers.
            driver: the version that the driver tells now.
        """
        self._driver = driver.partition(" ")[0]
        self._made.know_driver(self._driver)
        try:
            found = await asyncio.to_thread(self._every)
        except errors.TemporaryError as error:
            return Look(dict.fromkeys(gpus, str(error)))
        missing = self._missing(found, gpus)
        await self._made.update(missing)
        unserved = {gpu: numbers for gpu, numbers in missing.items() if self._made.base(gpu, numbers) is None}
        reasons = {gpu: self._told(found, gpu, numbers) for gpu, numbers in unserved.items()}
        return Look(reasons, made=len(reasons) < len(missing))

    @property
    def remembered(self) -> int:
        """Of how many files it is known what they say."""
        return len(self._read)

    def renew(self) -> None:
        """Have what was made made anew with the next look, and keep it until then: the driver was away."""
        self._made.renew()

    def bases(self, gpus: Mapping[GPUUID, Numbers]) -> list[cdi.Base]:
        """Return the edits of each GPU, as the folders are now. Blocks for as long as the disk does.

        Raises:
            TemporaryError: a GPU is not served.
        """
        found = self._every()
        return [self._base(found, gpu, numbers) for gpu, numbers in gpus.items()]

    def _base(self, found: Iterable[choice.Found], gpu: GPUUID, numbers: Numbers) -> cdi.Base:
        base = choice.base(found, self._wanted(gpu, numbers))
        if base is None:
            base = self._made.base(gpu, numbers)
        if base is None:
            raise errors.TemporaryError(self._told(found, gpu, numbers), delay_seconds=DELAY_SECONDS)
        return base

    def _told(self, found: Iterable[choice.Found], gpu: GPUUID, numbers: Numbers) -> str:
        """Return in words why a GPU is not served."""
        told, why = choice.told(self._folders, found, self._wanted(gpu, numbers)), self._made.told(gpu, numbers)
        return f"{told}; {why}" if why else told

    def _missing(self, found: Iterable[choice.Found], gpus: Mapping[GPUUID, Numbers]) -> dict[GPUUID, Numbers]:
        return {gpu: each for gpu, each in gpus.items() if choice.base(found, self._wanted(gpu, each)) is None}

    def _wanted(self, gpu: GPUUID, numbers: Numbers) -> choice.Wanted:
        return choice.Wanted(gpu, numbers, self._driver)

    def _every(self) -> tuple[choice.Found, ...]:
        before, self._read = self._read, {}
        try:
            return tuple(found for folder in self._folders for found in self._of(folder, before))
        except errors.TemporaryError:
            self._read = before | self._read
            raise

    def _of(self, folder: Path, before: _Read) -> list[choice.Found]:
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries if not entry.name.startswith(OURS))
            return [
                found for name in names if name.endswith(SUFFIXES) and (found := self._content(folder / name, before))
            ]
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise errors.TemporaryError(f"{folder}: {error}", delay_seconds=DELAY_SECONDS) from error

    def _content(self, path: Path, before: _Read) -> choice.Found | None:
        """Return what a file says, read again only when it has changed; None: nothing about GPUs."""
        try:
            status = path.stat()
            stamp = _Stamp(status.st_ino, status.st_size, status.st_mtime_ns)
            known = before.get(path)
            if known is None or known[0] != stamp:
                readable = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES
                known = (stamp, _parsed(path) if readable else None)
            self._read[path] = known
        except OSError:
            return None  # gone, a link in a circle: runtimes skip it as well
        return known[1]


def _parsed(path: Path) -> choice.Found | None:
    """YAML, of which JSON is a part. A file that is none is another's affair: runtimes skip it as well."""
    try:
        text = path.read_text(encoding="utf-8")
        if not _shallow(text):
            return None
        value: Any = yaml.load(text, Loader=_LOADER)  # noqa: S506
    except (yaml.YAMLError, ValueError):
        return None  # ValueError: no UTF-8, or a number or a date that is none
    known = isinstance(value, dict) and value.get("kind") in (*choice.KINDS, choice.MANAGEMENT)
    return choice.Found(path, value) if known else None


def _shallow(text: str) -> bool:
    """Return whether a text is no deeper than a specification.

    One that is much deeper would end the process that loads it.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                return False
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return True
