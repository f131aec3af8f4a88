"""Lines of a stream that comes in parts, each of a bounded length. Pure."""

from collections.abc import Iterator
from typing import Final

LONGEST: Final = 16 * 2**20
"""Bytes of an object as the API server writes it, at most.

etcd takes objects of 1.5 MiB, by default, in protobuf. In JSON, some characters (`<`) take six bytes.
"""


class Lines:
    """Puts lines together; one that is too long is left out, and counted.

    Attributes:
        left_out: how many were too long.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self.left_out = 0
        self._longest, self._size = longest, 0
        self._pieces: list[bytes] = []

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Yield the lines that end in this part, without their ends."""
        *ended, rest = part.split(b"\n")
        for piece in ended:
            self._add(piece)
            line = self._take()
            if line is not None:
                yield line
        self._add(rest)

    def rest(self) -> bytes:
        """Return what has come of a line that has not ended."""
        return b"".join(self._pieces)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._longest:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def _take(self) -> bytes | None:
        line = b"".join(self._pieces) if self._size <= self._longest else None
        self.left_out += line is None
        self._pieces.clear()
        self._size = 0
        return line
