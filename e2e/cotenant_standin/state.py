"""The folder that says what the stand-in's GPUs are and do: made and changed here, read by everything else.

One value per file, written whole or not at all, so that a reader never meets half of one. No process is started
here, and nothing is remembered: two objects over one folder are the same machine.

    driver_version      "580.65.06 (stand-in)"; written again: another driver has been loaded
    cuda_version        13000
    missing             exists: the driver is not loaded
    stalled             exists: the driver answers nothing until it is gone
    xids                append-only lines "INDEX XID"
    gpus/INDEX/uuid, name, memory_mib, sm_count, compute_capability
    gpus/INDEX/compute_mode         NVML's number
    gpus/INDEX/mig                  0 or 1; absent: the model has no MIG mode
    gpus/INDEX/recovery_action      NVML's number; absent: this driver does not tell
    gpus/INDEX/remap_pending, remap_failed      0 or 1; absent: the model remaps no rows
    gpus/INDEX/utilization          percent
    gpus/INDEX/lost                 exists: the GPU has fallen off the bus
    gpus/INDEX/denied               exists: settings may not be changed
    gpus/INDEX/no_events            exists: the GPU supports no events
    gpus/INDEX/cuda_fails, cuda_forgets, cuda_hangs     faults of CUDA's library: see native/cuda.c
    gpus/INDEX/processes/PID        MiB used by a process with a compute context; PID as the host counts
    gpus/INDEX/mps_processes/PID    the same of an MPS client
"""

import enum
import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "COTENANT_STANDIN"
DEFAULT_FOLDER = Path("/run/cotenant-standin")
DRIVER_VERSION = "580.65.06 (stand-in)"
CUDA_VERSION = 13000
"""Major x 1000 + minor x 10, as NVML tells it."""

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "stand-in.cotenant.dev")


class ComputeMode(enum.IntEnum):
    """`nvmlComputeMode_t`; 1 (exclusive thread) was removed from CUDA."""

    DEFAULT = 0
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class RecoveryAction(enum.IntEnum):
    """`nvmlDeviceGpuRecoveryAction_t`."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a GPU of one model is. None: a driver of such a GPU does not tell."""

    name: str
    memory_mib: int
    sm_count: int
    compute_capability: str
    mig: bool | None = False
    remaps_rows: bool = True
    recovery_action: RecoveryAction | None = RecoveryAction.NONE


H200 = Model(name="NVIDIA H200", memory_mib=143771, sm_count=132, compute_capability="9.0")
T4 = Model(
    name="Tesla T4", memory_mib=15360, sm_count=40, compute_capability="7.5", mig=None, remaps_rows=False,
    recovery_action=None,
)  # fmt: skip


def folder() -> Path:
    """Return the folder that this process's environment names."""
    return Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)


def gpu_uuid(index: int, *, seed: str = "") -> str:
    """Return the UUID of a stand-in GPU: the same in every run."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{seed}/{index}')}"


class GPU:
    """One GPU of the folder."""

    def __init__(self, root: Path, index: int) -> None:
        self.root, self.index = root, index

    @property
    def uuid(self) -> str:
        """As NVML names it."""
        return self.read("uuid")

    @property
    def memory_mib(self) -> int:
        """All its memory."""
        return int(self.read("memory_mib"))

    @property
    def compute_mode(self) -> ComputeMode:
        """Who may open contexts on it."""
        return ComputeMode(int(self.read("compute_mode")))

    @compute_mode.setter
    def compute_mode(self, mode: ComputeMode) -> None:
        self.set("compute_mode", mode)

    @property
    def lost(self) -> bool:
        """Whether it has fallen off the bus."""
        return (self.root / "lost").exists()

    def read(self, name: str) -> str:
        """One value; FileNotFoundError where the GPU does not tell it."""
        return (self.root / name).read_text().strip()

    def set(self, name: str, value: str | int) -> None:
        """Set one value; `name` as in the module's list."""
        write(self.root / name, value)

    def unset(self, name: str) -> None:
        """Have the GPU not tell this value any more."""
        (self.root / name).unlink(missing_ok=True)

    def lose(self) -> None:
        """Let it fall off the bus."""
        self.set("lost", "")

    def restore(self) -> None:
        """Put it back on the bus."""
        self.unset("lost")

    def processes(self) -> dict[int, int]:
        """MiB by PID of those with a compute context."""
        return _numbers(self.root / "processes")

    def mps_processes(self) -> dict[int, int]:
        """MiB by PID of the MPS clients."""
        return _numbers(self.root / "mps_processes")

    def add_process(self, pid: int, memory_mib: int, *, mps: bool = False) -> None:
        """Let a process hold so much; a second call changes how much."""
        write(self.root / _kind(mps=mps) / str(pid), memory_mib)

    def remove_process(self, pid: int, *, mps: bool = False) -> None:
        """Let the process hold nothing any more."""
        (self.root / _kind(mps=mps) / str(pid)).unlink(missing_ok=True)


