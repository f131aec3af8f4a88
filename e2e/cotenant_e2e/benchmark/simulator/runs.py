"""Whole runs of the simulator, each in a process of its own that may use one core."""

import concurrent.futures
import multiprocessing
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_api import packingpolicy
from cotenant_e2e.benchmark.simulator import workload
from cotenant_extender.packing import policies
from cotenant_predictor.colocation import speeds
from cotenant_simulator.engine import interference, ways, world

_STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One size.

    Attributes:
        cpu_seconds: user and system time of the whole process, its start included.
        memory_mib: the most resident memory that it had.
        simulated_seconds: from the first arrival to the last end.
        most_running, most_waiting: jobs at a time.
        done: jobs that ended well.
        utilization_percent: mean of all GPUs over the simulated time.
    """

    size: workload.Size
    cpu_seconds: float
    memory_mib: int
    simulated_seconds: float
    most_running: int
    most_waiting: int
    done: int
    utilization_percent: float

    @property
    def milliseconds_per_job(self) -> float:
        """Of CPU."""
        return 1e3 * self.cpu_seconds / self.size.jobs

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "simulatedGPUs": self.size.gpus,
            "jobs": self.size.jobs,
            "jobsDone": self.done,
            "cpuSeconds": round(self.cpu_seconds, 2),
            "memoryMiB": self.memory_mib,
            "simulatedSeconds": round(self.simulated_seconds),
            "mostRunning": self.most_running,
            "mostWaiting": self.most_waiting,
            "utilizationPercent": round(self.utilization_percent, 2),
        }


def measure(size: workload.Size) -> Measurement:
    """One run, in a fresh process."""
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=fresh) as process:
        return process.submit(run, size).result()


def run(size: workload.Size) -> Measurement:
    """One run, in this process, from now on on one core."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    made = world.World(
        workload.nodes(size),
        list(workload.given(size)),
        way=ways.Predicted(),
        policy=policies.InForce(packingpolicy.PackingPolicy(generation=1, spec=packingpolicy.Spec())),
        speeds=interference.Interference(speeds.SpeedModel(), interference.MPS),
    )
    found = made.run()
    return Measurement(
        size=size,
        cpu_seconds=time.process_time(),
        memory_mib=_most_mib(),
        simulated_seconds=found.makespan_seconds,
        most_running=max((moment.running for moment in found.moments), default=0),
        most_waiting=max((moment.waiting for moment in found.moments), default=0),
        done=sum(1 for life in found.lives if life.ended is not None),
        utilization_percent=found.utilization_percent,
    )


def _most_mib() -> int:
    """Return the most resident memory of this process so far; unlike `ru_maxrss`, none of its parent's."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) >> 10 if found else 0
