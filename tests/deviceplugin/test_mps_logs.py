"""The logs of an MPS daemon, followed for fatal errors."""

from pathlib import Path

from cotenant_deviceplugin.mps import logs

FATAL = "[2026-01-01 12:00:00.000 Server 4] Client {PID: 71, Context ID: 1} encountered a fatal GPU error\n"
VICTIM = "[2026-01-01 12:00:00.000 Server 4] Status of client {72, 1} is FAULT\n"
HARMLESS = "[2026-01-01 12:00:00.000 Server 4] Client {PID: 71, Context ID: 1} connected\n"


def append(directory: Path, text: str, *, name: str = "server.log") -> None:
    with (directory / name).open("a") as file:
        file.write(text)


def test_what_stood_there_before_is_history(tmp_path: Path) -> None:
    append(tmp_path, FATAL)
    tail = logs.Tail(tmp_path)
    assert (tail.grown(), tail.read()) == (False, ())


def test_fatal_error_is_told_once_with_the_client_that_it_names(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, HARMLESS + FATAL + VICTIM)
    assert tail.grown()
    assert [(each.line, each.client) for each in tail.read()] == [(FATAL.strip(), 71), (VICTIM.strip(), None)]
    assert (tail.grown(), tail.read()) == (False, ())


def test_line_that_is_still_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, FATAL[:-9])
    assert tail.grown()
    assert (tail.read(), tail.grown()) == ((), False)
    append(tmp_path, FATAL[-9:])
    assert tail.grown()
    assert [each.client for each in tail.read()] == [71]


def test_log_that_was_replaced_is_read_from_its_begin(tmp_path: Path) -> None:
    append(tmp_path, HARMLESS * 3)
    tail = logs.Tail(tmp_path)
    (tmp_path / "server.log").rename(tmp_path / "server.log.1")
    append(tmp_path, HARMLESS * 3 + FATAL)
    assert [each.client for each in tail.read()] == [71]


def test_log_that_was_emptied_is_read_from_its_begin(tmp_path: Path) -> None:
    append(tmp_path, HARMLESS * 3)
    tail = logs.Tail(tmp_path)
    (tmp_path / "server.log").write_text(FATAL)
    assert [each.client for each in tail.read()] == [71]


def test_log_that_is_gone_and_comes_again_is_read_from_its_begin(tmp_path: Path) -> None:
    append(tmp_path, HARMLESS)
    tail = logs.Tail(tmp_path)
    (tmp_path / "server.log").unlink()
    assert tail.read() == ()
    append(tmp_path, FATAL)
    assert [each.client for each in tail.read()] == [71]


def test_of_a_flood_only_the_end_is_read(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, FATAL + HARMLESS * (logs.MAX_BYTES // len(HARMLESS) + 1) + VICTIM)
    assert [each.line for each in tail.read()] == [VICTIM.strip()]


def test_server_that_does_not_start_has_hurt_nobody(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, "[2026-01-01 12:00:00.000 Other 4] MPS server failed to start\n", name="control.log")
    assert tail.read() == ()