class State:
    """The whole folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def gpu(self, index: int) -> GPU:
        """One GPU."""
        return GPU(self.root / "gpus" / str(index), index)

    def gpus(self) -> tuple[GPU, ...]:
        """All, by index."""
        names = (entry.name for entry in (self.root / "gpus").iterdir())
        return tuple(self.gpu(index) for index in sorted(int(name) for name in names if name.isdigit()))

    def by_uuid(self, gpu: str) -> GPU:
        """Return the GPU of a UUID; KeyError without one."""
        return {each.uuid: each for each in self.gpus()}[gpu]

    def add_gpu(self, model: Model, *, gpu: str | None = None) -> GPU:
        """One GPU more, last; `gpu`: its UUID."""
        made = self.gpu(len(self.gpus()))
        for kind in ("processes", "mps_processes"):
            (made.root / kind).mkdir(parents=True)
        for name, value in _values(model).items():
            made.set(name, value)
        made.set("uuid", gpu_uuid(made.index) if gpu is None else gpu)
        return made

    def raise_xid(self, index: int, xid: int) -> None:
        """Have the driver report a critical event of one GPU."""
        with (self.root / "xids").open("ab", buffering=0) as log:
            log.write(f"{index} {xid}\n".encode())

    def xids(self) -> tuple[tuple[int, int], ...]:
        """Every event so far, as (index, XID)."""
        lines = (line.split() for line in (self.root / "xids").read_text().splitlines())
        return tuple((int(index), int(xid)) for index, xid in lines)

    def unload(self) -> None:
        """Take the driver away."""
        write(self.root / "missing", "")

    def load(self) -> None:
        """Bring the driver back; who talked to the one before must begin anew (its files are others)."""
        write(self.root / "driver_version", (self.root / "driver_version").read_text().strip())
        (self.root / "missing").unlink(missing_ok=True)

    def stall(self) -> None:
        """Let the driver hang: whoever asks it anything waits."""
        write(self.root / "stalled", "")

    def resume(self) -> None:
        """Let it answer again."""
        (self.root / "stalled").unlink(missing_ok=True)

    @property
    def loaded(self) -> bool:
        """Whether the driver is there."""
        return not (self.root / "missing").exists()


def create(root: Path, models: Sequence[Model] = (H200,), *, seed: str = "") -> State:
    """Return a machine with these GPUs, idle and well. The folder may exist and must hold no GPU.

    Args:
        root: the folder.
        models: one for each GPU, by index.
        seed: GPUs of different seeds have different UUIDs.
    """
    (root / "gpus").mkdir(parents=True, exist_ok=True)
    (root / "xids").touch()
    write(root / "driver_version", DRIVER_VERSION)
    write(root / "cuda_version", CUDA_VERSION)
    made = State(root)
    for index, model in enumerate(models):
        made.add_gpu(model, gpu=gpu_uuid(index, seed=seed))
    return made


def write(path: Path, value: str | int) -> None:
    """Put a value into a file so that a reader sees the old one or the new one."""
    text = str(int(value)) if isinstance(value, int) else value
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(handle, "w") as file:
        file.write(f"{text}\n")
    Path(name).chmod(0o644)
    Path(name).rename(path)


def _values(model: Model) -> Mapping[str, str | int]:
    told: dict[str, str | int | None] = {
        "name": model.name,
        "memory_mib": model.memory_mib,
        "sm_count": model.sm_count,
        "compute_capability": model.compute_capability,
        "compute_mode": ComputeMode.DEFAULT,
        "utilization": 0,
        "mig": model.mig,
        "recovery_action": model.recovery_action,
        "remap_pending": 0 if model.remaps_rows else None,
        "remap_failed": 0 if model.remaps_rows else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _numbers(directory: Path) -> dict[int, int]:
    found = {}
    for entry in directory.iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = int(entry.read_text())
            except FileNotFoundError:
                continue  # it ended between the listing and the reading
    return dict(sorted(found.items()))


def _kind(*, mps: bool) -> str:
    return "mps_processes" if mps else "processes"
