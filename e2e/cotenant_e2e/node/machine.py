"""What a real node changes on the machine beside its processes, and putting it back: bridge, mounts, cgroups, sysctls.

There is one node on a machine at most. Its mark names the cluster that it belongs to, so that whatever a killed
cluster left is found by the next one.
"""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_api import errors
from cotenant_e2e import files, processes, supervisor, waiting
from cotenant_e2e import state as states
from cotenant_e2e.node import parts
from cotenant_e2e.processes import Process

PACKAGES: Final = "scripts/install-node-packages"
PROGRAMS: Final = ("runc", "ip")
BUSYBOX: Final = Path("/bin/busybox")
CGROUPS: Final = Path("/sys/fs/cgroup")
POD_CGROUP: Final = "kubepods"
CDI: Final = Path("/var/run/cdi")
VOLATILE: Final = (Path("/run/cotenant"),)
"""Folders of an agent that a reboot empties, beside CDI's."""
GONE_SECONDS = 30

# kubelet and the bridge plugin set these and never put them back.
SYSCTLS: Final = (
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "net/ipv4/ip_forward",
)
DRIVERS: Final = Path("/run/nvidia")
"""Where a driver container mounts its files. Pods see that as systemd shares every mount of a machine; not all do."""
# Fixed places in which a node and its agent leave files; those that were not there before are removed.
PLACES: Final = (
    parts.KUBELET_DIRECTORY,
    Path("/var/log/containers"),
    Path("/var/lib/cni"),
    Path("/var/lib/cotenant"),
    Path("/run/containerd"),
    Path("/run/netns"),
    Path("/run/cdi"),
    Path("/etc/cdi"),
    Path("/run/cotenant"),
    Path("/run/cotenant-standin"),
    Path("/usr/local/nvidia"),
    DRIVERS,
)


