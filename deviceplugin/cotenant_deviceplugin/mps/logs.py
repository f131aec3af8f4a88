"""Follows what a GPU's MPS daemon and its servers say, for fatal errors, from where it stood last.

Reads files, judges lines.

A fault may begin and end between two questions: here it still shows. In which words: docs/node-agent.md. Whoever can
reach the daemon's socket can have any line written here: a line is a hint (see `proof`), and names nobody.
"""

import os
import re
from pathlib import Path
from typing import Final

from cotenant_deviceplugin.mps import output

FILES: Final = ("output.log", "control.log", "server.log")
"""Of a daemon under `-f` (see `output`), and of one under `-d`."""
MAX_BYTES: Final = 256 * 1024
"""Of one file at a time; what is older is skipped."""
MAX_SHOWN: Final = 256
"""Characters of one line."""
_FATAL = re.compile(r"\bfatal\b(?! exception)", re.IGNORECASE)
"""A server that "encountered a fatal exception" has failed to start: it had no client."""
_COMMAND = re.compile(r"\[[^]]*\bControl +\d+\] (?:Cmd:|Unknown command)")
"""A command repeated by its daemon: any user who reaches the daemon may have chosen the words."""
_CHATTER = re.compile(
    r"\[[^]]*\bControl +\d+\] (?:Accepting connection\.\.\.|NEW UI|UI closed|Cmd:.*"
    r"|\d+|\d+\.\d+|[A-Z]+|Server \d+ is <busy>|Server \d+ not found!?|)"
)
"""What a daemon says of a question: each of the agent's own makes some such lines."""


class Tail:
    """What one daemon says. What stood there before the first look is history."""

    def __init__(self, directory: Path) -> None:
        self._files = tuple(_File(directory / name) for name in FILES)

    def grown(self) -> bool:
        """Return whether more was said since it was read than answers to questions: a client came or went, or worse."""
        return any(file.stirred() for file in self._files)

    def read(self) -> tuple[str, ...]:
        """Return the lines since the last call that tell of a fatal error."""
        return tuple(found for file in self._files for found in fatal(file.read()))


class _File:
    """One of them, read from where it stood; it may be replaced, emptied, and emptied with a copy beside it."""

    def __init__(self, path: Path) -> None:
        self._path, self._copy = path, output.before(path)
        self._offset, self._seen, self._inode = _size(path), _size(path), _inode(path)
        self._copied = _inode(self._copy)

    def stirred(self) -> bool:
        """Return whether there is anything that is no chatter behind what was looked at last.

        Mostly costs two stats.
        """
        if _inode(self._copy) != self._copied or _inode(self._path) != self._inode or _size(self._path) < self._seen:
            return True
        if _size(self._path) == self._seen:
            return False
        new = self._from(self._path, self._seen)
        whole = new[: new.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").removesuffix("\n").split("\n") if whole else []
        if len(whole) < len(new) or not all(map(_CHATTER.fullmatch, lines)):
            return True
        self._seen += len(whole)
        return False

    def read(self) -> str:
        """Return what is new, in whole lines."""
        rest = b""
        if _inode(self._copy) != self._copied:
            if _inode(self._path) == self._inode and _size(self._path) >= _size(self._copy):
                return ""  # copied and not emptied yet
            rest = self._from(self._copy, self._offset if self._offset <= _size(self._copy) else 0)
            self._copied, self._offset = _inode(self._copy), 0
        if _inode(self._path) != self._inode or _size(self._path) < self._offset:
            self._offset = 0
        self._inode = _inode(self._path)
        begin = max(self._offset, _size(self._path) - MAX_BYTES)
        new = self._from(self._path, begin)
        whole = new[: new.rfind(b"\n") + 1]
        # A line that was never ended, as of a daemon that was killed, is read no further and is no news either.
        self._offset, self._seen = begin + len(whole), begin + len(new)
        return (rest + whole).decode(errors="replace")

    @staticmethod
    def _from(path: Path, begin: int) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(max(begin, os.fstat(file.fileno()).st_size - MAX_BYTES))
                return file.read(MAX_BYTES)
        except FileNotFoundError:
            return b""


def fatal(text: str) -> tuple[str, ...]:
    """Return the lines that tell of a fatal error, and are no command.

    Only a newline ends one: a tenant chooses the rest.
    """
    return tuple(_shown(line) for line in text.split("\n") if _FATAL.search(line) and not _COMMAND.match(line))


def _shown(line: str) -> str:
    """Return what of a line may stand in a log: a tenant may have chosen its characters."""
    return "".join(each if each.isprintable() else "?" for each in line.strip()[:MAX_SHOWN])


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
