"""What a process that reads a tenant's bytes can do when somebody else decides what it does: nothing."""

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_operator.parsing import confinement, process, tasks, zygote
from operator_kit import attacks

DENIED = "Operation not permitted"
TASK = tasks.Task(kind=tasks.Kind.DIGEST, source="bytes")


@pytest.fixture
async def reader(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[process.Process]:
    """The process, in which the bytes decide what is done; there are secrets in the environment of the test."""
    monkeypatch.setenv("SECRET", "of the operator")
    found = process.Process(command=(sys.executable, attacks.__file__))
    await found.start()
    yield found
    await found.close()


async def said(reader: process.Process, words: str) -> str:
    """What the child says of its attempt."""
    return str((await reader.ask("team", TASK, words.encode())).problem)


async def test_no_file_is_opened(reader: process.Process, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    for attempt in (f"read {token}", f"write {token}", f"list {tmp_path}", f"read /proc/{os.getpid()}/environ"):
        assert DENIED in await said(reader, attempt), attempt
    assert token.read_text() == "secret"


async def test_nobody_is_connected_to_no_process_is_started_and_no_limit_is_lifted(reader: process.Process) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert DENIED in await said(reader, f"connect {server.getsockname()[1]}")
    for attempt in ("pipe", "fork", "run"):
        assert DENIED in await said(reader, attempt), attempt
    assert "refused: not allowed to raise maximum limit" in await said(reader, "limits")


async def test_the_operator_is_not_touched(reader: process.Process) -> None:
    for attempt in ("kill", "trace", "memory"):
        assert DENIED in await said(reader, f"{attempt} {os.getpid()}"), attempt


async def test_nothing_of_the_environment_is_there(reader: process.Process) -> None:
    found = await said(reader, "environment")
    assert "OPENBLAS_NUM_THREADS" in found
    assert "SECRET" not in found
    assert "KUBE" not in found


async def test_nothing_of_one_tenant_is_left_for_the_next(reader: process.Process) -> None:
    assert await said(reader, "say one") == "did it: one"
    assert await said(reader, "say two") == "did it: two"


async def test_memory_is_bounded_and_the_refusal_names_bytes_and_remedy(reader: process.Process) -> None:
    for attempt in ("fill", "grow"):
        found = await said(reader, attempt)
        assert found.startswith("bytes: '4 bytes': takes more than 160 MiB of memory to read: ")
        assert "spec.sharing: Exclusive" in found


async def test_time_is_bounded_and_the_refusal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MARGIN_SECONDS", 600.0)  # on a busy machine 5 s of a core take long
    reader = process.Process(command=(sys.executable, attacks.__file__, "patient"))
    await reader.start()
    assert "takes more than 5 s of CPU time to read" in await said(reader, "spin")
    await reader.close()


async def test_crash_is_refused_when_it_is_one_again(reader: process.Process) -> None:
    with pytest.raises(errors.TemporaryError, match="1 times so far, for no fault of its own"):
        await reader.ask("team", TASK, b"crash")
    soon(reader)
    assert "ends its reader by SIGSEGV" in await said(reader, "crash")


async def test_fault_of_ours_is_tried_again_a_bounded_number_of_times(reader: process.Process) -> None:
    for _ in range(process.MAX_FAULTS - 1):
        with pytest.raises(errors.TemporaryError) as raised:
            await reader.ask("team", TASK, b"exit 3")
        assert 0 < raised.value.delay_seconds <= 2 * process.RETRY_SECONDS
        soon(reader)
    answer = await reader.ask("team", TASK, b"exit 3")
    assert "tried again after 600 s" in str(answer.fault)
    assert answer.problem is None
    assert await said(reader, "say on") == "did it: on"


async def test_document_for_which_the_node_had_no_memory_is_tried_again() -> None:
    short = process.Process(command=(sys.executable, attacks.__file__, "short"))
    await short.start()
    for _ in range(process.MAX_FAULTS - 1):
        with pytest.raises(errors.TemporaryError, match="for no fault of its own"):
            await short.ask("team", TASK, b"grow")
        soon(short)
    answer = await short.ask("team", TASK, b"grow")
    assert "tried again after 600 s" in str(answer.fault)
    assert answer.problem is None
    await short.close()


async def test_child_that_gets_no_cpu_holds_nobody_up_for_long_and_is_tried_again() -> None:
    busy = process.Process(command=(sys.executable, attacks.__file__, "busy"))
    await busy.start()
    with pytest.raises(errors.TemporaryError, match="for no fault of its own"):
        await busy.ask("team", TASK, b"spin")
    assert await said(busy, "say two") == "did it: two"
    await busy.close()


def test_a_child_that_waits_is_ended_long_before_a_minute() -> None:
    assert zygote.WALL_SECONDS + process.MARGIN_SECONDS <= 30


async def test_process_that_is_gone_is_started_again(reader: process.Process) -> None:
    assert await said(reader, "say one") == "did it: one"
    gone = reader.pid
    # It stands still, so that the question comes to it, and ends with it.
    os.kill(gone, signal.SIGSTOP)
    asyncio.get_running_loop().call_later(0.1, os.kill, gone, signal.SIGKILL)
    asking = asyncio.create_task(reader.ask("team", TASK, b"say one"))
    with pytest.raises(errors.TemporaryError):
        await asking
    assert reader.pid != gone
    assert await said(reader, "say two") == "did it: two"


async def test_question_that_is_given_up_does_not_answer_the_next(reader: process.Process) -> None:
    asking = asyncio.create_task(reader.ask("team", TASK, b"spin"))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await said(reader, "say two") == "did it: two"


async def test_answer_that_is_none_is_a_fault(reader: process.Process) -> None:
    with pytest.raises(errors.TemporaryError):
        await reader.ask("team", TASK, b"exit 0")


async def test_giant_answer_is_a_fault_and_ends_nothing_but_its_child(reader: process.Process) -> None:
    assert await said(reader, "say one") == "did it: one"
    before = reader.pid
    with pytest.raises(errors.TemporaryError, match="1 times so far"):
        await reader.ask("evil", TASK, b"flood")
    assert await said(reader, "say two") == "did it: two"
    assert reader.pid == before


async def test_task_that_is_too_large_is_refused_with_the_remedy(reader: process.Process) -> None:
    shapes: dict[str, tuple[int, ...]] = {"\x01" * 240 + f"{number:03}": (9,) * 16 for number in range(64)}
    onnx = tasks.ONNX(name="x", batch_size=1, mode="Training", precision="fp32", shapes=shapes)
    task = tasks.Task(kind=tasks.Kind.PREDICTION, source="spec.model.onnx", onnx=onnx)
    problem = str((await reader.ask("evil", task, b"say one")).problem)
    assert problem.startswith("spec.model.onnx: '")
    assert "may be 65536: name fewer tensors in spec.inputShapes" in problem


def soon(reader: process.Process) -> None:
    """Let the time of the next try have come."""
    for known in reader.faults.values():
        known.again_at = 0.0


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_refuses_what_it_does_not_name(machine: str) -> None:
    steps = confinement.program(machine)
    assert len(steps) % 8 == 0
    *_, refuse, allow = (steps[start : start + 8] for start in range(0, len(steps), 8))
    assert int.from_bytes(refuse[4:], sys.byteorder) == 0x00050000 | errno.EPERM
    assert int.from_bytes(allow[4:], sys.byteorder) == 0x7FFF0000


def test_limits_leave_room_below_the_bar() -> None:
    assert zygote.LIMITS.memory_bytes <= 160 << 20
