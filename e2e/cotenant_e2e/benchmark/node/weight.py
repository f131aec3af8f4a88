"""What one process takes: memory, CPU, and the CPU of the programs that it has run to their end. From /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Weight:
    """Of a process until now.

    Attributes:
        rss_mib, peak_mib: resident memory, and its peak.
        cpu_seconds: user and system time of its own.
        programs_seconds: the same of programs that it has run; here NVIDIA's control program, a stand-in.
    """

    rss_mib: float
    peak_mib: float
    cpu_seconds: float
    programs_seconds: float


def of(pid: int) -> Weight:
    """Return the weight of a process until now. Raises OSError where it has ended."""
    folder = Path(f"/proc/{pid}")
    return parse((folder / "stat").read_text(), (folder / "status").read_text())


def parse(stat: str, status: str) -> Weight:
    """From the texts of /proc/PID/stat and /proc/PID/status; a program's name may hold `)` and spaces."""
    user, system, of_programs, of_programs_system = map(int, stat.rpartition(")")[2].split()[11:15])
    kib = dict(line.split(":", 1) for line in status.splitlines())
    return Weight(
        rss_mib=int(kib["VmRSS"].split()[0]) / 1024,
        peak_mib=int(kib["VmHWM"].split()[0]) / 1024,
        cpu_seconds=(user + system) / _TICKS_PER_SECOND,
        programs_seconds=(of_programs + of_programs_system) / _TICKS_PER_SECOND,
    )
