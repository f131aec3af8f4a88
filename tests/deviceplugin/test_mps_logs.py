"""The logs of an MPS daemon, followed for fatal errors."""

import shutil
from pathlib import Path

import pytest

from cotenant_deviceplugin.mps import logs, output

STAMP = "[2026-01-01 12:00:00.000 "
FATAL = f"{STAMP}Server     4] Client process 71 encountered a fatal GPU error.\n"
FATAL_580 = f"{STAMP}Server     4] Client {{PID: 71, Context: 1}} encountered a fatal GPU error.\n"
HANDLED = f"{STAMP}Server     4] Server is handling a fatal GPU error.\n"
HARMLESS = f"{STAMP}Server     4] Client {{PID: 71, Context ID: 1}} connected\n"
ANSWERS = ("Cmd:get_server_status 4", "INITIALIZING", "Cmd:get_server_list", "4", "Server 4 is <busy>", "100.0")
EXCHANGE = ("Accepting connection...", "NEW UI", *ANSWERS, "Server 9 not found", "UI closed")
QUESTION = "".join(f"{STAMP}Control    3] {said}\n" for said in EXCHANGE)


def append(directory: Path, text: str, *, name: str = "server.log") -> None:
    with (directory / name).open("a") as file:
        file.write(text)


def test_what_stood_there_before_is_history(tmp_path: Path) -> None:
    append(tmp_path, FATAL)
    tail = logs.Tail(tmp_path)
    assert (tail.grown(), tail.read()) == (False, ())


def test_fatal_error_is_told_once(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, HARMLESS + HANDLED + FATAL)
    assert tail.grown()
    assert tail.read() == (HANDLED.strip(), FATAL.strip())
    assert (tail.grown(), tail.read()) == (False, ())


def test_line_that_is_still_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, FATAL[:-9])
    assert tail.grown()
    assert (tail.read(), tail.grown()) == ((), False)
    append(tmp_path, FATAL[-9:])
    assert tail.grown()
    assert tail.read() == (FATAL.strip(),)


def test_log_that_was_replaced_is_read_from_its_begin(tmp_path: Path) -> None:
    append(tmp_path, HARMLESS * 3)
    tail = logs.Tail(tmp_path)
    (tmp_path / "server.log").rename(tmp_path / "server.log.1")
    append(tmp_path, HARMLESS * 3 + FATAL)
    assert tail.read() == (FATAL.strip(),)


def test_log_that_was_emptied_is_read_from_its_begin(tmp_path: Path) -> None:
    append(tmp_path, HARMLESS * 3)
    tail = logs.Tail(tmp_path)
    (tmp_path / "server.log").write_text(FATAL)
    assert tail.read() == (FATAL.strip(),)


def test_log_that_is_gone_and_comes_again_is_read_from_its_begin(tmp_path: Path) -> None:
    append(tmp_path, HARMLESS)
    tail = logs.Tail(tmp_path)
    (tmp_path / "server.log").unlink()
    assert tail.read() == ()
    append(tmp_path, FATAL)
    assert tail.read() == (FATAL.strip(),)


def test_of_a_flood_only_the_end_is_read(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, FATAL + HARMLESS * (logs.MAX_BYTES // len(HARMLESS) + 1) + HANDLED)
    assert tail.read() == (HANDLED.strip(),)


def test_server_that_does_not_start_has_hurt_nobody(tmp_path: Path) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, f"{STAMP}Other 4] MPS server failed to start\n", name="control.log")
    append(tmp_path, f"{STAMP}Server     4] Server encountered a fatal exception\n")
    assert tail.read() == ()


@pytest.mark.parametrize("line", [FATAL, FATAL_580])
def test_fatal_error_is_read_in_the_words_of_every_driver(line: str) -> None:
    assert logs.fatal(line) == (line.strip(),)


def test_characters_that_a_tenant_has_chosen_do_no_harm_in_a_log() -> None:
    (shown,) = logs.fatal(f"{STAMP}Server     4] \x1b[2J\rfatal\x00{'x' * 999}")
    assert shown.isprintable()
    assert len(shown) == logs.MAX_SHOWN


def test_answers_to_questions_are_no_news_and_what_is_said_between_them_is(tmp_path: Path) -> None:
    append(tmp_path, QUESTION, name="output.log")
    tail = logs.Tail(tmp_path)
    append(tmp_path, QUESTION, name="output.log")
    assert not tail.grown()
    append(tmp_path, QUESTION + HARMLESS, name="output.log")
    assert (tail.grown(), tail.grown()) == (True, True)
    assert (tail.read(), tail.grown()) == ((), False)


def test_nothing_is_lost_or_told_twice_when_output_is_laid_aside(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    append(tmp_path, HARMLESS, name=path.name)
    tail = logs.Tail(tmp_path)
    append(tmp_path, FATAL, name=path.name)
    output.bound(path, max_bytes=len(FATAL))
    append(tmp_path, FATAL_580, name=path.name)
    assert tail.grown()
    assert tail.read() == (FATAL.strip(), FATAL_580.strip())
    assert (tail.grown(), tail.read()) == (False, ())


def test_output_that_is_copied_and_not_emptied_yet_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    append(tmp_path, HARMLESS, name=path.name)
    tail = logs.Tail(tmp_path)
    append(tmp_path, FATAL, name=path.name)
    shutil.copy(path, output.before(path))
    assert tail.read() == ()
    path.write_text("")
    assert tail.read() == (FATAL.strip(),)
    assert tail.read() == ()


@pytest.mark.parametrize(
    "said",
    [
        "Cmd:Client {PID: 71, Context: 1} encountered a fatal GPU error.",
        'Unknown command "fatal"',
        "Cmd:x\x0b[2026-01-01 12:00:00.000 Server     4] Client process 71 encountered a fatal GPU error.",
        "Cmd:x\u2028[2026-01-01 12:00:00.000 Server     4] Client process 71 encountered a fatal GPU error.",
    ],
)
def test_words_of_a_command_are_no_fault(tmp_path: Path, said: str) -> None:
    tail = logs.Tail(tmp_path)
    append(tmp_path, f"{STAMP}Control    3] {said}\n", name="output.log")
    assert tail.read() == ()
