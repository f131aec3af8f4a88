"""The shared segment as a file: creating it, claiming a slot, reading and writing slots.

Slots are read and written by position, not through a mapping: a co-tenant that shortens the file would end every
process that has it mapped (SIGBUS), while a read by position then returns too little and is ignored. On tmpfs both are
memory. One write of a slot stays within one system call, so a writer that is killed leaves the old slot or the new one.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cotenant_runtime import layout

ATTEMPTS: Final = 4
"""Readings of a slot that is being written; after that the slot counts as unreadable this time."""
_FLOCK: Final = struct.Struct("hhqqi0q")


class SegmentError(Exception):
    """The file is no segment of this version, or no slot is free. The message says which."""


def create(path: Path, *, mode: int = 0o660, group: int | None = None) -> None:
    """Create an empty segment for the tenants of one GPU, complete under its name or not there at all.

    Raises:
        OSError: the folder is missing or not writable.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            file.write(layout.header() + bytes(layout.SEGMENT_BYTES - layout.HEADER_BYTES))
            os.fchmod(file.fileno(), mode)
            if group is not None:
                os.fchown(file.fileno(), -1, group)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class Segment:
    """An open segment."""

    def __init__(self, path: Path) -> None:
        """Open the file and check its header.

        Raises:
            OSError: the file cannot be opened for reading and writing.
            SegmentError: it is no segment of this version.
        """
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        if not layout.is_header(self._read(0, layout.HEADER_BYTES)):
            self.close()
            raise SegmentError(f"{path}: is no segment of version {layout.VERSION}: create it with this release")

    def read(self, index: int) -> layout.Slot | None:
        """Return a slot, or None where it is empty, torn or out of range."""
        for _ in range(ATTEMPTS):
            data = self._read(layout.offset(index), layout.SLOT_BYTES)
            slot = layout.parse(data)
            if slot is not None or not any(data):
                return slot
        return None

    def slots(self) -> Iterator[tuple[int, layout.Slot]]:
        """Yield the index of every slot that can be read, with its content."""
        for index in range(layout.SLOTS):
            slot = self.read(index)
            if slot is not None:
                yield index, slot

    def claim(self, wanted: int | None = None) -> Writer:
        """Return the writer of a free slot: of the wanted one, or of any.

        The claim is a lock on the slot's bytes that belongs to the open file. The kernel releases it when the process
        ends, however it ends. Readers and writers never wait for it.

        Raises:
            SegmentError: the wanted slot is taken, or all are.
        """
        for index in range(layout.SLOTS) if wanted is None else (wanted,):
            if 0 <= index < layout.SLOTS and self._lock(index):
                return Writer(self, index)
        which = "no slot is free" if wanted is None else f"slot {wanted} is taken or does not exist"
        raise SegmentError(f"the segment has {layout.SLOTS} slots: {which}")

    def write(self, index: int, data: bytes) -> None:
        """Write the bytes of a slot. Nothing happens where the file can no longer be written."""
        try:
            os.pwrite(self._file, data, layout.offset(index))
        except OSError:
            return

    def close(self) -> None:
        """Close the file; that also ends the claims."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self, place: int, size: int) -> bytes:
        try:
            return os.pread(self._file, size, place)
        except OSError:
            return b""

    def _lock(self, index: int) -> bool:
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, layout.offset(index), layout.SLOT_BYTES, 0)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, wanted)
        except OSError:
            return False
        return True


class Writer:
    """The only writer of one slot."""

    def __init__(self, segment: Segment, index: int) -> None:
        """Take over the slot; what a dead writer left in it is replaced by the first write."""
        self.index = index
        self.segment = segment
        former = segment.read(index)
        self._sequence = 0 if former is None else former.sequence
        self._pid = os.getpid()

    def write(self, state: layout.Inference | layout.Training, *, now_ns: int) -> None:
        """Publish a state, with a heartbeat. Nothing is written by a child of the process that claimed the slot."""
        if os.getpid() != self._pid:
            return
        self._sequence += 1
        slot = layout.Slot(sequence=self._sequence, heartbeat_ns=now_ns, pid=self._pid, state=state)
        self.segment.write(self.index, layout.pack(slot))

    def clear(self) -> None:
        """Empty the slot."""
        if os.getpid() == self._pid:
            self.segment.write(self.index, bytes(layout.SLOT_BYTES))
