"""The ledger's file is the old one or the new one, and a broken one is kept and told of."""

import json
import logging
from pathlib import Path

import pytest

from cotenant_api import documents, errors
from cotenant_deviceplugin.binding import disk
from cotenant_deviceplugin.binding.ledger import Ledger
from node_kit.bookings import A, B, allocation, grant, tokens

LEDGER = Ledger(
    (
        allocation("n1", tokens(1, 2)),
        allocation("n2", tokens(3), grant("u1", (A, 100), (B, 100), backend="Whole")),
    )
)


async def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    await disk.LedgerFile(tmp_path / "state").write(LEDGER)
    assert await disk.LedgerFile(tmp_path / "state").read() == LEDGER
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["ledger.json"]


async def test_where_nothing_was_written_the_ledger_is_empty(tmp_path: Path) -> None:
    assert await disk.LedgerFile(tmp_path).read() == Ledger()


async def test_what_was_written_only_in_part_is_not_looked_at(tmp_path: Path) -> None:
    await disk.LedgerFile(tmp_path).write(LEDGER)
    (tmp_path / "ledger.json.partial").write_text("{")
    assert await disk.LedgerFile(tmp_path).read() == LEDGER


def changed(**changes: object) -> bytes:
    value = json.loads(disk.to_text(LEDGER)) | changes
    return documents.canonical(value).encode()


def signed(**changes: object) -> bytes:
    value = {key: each for key, each in json.loads(changed(**changes)).items() if key != "checksum"}
    return documents.canonical(value | {"checksum": disk.checksum(value)}).encode()


TWICE = [json.loads(disk.to_text(Ledger((allocation(),))))["allocations"][0]] * 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        changed(allocations=[]),
        changed(checksum="sha256:0"),
        signed(allocations=[{"nonce": "n1"}]),
        signed(allocations=TWICE),
    ],
    ids=["empty", "cut", "list", "bytes", "edited", "checksum", "incomplete", "inconsistent"],
)
async def test_a_broken_file_is_set_aside_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "ledger.json"
    for number in (1, 2):
        path.write_bytes(content)
        assert await disk.LedgerFile(tmp_path).read() == Ledger()
        assert (tmp_path / f"ledger.json.broken-{number}").read_bytes() == content
    assert not path.exists()
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "ledger.json.broken-2" in caplog.text


async def test_a_file_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_bytes(signed(v=2))
    with pytest.raises(errors.UnsupportedVersionError, match="this release reads version 1"):
        await disk.LedgerFile(tmp_path).read()
    assert (tmp_path / "ledger.json").exists()


def test_what_the_next_release_adds_is_ignored() -> None:
    entry = json.loads(disk.to_text(Ledger((allocation("n1"),))))["allocations"][0] | {"colour": "red"}
    assert disk.from_text(signed(allocations=[entry], shape="round")) == Ledger((allocation("n1"),))


def test_the_file_of_this_release_stays_readable() -> None:
    text = (
        '{"allocations":[{"grant":{"booked":{"backend":"MPS","container":"main","gpus":[{"activeThreadPercentage":30,'
        '"clientPriority":0,"memoryMiB":1024,"share":30,"uuid":"GPU-a"}],"node":"n1","podUID":"u1","policyGeneration":1,'
        '"processesPerGPU":1,"v":1},"container":"main","namespace":"team","pod":"p-u1","podUID":"u1"},'
        '"mintedAt":"2026-03-01T12:00:00Z","nonce":"n1","tokens":["t0001","t0002"]}],'
        '"checksum":"sha256:CHECKSUM","v":1}'
    )
    expected = Ledger((allocation("n1", None, grant("u1")),))
    known = json.loads(disk.to_text(expected))["checksum"]
    assert disk.from_text(text.replace("sha256:CHECKSUM", known).encode()) == expected


async def test_a_disk_that_fails_is_a_temporary_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.TemporaryError, match="ledger"):
        await disk.LedgerFile(tmp_path / "file").write(LEDGER)
    with pytest.raises(errors.TemporaryError, match="ledger"):
        await disk.LedgerFile(tmp_path / "file").read()


async def test_a_broken_file_that_cannot_be_set_aside_is_no_empty_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("{")
    for number in range(1, disk.MAX_BROKEN + 1):
        (tmp_path / f"ledger.json.broken-{number}").mkdir()
    with pytest.raises(errors.TemporaryError, match="ledger"):
        await disk.LedgerFile(tmp_path).read()
    assert (tmp_path / "ledger.json").exists()
