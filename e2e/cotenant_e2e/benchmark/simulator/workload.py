"""Jobs that keep a simulated cluster full for some mean run times, drawn from a seed. Pure."""

import random
import statistics
from collections.abc import Iterator
from typing import Final, NamedTuple

from cotenant_api import prediction
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_simulator.engine import jobs
from cotenant_simulator.twin import sites

SEED: Final = 1
MODEL: Final = GPUModel("NVIDIA-H200")
MEMORY_MIB: Final = 143_771
GPUS_PER_NODE: Final = 8
KINDS: Final = 30
UTILIZATION_PERCENT: Final = (10.0, 90.0)
"""Medians are drawn evenly from here."""
MARGIN_POINTS: Final = 8.0
"""Of the upper bound above the median."""
JOB_MIB: Final = (4_000, 60_000)
SECONDS: Final = (1800.0, 5400.0)
LOAD: Final = 0.85
"""What arrives in a second, in GPUs x seconds booked, as a part of what the cluster has: some have to wait."""


class Size(NamedTuple):
    """A cluster of nodes with eight GPUs, and how many jobs come."""

    nodes: int
    jobs: int

    @property
    def gpus(self) -> int:
        """How many GPUs."""
        return self.nodes * GPUS_PER_NODE


def nodes(size: Size) -> tuple[sites.Node, ...]:
    """Return the cluster."""
    return sites.alike(size.nodes, gpus=GPUS_PER_NODE, model=MODEL, memory_mib=MEMORY_MIB)


def given(size: Size) -> Iterator[jobs.Job]:
    """Jobs of a few kinds that arrive at random, evenly over time; the same for the same size."""
    draw = random.Random(SEED)  # noqa: S311
    kinds = [_kind(number, draw) for number in range(KINDS)]
    booked = statistics.mean(kind.real[MODEL].utilization.upper for kind in kinds) / 100
    gap = booked * (sum(SECONDS) / 2) / (LOAD * size.gpus)
    arrives = 0.0
    for number in range(size.jobs):
        arrives += draw.expovariate(1 / gap)
        kind, seconds = draw.choice(kinds), draw.uniform(*SECONDS)
        yield jobs.Job(name=f"job-{number}", kind=kind, arrives=arrives, seconds={MODEL: seconds})


def _kind(number: int, draw: random.Random) -> jobs.Kind:
    """Draw a kind of which the prediction is true: memory and speed are then as booked."""
    percent, memory_mib = draw.uniform(*UTILIZATION_PERCENT), draw.randint(*JOB_MIB)
    busy = prediction.PercentRange(q50=percent, upper=percent + MARGIN_POINTS)
    found = prediction.GPUPrediction(
        utilization=busy,
        sm_activity=busy,
        dram_activity=prediction.PercentRange(q50=percent / 2, upper=percent / 2),
        memory_mib=prediction.MemoryRange(q50=memory_mib, upper=memory_mib),
        step_milliseconds=100.0,
        thread_percentage=100,
        regime=prediction.Regime.COMPUTE,
    )
    believed = prediction.Prediction(
        graph=GraphDigest(f"sha256:{number:064x}"),
        source=prediction.Source.MODEL,
        model="by-hand",
        by_gpu={MODEL: found},
    )
    return jobs.Kind(name=f"kind-{number}", predicted=believed, real={MODEL: found})
