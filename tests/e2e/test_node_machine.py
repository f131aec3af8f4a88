"""What a real node changes on a machine: whose it is, what is found of it, what refuses another."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cotenant_api import errors
from cotenant_e2e import processes, supervisor, waiting
from cotenant_e2e.node import machine
from cotenant_e2e.node.machine import Machine

MOUNTINFO = """\
21 1 8:1 / / rw - ext4 /dev/vda rw
30 21 0:4 / /run/c/node/run/netns/a rw - nsfs nsfs rw
31 21 0:5 / /run/c2/node rw - tmpfs tmpfs rw
32 21 0:6 / /run/c/node\\040two rw - tmpfs tmpfs rw
"""


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    sysctls = tmp_path / "sysctls"
    for name in machine.SYSCTLS:
        (sysctls / name).parent.mkdir(parents=True, exist_ok=True)
        (sysctls / name).write_text("1\n")
    return Machine(tmp_path / "mark", (tmp_path / "new",), sysctls, tmp_path / "cgroups", tmp_path / "interfaces")


def marked(here: Machine, directory: Path, *, new: Path) -> None:
    sysctls = dict.fromkeys(machine.SYSCTLS, "0\n")
    here.mark.write_text(json.dumps({"directory": str(directory), "new": [str(new)], "sysctls": sysctls}))


def test_mounts_of_a_folder_are_found_the_last_first() -> None:
    found = machine.mounts_below(MOUNTINFO, Path("/run/c"))
    assert found == [Path("/run/c/node two"), Path("/run/c/node/run/netns/a")]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV])
def test_nobody_is_in_a_cgroup_that_goes_before_or_while_it_is_read(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Path) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_text", gone)
    assert machine.processes_in(Path("/sys/fs/cgroup/x")) == []


def test_cgroup_that_cannot_be_read_is_not_taken_for_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> str:
        raise OSError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(PermissionError):
        machine.processes_in(Path("/sys/fs/cgroup/x"))


def test_a_machine_without_a_node_is_nobodys(here: Machine, tmp_path: Path) -> None:
    assert here.owner() is None
    here.clean(tmp_path)


def test_cleaning_puts_settings_back_and_removes_what_was_new(here: Machine, tmp_path: Path) -> None:
    new = tmp_path / "new"
    (new / "deep").mkdir(parents=True)
    marked(here, tmp_path / "c", new=new)
    here.clean(tmp_path / "c")
    assert not new.exists()
    assert {(here.sysctls / name).read_text() for name in machine.SYSCTLS} == {"0\n"}
    assert here.owner() is None


def test_cleaning_twice_at_once_is_quiet(here: Machine, tmp_path: Path) -> None:
    new = tmp_path / "new"
    for number in range(200):
        (new / f"{number}" / "deep").mkdir(parents=True)
        (new / f"{number}" / "deep" / "file").touch()
    marked(here, tmp_path / "c", new=new)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(here.clean, tmp_path / "c") for _ in range(4)]:
            done.result()
    assert not new.exists()
    assert here.owner() is None
    here.clean(tmp_path / "c")


class Mounts:
    """Mount points, and an umount that comes after another process's. `stubborn`: a point that stays mounted."""

    def __init__(self, *points: Path, stubborn: Path | None = None) -> None:
        self.points, self.stubborn, self.asked = list(points), stubborn, 0

    def mounted(self, below: Path) -> list[Path]:
        """Return mount points at and below a folder, the last first."""
        return [point for point in reversed(self.points) if point.is_relative_to(below)]

    def run(self, *command: str) -> None:
        """Fail as umount does after another process has unmounted the point."""
        point = Path(command[-1])
        self.asked += 1
        if point != self.stubborn:
            self.points.remove(point)
        raise errors.PermanentError(f"umount: {point}: not mounted")


def test_what_another_process_unmounts_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = Path("/run/c/twice")
    mounts = Mounts(Path("/run/c/a"), twice, twice)
    monkeypatch.setattr(machine, "_mounted", mounts.mounted)
    monkeypatch.setattr(machine, "_run", mounts.run)
    machine._unmount(Path("/run/c"))
    machine._unmount(Path("/run/c"))
    assert (mounts.points, mounts.asked) == ([], 3)


def test_what_cannot_be_unmounted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = Mounts(Path("/run/c/a"), Path("/run/c/b"), stubborn=Path("/run/c/a"))
    monkeypatch.setattr(machine, "_mounted", mounts.mounted)
    monkeypatch.setattr(machine, "_run", mounts.run)
    with pytest.raises(errors.PermanentError, match="/run/c/a: not mounted"):
        machine._unmount(Path("/run/c"))


def test_the_node_of_another_cluster_is_left_alone(here: Machine, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    marked(here, tmp_path / "other", new=tmp_path / "new")
    here.clean(tmp_path / "c")
    assert (tmp_path / "new").exists()
    assert here.owner() == tmp_path / "other"


def test_a_second_node_is_refused_with_the_remedy(here: Machine, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    process = processes.start(["sleep", "600"], log=tmp_path / "log", environment={supervisor.MARK: str(other)})
    marked(here, other, new=tmp_path / "new")
    try:
        # A process that has just begun shows no environment for a moment.
        environment = Path(f"/proc/{process.pid}/environ")
        waiting.wait_until(lambda: str(other) in environment.read_text(), "its environment", 30)
        with pytest.raises(errors.PermanentError, match=f"a node of {other}: stop it with `down --dir {other}`"):
            here.require_vacancy()
    finally:
        process.kill()