@dataclass(frozen=True)
class Machine:
    """This machine. Other roots than the real ones are for tests.

    Args:
        mark: the file that says whose node is here.
        places: folders that are removed at the end, unless they were there before.
        sysctls: where the kernel's settings are.
        cgroups: where its control groups are.
        interfaces: where its network interfaces are.
    """

    mark: Path = Path("/run/cotenant-e2e-node.json")
    places: tuple[Path, ...] = PLACES
    sysctls: Path = Path("/proc/sys")
    cgroups: Path = CGROUPS
    interfaces: Path = Path("/sys/class/net")

    def owner(self) -> Path | None:
        """Return the folder of the cluster whose node is here."""
        before = self._before()
        return Path(before["directory"]) if before else None

    def prepare(self, directory: Path) -> None:
        """Make the bridge of the pods, and remember what `clean` is to put back.

        Raises:
            PermanentError: this machine cannot have a node, or has one; the message has the remedy.
        """
        require_able()
        self.require_vacancy()
        if left := self.owner():
            self.clean(left)
        before = {
            "directory": str(directory),
            "new": [str(path) for path in self.places if not path.exists()],
            "sysctls": {name: (self.sysctls / name).read_text() for name in SYSCTLS},
        }
        files.write_private(self.mark, json.dumps(before).encode())
        if str(DRIVERS) in before["new"]:
            DRIVERS.mkdir()
            _run("mount", "--bind", str(DRIVERS), str(DRIVERS))
            _run("mount", "--make-shared", str(DRIVERS))
        _run("ip", "link", "add", parts.BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{parts.ADDRESS}/{parts.SUBNET.prefixlen}", "dev", parts.BRIDGE)
        _run("ip", "link", "set", parts.BRIDGE, "up")

    def end_containers(self, directory: Path) -> None:
        """Kill every container, its shim and its mounts, as a reboot would: nobody is told."""
        if self.owner() != directory:
            return
        for cgroup in self._pod_cgroups():
            _kill_all_of(cgroup)
        for process in processes.with_variable(supervisor.MARK, str(directory)):
            if _name_of(process) == parts.SHIM[:15]:
                process.kill()
        for below in (directory, parts.KUBELET_DIRECTORY):
            _unmount(below)
        for cgroup in self._pod_cgroups():
            _remove(cgroup)

    def clean(self, directory: Path) -> None:
        """Put the machine back as it was, once the cluster's processes have ended.

        Nothing happens where there is no node of this cluster. Two processes may do this at once: a test session, and
        the guard that cleans up after a session that was killed. Neither fails for what the other has done.
        """
        before = self._before()
        if not before or Path(before["directory"]) != directory:
            return
        self.end_containers(directory)
        self._delete_bridge()
        for name, value in before["sysctls"].items():
            (self.sysctls / name).write_text(value)
        for path in map(Path, before["new"]):
            _unmount(path)
            _delete(path)
        self.mark.unlink(missing_ok=True)

    def require_vacancy(self) -> None:
        """Raise PermanentError where this machine has a node."""
        owner = self.owner()
        if owner:
            # What a killed cluster left there is no hindrance: `prepare` removes it.
            if any(process.alive() for process in supervisor.all_of(owner)):
                raise errors.PermanentError(f"this machine has a node of {owner}: stop it with `down --dir {owner}`")
            return
        kubelet = parts.KUBELET_DIRECTORY
        if (kubelet.exists() and any(kubelet.iterdir())) or any(self._pod_cgroups()):
            raise errors.PermanentError(
                f"another kubelet uses this machine ({kubelet}, cgroup {POD_CGROUP}): use a machine without one"
            )
        if (self.interfaces / parts.BRIDGE).exists():
            raise errors.PermanentError(f"there is a network interface {parts.BRIDGE}: ip link delete {parts.BRIDGE}")

    def _before(self) -> dict[str, Any]:
        """Return what the mark says; empty where there is no mark, or no more."""
        try:
            return dict(json.loads(self.mark.read_text()))
        except FileNotFoundError:
            return {}

    def _delete_bridge(self) -> None:
        bridge = self.interfaces / parts.BRIDGE
        if not bridge.exists():
            return
        try:
            _run("ip", "link", "delete", parts.BRIDGE)
        except errors.PermanentError:
            if bridge.exists():
                raise

    def _pod_cgroups(self) -> Iterator[Path]:
        """Of every controller (cgroup v1), or the one there is (v2); the innermost first."""
        roots = [root for root in (self.cgroups / POD_CGROUP, *self.cgroups.glob(f"*/{POD_CGROUP}")) if root.exists()]
        for root in roots:
            for name, _, _ in os.walk(root, topdown=False):
                yield Path(name)


MACHINE: Final = Machine()


def stop(directory: Path) -> None:
    """End kubelet, so that it starts nothing again, and then every container of this cluster's node."""
    if MACHINE.owner() != directory:
        return
    state = states.read(directory)
    for record in state.records if state else ():
        if record.name == parts.KUBELET:
            record.process.stop()
    MACHINE.end_containers(directory)


def require_able() -> None:
    """Raise PermanentError where this process is not root, or a package of the distribution is missing."""
    if os.geteuid() != 0:
        raise errors.PermanentError("a real node needs root: run this as root, or go without one")
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    missing += [str(path) for path in (BUSYBOX, parts.CNI_PROGRAMS / "bridge") if not path.exists()]
    if missing:
        raise errors.PermanentError(f"a real node needs {', '.join(missing)}: run {PACKAGES} as root")


def mounts_below(mountinfo: str, below: Path) -> list[Path]:
    """Mount points at and below a folder, the last mounted first. `mountinfo`: text of /proc/self/mountinfo."""
    points = [Path(line.split()[4].encode().decode("unicode_escape")) for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if point.is_relative_to(below)]


def _unmount(below: Path) -> None:
    """Unmount everything at and below a folder. Others may do the same meanwhile, such as what ends a container."""
    for point in _mounted(below):
        # Of several mounts at one point each takes one turn: another process may have taken this one.
        count = _mounted(below).count(point)
        if not count:
            continue
        try:
            _run("umount", "--lazy", str(point))
        except errors.PermanentError:
            if _mounted(below).count(point) >= count:
                raise


def _delete(folder: Path) -> None:
    """Delete a folder. What is gone by the time that it is deleted needs no more."""

    def failed(_: object, _path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
        if not isinstance(error[1], FileNotFoundError):
            raise error[1]

    shutil.rmtree(folder, onerror=failed)


def _mounted(below: Path) -> list[Path]:
    return mounts_below(Path("/proc/self/mountinfo").read_text(), below)


def processes_in(cgroup: Path) -> list[int]:
    """Who is in a cgroup; nobody in one that is gone, also where it goes while it is read."""
    try:
        return [int(line) for line in (cgroup / "cgroup.procs").read_text().split()]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return []
        raise


def _kill_all_of(cgroup: Path) -> None:
    """SIGKILL whatever is in a cgroup, again and again: a process may be forking."""

    def emptied() -> bool:
        pids = processes_in(cgroup)
        for pid in pids:
            Process.of(pid).kill()
        return not pids

    waiting.wait_until(emptied, f"no process in {cgroup}", GONE_SECONDS, every_seconds=0.02)


def _remove(cgroup: Path) -> None:
    def removed() -> bool:
        try:
            cgroup.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    waiting.wait_until(removed, f"cgroup {cgroup} removed", GONE_SECONDS, every_seconds=0.02)


def _name_of(process: Process) -> str:
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.PermanentError(f"{' '.join(command)}: {errors.shortened(done.stderr.strip())}")
