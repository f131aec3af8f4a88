"""Whose a process is: PID, as the host counts, to pod UID, by the process's cgroup.

kubelet names the cgroup of a pod after its UID, whatever the runtime (`pkg/kubelet/cm`); a process cannot leave its
pod's cgroup without privileges on the host. Reading other processes' cgroups by the host's PIDs needs hostPID.

What is thus known under MPS: the driver lists each client with the memory it holds, and this module says whose it is.
The MPS server, which the driver lists as well, is a pod's too where a DaemonSet runs it; it is told apart by the PID
that its control daemon names, and so is any other process of ours.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant_api.names import PodUID

_UID = r"[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:[^:]*-)?pod(?P<uid>{_UID})(?:\.slice(?::.*)?)?")
"""A component of a path: `podUID` (cgroupfs), `kubepods-burstable-podUID.slice` (systemd), or the latter with
`:cri-containerd:ID` (a runtime with cgroupfs that was given a systemd name). 32 digits: a static pod's UID."""


@dataclass(frozen=True)
class Owned:
    """Processes and whose they are.

    Attributes:
        pods: those of pods.
        foreign: those of no pod. A PID may have been given to another process since the driver named it: act on what
            is foreign twice in a row.
        gone: those that have ended since; they count for nobody.
    """

    pods: Mapping[int, PodUID]
    foreign: frozenset[int]
    gone: frozenset[int]


class Processes:
    """The host's processes; a hardware.ProcessOwners.

    Args:
        proc: where the host's /proc is.
    """

    def __init__(self, *, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def pod_of(self, pid: int) -> PodUID | None:
        """None: no pod's, or it has ended; `owned` tells these apart."""
        text = self._cgroup(pid)
        return None if text is None else pod_in(text)

    def owned(self, pids: Iterable[int], *, ours: Collection[int] = ()) -> Owned:
        """Sort processes by owner. `ours`: PIDs of MPS servers and of whatever else the agent started: in none."""
        pods: dict[int, PodUID] = {}
        foreign, gone = set(), set()
        for pid in pids:
            if pid in ours:
                continue
            text = self._cgroup(pid)
            owner = None if text is None else pod_in(text)
            if text is None:
                gone.add(pid)
            elif owner is None:
                foreign.add(pid)
            else:
                pods[pid] = owner
        return Owned(pods, frozenset(foreign), frozenset(gone))

    def _cgroup(self, pid: int) -> str | None:
        try:
            # A container may give its own cgroups names of any bytes.
            return (self._proc / str(pid) / "cgroup").read_bytes().decode(errors="surrogateescape")
        except (FileNotFoundError, ProcessLookupError):
            # The latter (ESRCH): it ended while its file was open.
            return None


def pod_in(text: str) -> PodUID | None:
    """Return the pod that the text of `/proc/PID/cgroup` names; None: none, or several that contradict one another.

    Lines are `HIERARCHY:CONTROLLERS:PATH`, one in cgroup v2, one for each hierarchy in v1 (cgroups(7)). Of nested pods
    the outermost counts: below its own cgroup a container may make cgroups of any name.
    """
    paths = (line.split(":", 2)[2] for line in text.split("\n") if line.count(":") >= 2)
    found = {uid for path in paths if (uid := _outermost(path)) is not None}
    return found.pop() if len(found) == 1 else None


def _outermost(path: str) -> PodUID | None:
    for component in path.split("/"):
        match = _POD.fullmatch(component)
        if match:
            return PodUID(match["uid"].replace("_", "-"))
    return None
