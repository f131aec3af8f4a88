"""Memory of a process and of all that it has started, from /proc, sampled until it is told to stop.

Who has ended is started again, as kubelet does, and counted.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_e2e.background import Background
from cotenant_e2e.cluster import Cluster

_EVERY_SECONDS: Final = 0.5


class Weights(Background):
    """Samples processes of a cluster for the block.

    Attributes:
        peaks_mib: by process, the most that it and its descendants held at a time, in MiB. Pages that several of them
            share count once (Pss).
        ends: by process, how often it had ended.
    """

    def __init__(self, cluster: Cluster, names: tuple[str, ...]) -> None:
        self._cluster, self._names = cluster, names
        self.peaks_mib = dict.fromkeys(names, 0.0)
        self.ends = dict.fromkeys(names, 0)
        super().__init__(self._sample, every_seconds=_EVERY_SECONDS)

    def _sample(self) -> None:
        alive = {status.name: status.pid for status in self._cluster.status() if status.alive}
        for name in self._names:
            if name in alive:
                self.peaks_mib[name] = max(self.peaks_mib[name], mib(alive[name]))
            else:
                self.ends[name] += 1
                self._restart(name)

    def _restart(self, name: str) -> None:
        """Restart what has ended; it may end again before it answers: that is seen next time."""
        with suppress(errors.CotenantError):
            self._cluster.restart(name)


def mib(pid: int) -> float:
    """Return what a process and its descendants hold now, in MiB; 0 for one that has ended."""
    return sum(map(_pss_kib, _family(pid))) / 1024


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            threads = list(Path(f"/proc/{one}/task").iterdir())
            found.extend(int(child) for thread in threads for child in (thread / "children").read_text().split())
        except OSError:
            continue
    return found


def _pss_kib(pid: int) -> int:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
