"""The ways to share a device that are compared, and how each places the two processes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TIME_SLICING = "Time slicing"
NICE = "nice 19"
WEIGHTS = "cgroup weights"
OURS = "Space-time"
LEAST_WEIGHT, MOST_WEIGHT = 2, 262_144
"""The ends of cpu.shares (cgroup v1): the kernel takes nothing beyond them."""


@dataclass(frozen=True)
class Side:
    """How one of the two processes is placed."""

    cores: tuple[int, ...]
    threads: int
    nice: int | None = None
    """None: as whoever measures."""
    weight: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the process must be started with; another environment is another process."""


@dataclass(frozen=True)
class Mechanism:
    """One way to share."""

    name: str
    inference: Side
    training: Side
    is_split: bool = False
    """It gives each job a fixed part of the device."""
    is_ours: bool = False


def on_cpu(cores: Sequence[int], *, weights: bool) -> list[Mechanism]:
    """Return what is compared on the cores of this machine, `nice` last: it is not taken back without rights."""
    every = tuple(cores)
    whole = Side(every, len(every))
    found = [Mechanism(TIME_SLICING, whole, whole)]
    for count in range(1, len(every)):
        part = Side(every[count:], len(every) - count)
        apart = Side(every[:count], count)
        found.append(Mechanism(f"Split {count} + {len(every) - count} cores", apart, part, is_split=True))
        found.append(Mechanism(f"Split {len(every)} + {len(every) - count} cores", whole, part, is_split=True))
    found.append(Mechanism(OURS, whole, whole, is_ours=True))
    if weights:
        light = Side(every, len(every), weight=LEAST_WEIGHT)
        found.append(Mechanism(WEIGHTS, Side(every, len(every), weight=MOST_WEIGHT), light))
    return [*found, Mechanism(NICE, whole, Side(every, len(every), nice=19))]


def on_gpu(cores: Sequence[int], percentages: Sequence[int], *, under_mps: Mapping[str, str]) -> list[Mechanism]:
    """Return what is compared on a GPU: without MPS, then under MPS by the thread percentage of training."""
    every = tuple(cores)
    plain = Side(every, len(every))
    shared = Side(every, len(every), environment=under_mps)
    found = [Mechanism(TIME_SLICING, plain, plain)]
    if not under_mps:
        return [*found, Mechanism(OURS, plain, plain, is_ours=True)]
    for percent in percentages:
        limited = {**under_mps, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}
        part = Side(every, len(every), environment=limited)
        found.append(Mechanism(f"MPS, training {percent} % of threads", shared, part, is_split=True))
    return [*found, Mechanism(OURS, shared, shared, is_ours=True)]
