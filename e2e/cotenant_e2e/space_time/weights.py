"""CPU weights by cgroups of version 1, where this machine lets us make some."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final, Self

from cotenant_e2e.space_time.mechanisms import MOST_WEIGHT

ROOT: Final = Path("/sys/fs/cgroup/cpu")


class Weights:
    """A group for each process; at the end the processes go back to where they were found."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._groups: dict[int, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def possible(self) -> str:
        """Return why weights cannot be set here; empty: they can."""
        probe = self._root / "cotenant-space-time-probe"
        try:
            probe.mkdir()
            (probe / "cpu.shares").write_text(str(MOST_WEIGHT))
        except OSError as error:
            return f"{error.filename or self._root}: {error.strerror}"
        finally:
            if probe.is_dir():
                probe.rmdir()
        return ""

    def set(self, pid: int, weight: int) -> None:
        """Put a process with all its threads into a group of this weight."""
        group = self._root / f"cotenant-space-time-{pid}"
        group.mkdir(exist_ok=True)
        self._groups[pid] = group
        (group / "cpu.shares").write_text(str(weight))
        (group / "cgroup.procs").write_text(str(pid))

    def end(self) -> None:
        """Move the processes back and remove the groups."""
        for pid, group in self._groups.items():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                (self._root / "cgroup.procs").write_text(str(pid))
            group.rmdir()
        self._groups.clear()
