"""The folder that stands for a GPU: what it is, and what its processes hold and do."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import physics

FOLDER = "COTENANT_SIMULATED_DEVICE"
"""The variable that names the folder."""
_DEFAULT = {
    "name": "NVIDIA H200",
    "uuid": "GPU-51000000-0000-0000-0000-000000000000",
    "memoryMiB": 143_771,
    "smCount": 132,
    "speedup": 1.0,
    "faults": {},
}


class SimulatedDevice:
    """One GPU; several processes may hold the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: Mapping[str, Any] = {**_DEFAULT, **json.loads((folder / "device.json").read_text(encoding="utf-8"))}

    @classmethod
    def create(cls, folder: Path, **facts: Any) -> SimulatedDevice:
        """Return a device in this folder. `faults`: by job name `Crash`, `Hang`; `speedup`: divides every time."""
        (folder / "tenants").mkdir(parents=True, exist_ok=True)
        (folder / "device.json").write_text(json.dumps(facts), encoding="utf-8")
        return cls(folder)

    @classmethod
    def attached(cls) -> SimulatedDevice:
        """Return the device that the environment names."""
        return cls(Path(os.environ[FOLDER]))

    def hold(self, *, memory_mib: int, loads: Sequence[physics.Load]) -> None:
        """Say what this process holds, and which of its jobs run now."""
        content = {"memoryMiB": memory_mib, "loads": [dataclasses.asdict(load) for load in loads]}
        path = self.folder / "tenants" / f"{os.getpid()}.json"
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(path)

    def tenants(self) -> dict[int, tuple[int, tuple[physics.Load, ...]]]:
        """Memory in MiB and running jobs by process; dead processes hold nothing."""
        found = {}
        for path in sorted((self.folder / "tenants").glob("*.json")):
            pid = int(path.stem)
            if _is_alive(pid):
                found[pid] = _read(path)
        return found

    def used_mib(self) -> int:
        """Memory of all processes."""
        return sum(memory for memory, _ in self.tenants().values())

    def running(self) -> list[physics.Load]:
        """Return the jobs that run now."""
        return [load for _, loads in self.tenants().values() for load in loads]


def _read(path: Path) -> tuple[int, tuple[physics.Load, ...]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    loads = (
        physics.Load(physics.Demand(**row["demand"]), row["context"], row["share"], row["weight"])
        for row in content["loads"]
    )
    return content["memoryMiB"], tuple(loads)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
