"""The published experiment once more, node by node in plain Python: what the self-check of a synthetic trace expects.

Shares nothing with the simulator but the trace as read and the order of arrivals.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cotenant_simulator.openb import arrivals, trace
from simulator import synthetic


@dataclass
class Machine:
    """A node while pods arrive."""

    node: trace.Node
    cpu: int
    memory: int
    idle: list[int] = field(default_factory=list)


Score = Callable[[Machine, trace.Pod], int]


def takers(machine: Machine, pod: trace.Pod) -> list[int]:
    """GPUs that a pod would get: the tightest that fits, or the first that are idle."""
    free = [gpu for gpu, idle in enumerate(machine.idle) if idle >= pod.milli]
    if pod.gpus == 1 and pod.milli < 1000:
        return sorted(free, key=lambda gpu: (machine.idle[gpu], gpu))[:1]
    return free[: pod.gpus]


def fits(machine: Machine, pod: trace.Pod) -> bool:
    if machine.cpu < pod.cpu_millis or machine.memory < pod.memory_mib:
        return False
    if pod.gpus and pod.models and machine.node.model not in pod.models:
        return False
    return len(takers(machine, pod)) == pod.gpus


def best_fit(machine: Machine, pod: trace.Pod) -> int:
    cpu = (machine.cpu - pod.cpu_millis) / 128000
    gpu = (sum(machine.idle) - pod.gpus * pod.milli) / 8000
    return int(100 * (1 - (0.5 * cpu + 0.5 * gpu)))


def gpu_packing(machine: Machine, pod: trace.Pod) -> int:
    if pod.gpus == 0:
        return 0
    idle, gpus = machine.idle.count(1000), len(machine.idle)
    if idle == gpus:
        return max(33 - idle, idle)
    if pod.milli == 1000:
        return max(50 - pod.gpus, 33)
    left = machine.idle[takers(machine, pod)[0]]
    return 49 if left == 1000 else max(100 - (100 * left // 1000) // 10, 50)


def _score_of(score: Score, pod: trace.Pod, machine: Machine) -> int:
    return score(machine, pod)


def curve(read: trace.Trace, score: Score, *, seed: int) -> list[float]:
    """Allocation in percent by column of arrived demand, 0 to 130."""
    order = arrivals.order(read, seed=seed)
    machines = [Machine(n, n.cpu_millis, n.memory_mib, [1000] * n.gpus) for n in order.nodes]
    capacity = sum(node.gpus for node in read.nodes) * 1000
    columns: list[list[float]] = [[] for _ in range(131)]
    arrived = allocated = 0
    for pod in order.pods:
        able = [machine for machine in machines if fits(machine, pod)]
        if able:
            best = max(able, key=functools.partial(_score_of, score, pod))
            for gpu in takers(best, pod):
                best.idle[gpu] -= pod.milli
            best.cpu -= pod.cpu_millis
            best.memory -= pod.memory_mib
            allocated += pod.gpus * pod.milli
        arrived += pod.gpus * pod.milli
        columns[int(100 * arrived / capacity + 0.5)].append(100 * allocated / capacity)
    return [sum(values) / len(values) for values in columns]


def publish(folder: Path, names: Sequence[str], *, seeds: Sequence[int], offset: float = 0.0) -> None:
    """Write the file of published curves; `offset` percent is added to column 100."""
    lines = [",".join(["workload", "sc_policy", "tune", "seed", "total_gpus", *map(str, range(131))])]
    for name in names:
        read = trace.read(folder, name)
        gpus = sum(node.gpus for node in read.nodes)
        for policy, score in (("04-GpuPacking", gpu_packing), ("05-BestFit", best_fit)):
            for seed in seeds:
                percent = curve(read, score, seed=seed)
                percent[100] += offset
                cells = [f"{trace.PODS_PREFIX}{name}", policy, "1.3", str(seed), str(gpus)]
                lines.append(",".join([*cells, *(f"{value:.2f}" for value in percent)]))
    (folder / "expected_allocation_percent.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def commit(folder: Path) -> None:
    """The trace of `synthetic` and its curves."""
    publish(folder, synthetic.write(folder), seeds=synthetic.SEEDS)


if __name__ == "__main__":
    commit(synthetic.COMMITTED)
