"""Follows the logs of a GPU's MPS daemon for fatal errors, from where it stood last. Reads files and judges lines.

A fault may begin and end between two questions: the log is where it still shows.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILES: Final = ("control.log", "server.log")
"""https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html: `CUDA_MPS_LOG_DIRECTORY`."""
MAX_BYTES: Final = 256 * 1024
"""Of one file at a time; what is older is skipped."""
_CAUSE = re.compile(r"\bfatal\b", re.IGNORECASE)
_FATAL = re.compile(r"\bfatal\b|\bis FAULT\b", re.IGNORECASE)
_CLIENT = re.compile(r"client \{(?:PID: )?(\d+),", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Fatal:
    """One line that tells of a fatal error; `client`: the PID that it names as its cause."""

    line: str
    client: int | None = None


class Tail:
    """The two logs of one daemon. What stood there before the first look is history."""

    def __init__(self, directory: Path) -> None:
        self._offsets = {directory / name: _size(directory / name) for name in FILES}
        self._sizes = dict(self._offsets)
        self._inodes = {path: _inode(path) for path in self._offsets}

    def grown(self) -> bool:
        """Whether a log has changed since it was read: a client came or went, or worse. Costs two stats."""
        return any(_size(path) != size for path, size in self._sizes.items())

    def read(self) -> tuple[Fatal, ...]:
        """Fatal errors told since the last call."""
        return tuple(found for path in self._offsets for found in fatal(self._new(path)))

    def _new(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                state = os.fstat(file.fileno())
                begin = self._offsets[path]
                if self._inodes[path] != state.st_ino or state.st_size < begin:
                    begin = 0
                begin = file.seek(max(begin, state.st_size - MAX_BYTES))
                content = file.read(MAX_BYTES)
        except FileNotFoundError:
            self._offsets[path], self._sizes[path], self._inodes[path] = 0, 0, 0
            return ""
        whole = content[: content.rfind(b"\n") + 1]
        # A line that was never ended, as of a daemon that was killed, is read no further and is no news either.
        self._offsets[path], self._sizes[path] = begin + len(whole), begin + len(content)
        self._inodes[path] = state.st_ino
        return whole.decode(errors="replace")


def fatal(text: str) -> tuple[Fatal, ...]:
    """The lines of a log that tell of a fatal error."""
    return tuple(_fatal(line) for line in text.splitlines() if _FATAL.search(line))


def _fatal(line: str) -> Fatal:
    named = _CLIENT.search(line) if _CAUSE.search(line) else None
    return Fatal(line=line.strip()[:256], client=int(named[1]) if named else None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
