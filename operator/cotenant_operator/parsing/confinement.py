"""What the process that reads a tenant's bytes gives up before it looks at them. Linux alone; there is no way back.

limits   memory, CPU time; no new file descriptor, no new process, no file of any size, no core
prctl    no new privileges, not traceable, killed with its parent
seccomp  read, write, memory and the end: every other system call is refused with EPERM
"""

import ctypes
import os
import platform
import resource
import signal
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER: Final = 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1
"""SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with EPERM."""
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
"""Where these two stand in `struct seccomp_data`."""

_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""By machine: its AUDIT_ARCH of linux/audit.h, and its place in the table below."""
_CALLS: Final = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "sched_yield": (24, 124),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "futex": (202, 98),
    "clock_gettime": (228, 113),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "restart_syscall": (219, 128),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
"""System calls that are allowed, by name: numbers of asm/unistd_64.h and of asm-generic/unistd.h."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What reading may take.

    Attributes:
        memory_bytes: address space beyond what the process has when it begins.
        cpu_seconds: of CPU time.
    """

    memory_bytes: int
    cpu_seconds: int


def unsupported() -> str | None:
    """Why this machine cannot confine a process; None: it can."""
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        known = " and ".join(sorted(_MACHINES))
        return f"documents of tenants are read in a confined process on Linux, {known}: this is {platform.platform()}"
    return None


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def forbid_tracing() -> None:
    """Refuse ptrace and reading of this process's memory to others of the same user."""
    _prctl(_PR_SET_DUMPABLE, 0)


def confine(limits: Limits) -> None:
    """Give up everything that reading does not need.

    Raises:
        OSError: the kernel refuses.
    """
    memory = _address_space() + limits.memory_bytes
    forbid_tracing()
    # SIGXCPU first, by which it is known; then SIGKILL.
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 1))
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_AS, memory),
        # Last: no file, socket or pipe is opened any more.
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _filter_calls()


def program(machine: str) -> bytes:
    """Return the filter as BPF instructions, each of 8 bytes."""
    architecture, place = _MACHINES[machine]
    numbers = [found[place] for found in _CALLS.values()]
    steps = [_step(_LOAD, _ARCHITECTURE), _step(_EQUAL, architecture, 1, 0), _step(_RETURN, _REFUSE)]
    steps.append(_step(_LOAD, _NUMBER))
    # From each number to the last instruction, which allows.
    count = len(numbers)
    steps += [_step(_EQUAL, number, count - index, 0) for index, number in enumerate(numbers)]
    return b"".join([*steps, _step(_RETURN, _REFUSE), _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _filter_calls() -> None:
    steps = program(platform.machine())
    kept = ctypes.create_string_buffer(steps, len(steps))
    filled = _Program(len(steps) // 8, ctypes.cast(kept, ctypes.c_void_p))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(filled))


def _prctl(option: int, first: int, second: int = 0) -> None:
    arguments = (ctypes.c_ulong(value) for value in (first, second, 0, 0))
    if _libc.prctl(option, *arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def _address_space() -> int:
    """Of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


_libc = ctypes.CDLL(None, use_errno=True)
