"""What a control daemon says takes no more room than a bound, and what it says last is never lost."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_deviceplugin.mps import logs, output

LINE = b"x" * 99 + b"\n"
PAGE = 4096
BOUND = 4 * PAGE
WRITER = "import sys\nfor number in range(int(sys.argv[1])): sys.stdout.buffer.raw.write(b'%08d\\n' % number)"


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """On a disk, and on a tmpfs as /run is."""
    if request.param == "disk":
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def room(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_output_within_the_bound_is_left_as_it_is(folder: Path) -> None:
    path = folder / "output.log"
    path.write_bytes(LINE * 10)
    output.bound(path, max_bytes=PAGE)
    assert path.read_bytes() == LINE * 10


def test_output_of_a_writer_that_never_stops_takes_bounded_room_and_keeps_its_end(folder: Path) -> None:
    path = folder / "output.log"
    writer = output.opened(path)
    for number in range(1, 2000):
        os.write(writer, LINE)
        output.bound(path, max_bytes=BOUND)
        assert room(path) <= 2 * BOUND + PAGE
        kept = path.read_bytes()[-BOUND:]
        assert kept == (LINE * number)[-BOUND:]
    os.close(writer)
    assert [*folder.iterdir()] == [path]


def test_what_is_said_while_room_is_made_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, punch = folder / "output.log", output.punch
    writer = output.opened(path)
    os.write(writer, LINE * 1000)

    def said_meanwhile(file: int, length: int) -> None:
        os.write(writer, b"before\n")
        punch(file, length)
        os.write(writer, b"after\n")

    monkeypatch.setattr(output, "punch", said_meanwhile)
    output.bound(path, max_bytes=BOUND)
    os.close(writer)
    assert path.read_bytes().endswith(LINE + b"before\nafter\n")


def test_nothing_is_lost_of_a_writer_that_is_never_held_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lines, punch, gone = folder / "output.log", 200_000, output.punch, bytearray()

    def kept_and_punched(file: int, length: int) -> None:
        gone.extend(os.pread(file, length - len(gone), len(gone)))
        punch(file, length)

    monkeypatch.setattr(output, "punch", kept_and_punched)
    writer = output.opened(path)
    with subprocess.Popen([sys.executable, "-IS", "-c", WRITER, str(lines)], stdout=writer) as process:
        os.close(writer)
        while process.poll() is None:
            output.bound(path, max_bytes=BOUND)
    output.bound(path, max_bytes=BOUND)
    assert bytes(gone) + path.read_bytes()[len(gone) :] == b"".join(b"%08d\n" % number for number in range(lines))
    assert room(path) <= 2 * BOUND + PAGE


def test_a_fault_that_is_told_while_room_is_made_is_news_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, punch = folder / "output.log", output.punch
    fault = b"[2026-01-01 12:00:00.000 Server     4] Client process 71 encountered a fatal GPU error.\n"
    path.write_bytes(LINE * 1000)
    tail = logs.Tail(folder)
    with path.open("ab", buffering=0) as writer:
        monkeypatch.setattr(output, "punch", lambda file, length: (writer.write(fault), punch(file, length)))
        output.bound(path, max_bytes=BOUND)
        assert tail.grown()
        assert len(tail.read()) == 1
        output.bound(path, max_bytes=BOUND)
        assert (tail.grown(), tail.read()) == (False, ())


def test_output_that_is_not_there_is_within_the_bound(tmp_path: Path) -> None:
    output.bound(tmp_path / "output.log")
    assert list(tmp_path.iterdir()) == []


def test_output_is_emptied_where_the_file_system_makes_no_holes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(output, "punch", unknown)
    path = folder / "output.log"
    path.write_bytes(LINE * 1000)
    with pytest.raises(OSError, match="not supported"):
        output.bound(path, max_bytes=BOUND)
    assert path.stat().st_size == 0


def test_hole_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Illegal seek") as raised:
        output.punch(writing, PAGE)
    assert raised.value.errno == errno.ESPIPE
    os.close(reading)
    os.close(writing)
