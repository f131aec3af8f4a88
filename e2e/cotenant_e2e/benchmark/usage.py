"""CPU time of processes, from /proc."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cotenant_e2e import waiting

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
QUIET_CORES: Final = 0.1
"""Below this nothing of what went before is still being worked off."""


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """User and system time of each process since its start; 0 for one that has ended. This process: `benchmark`."""
    own = os.times()
    return {name: _of(pid) for name, pid in pids.items()} | {"benchmark": own.user + own.system}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each process between the two; one that was started meanwhile counts from its start."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def settle(pids: Mapping[str, int], *, seconds: float = 60, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until these processes do nothing any more.

    Raises:
        NotReadyError: they are busy for that long.
    """
    standing = cpu_seconds(pids)

    def quiet() -> bool:
        nonlocal standing
        began = time.monotonic()
        pause(0.5)
        now = cpu_seconds(pids)
        used, standing = sum(spent(standing, now).values()), now
        return used / (time.monotonic() - began) < QUIET_CORES

    waiting.wait_until(quiet, "rest before the measurement", seconds)


def _of(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    return ticks(text) / _TICKS_PER_SECOND


def ticks(stat: str) -> int:
    """User and system ticks in the text of /proc/PID/stat; a program's name may hold `)` and spaces."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
