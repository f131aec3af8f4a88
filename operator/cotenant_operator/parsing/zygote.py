"""The reading process: loads everything once, then forks a confined child for each request. Holds no credentials.

It is started with an empty environment and one socket. A request is the task, with a socket of its own attached on
which the bytes come and the answer goes: this process never sees what a tenant wrote, so that nothing of one tenant
is left over for the child that reads for the next.
"""

import contextlib
import gc
import json
import logging
import mmap
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cotenant_operator.parsing import confinement, tasks

MAX_REQUEST_BYTES: Final = 64 * 1024
MAX_DATA_BYTES: Final = 2 * 1024 * 1024
"""What a request may carry; a ConfigMap holds less."""
MAX_ANSWER_BYTES: Final = 1024 * 1024
LIMITS: Final = confinement.Limits(memory_bytes=160 * 1024 * 1024, cpu_seconds=5)
WALL_SECONDS: Final = 4.0 * LIMITS.cpu_seconds
"""Of a child that gets no CPU: others wait behind it. It is tried again, nothing is held against the bytes."""
OUT_OF_MEMORY: Final = 77
"""How a child ends that got no more memory."""
_OOM_SCORE: Final = "/proc/self/oom_score_adj"

Work = Callable[[tasks.Task, bytes], tasks.Answer]


def serve(
    control: socket.socket,
    work: Work,
    *,
    limits: confinement.Limits = LIMITS,
    wall_seconds: float = WALL_SECONDS,
    has_memory: Callable[[int], bool] | None = None,
) -> None:
    """Answer requests until the other end of the socket is closed. `has_memory`: see `_has_memory`, which it is."""
    memory = has_memory or _has_memory
    gc.collect()
    # Children share this memory as long as nobody writes to it: the collector would.
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST_BYTES, 1)
        if not request:
            return
        with socket.socket(fileno=descriptors[0]) as data:
            try:
                pid = os.fork()
            except OSError as error:
                _report(control, fault=f"no process could be started: {error.strerror}")
                continue
            if pid == 0:
                _child(control, data, request, work=work, limits=limits)
        ended, report = _watch(control, pid, wall_seconds)
        if ended == OUT_OF_MEMORY and not memory(limits.memory_bytes):
            # Less than its limit was there for it: another time it may be enough.
            report["fault"] = f"the node did not have {limits.memory_bytes >> 20} MiB for it"
        _report(control, **report)


def _watch(control: socket.socket, pid: int, wall_seconds: float) -> tuple[int, dict[str, object]]:
    """Wait for the child, and return how it ended; end it where it takes too long or nobody waits for it."""
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(control, select.POLLHUP)
        ready = dict(poll.poll(wall_seconds * 1000))
        if handle not in ready:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status, used = os.wait4(pid, 0)
    ended = os.waitstatus_to_exitcode(status)
    cpu = round(used.ru_utime + used.ru_stime, 3)
    fault = "" if handle in ready else f"it got {cpu:g} s of CPU in {wall_seconds:g} s"
    return ended, {"ended": ended, "cpu": cpu, "peak_kib": used.ru_maxrss, "fault": fault}


def _has_memory(count: int) -> bool:
    """Return whether the kernel gives so many bytes now, to a process that has no limit of its own.

    Where it promises more than it has, it always does, and ends a process that it cannot serve: that is no verdict.
    """
    try:
        mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return False
    return True


def _report(control: socket.socket, **found: object) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        control.send(json.dumps(found).encode())


def _child(
    control: socket.socket, data: socket.socket, request: bytes, *, work: Work, limits: confinement.Limits
) -> None:
    """Read, answer, and end: nothing of the parent's loop is run."""
    code = 1
    try:
        confinement.die_with_parent()
        _be_first_to_go()
        descriptor = data.detach()
        control.close()
        _keep_only(descriptor)
        confinement.confine(limits)
        task = tasks.Task.model_validate_json(request)
        code = _answer(descriptor, task, work, limits)
    finally:
        os._exit(code)


def _answer(descriptor: int, task: tasks.Task, work: Work, limits: confinement.Limits) -> int:
    """Write the answer; return how to end."""
    data, code = _received(descriptor), 0
    try:
        found = work(task, data)
        text = found.text()
    except MemoryError:
        text = tasks.too_large(task, len(data), f"{limits.memory_bytes >> 20} MiB of memory").text()
        code = OUT_OF_MEMORY
    while text:
        text = text[os.write(descriptor, text) :]
    return code


def _received(descriptor: int) -> bytes:
    parts, size = [], 0
    while size <= MAX_DATA_BYTES and (part := os.read(descriptor, 65536)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _be_first_to_go() -> None:
    """Where the node has no memory left, the kernel takes this process and not the one that serves."""
    with contextlib.suppress(OSError):
        Path(_OOM_SCORE).write_text("1000", encoding="ascii")


def _keep_only(descriptor: int) -> None:
    """Close every other file; the standard ones lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, max(descriptor + 1, min(highest, 65536)))


def main(argv: list[str]) -> int:
    """`python -m cotenant_operator.parsing.zygote MODEL DEVICES DESCRIPTOR`; an empty path: what ships."""
    *files, descriptor = argv
    control = socket.socket(fileno=int(descriptor))
    confinement.die_with_parent()
    confinement.forbid_tracing()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable()
    model, devices = (Path(path) if path else None for path in files)
    ready, work = _loaded(model, devices)
    control.send(ready.text())
    if work is not None:
        serve(control, work)
    return 0


def _loaded(model: Path | None, devices: Path | None) -> tuple[tasks.Ready, Work | None]:
    """Everything that a child needs: it can load nothing any more."""
    from cotenant_api import errors
    from cotenant_operator.parsing import loading

    try:
        return loading.load(model, devices)
    except errors.CotenantError as error:
        return tasks.Ready(error=str(error)), None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
