"""A virtual cluster's jobs on a cluster of V100s that its work fills to a given part.

    work = sum over jobs of GPUs x seconds alone              load = work / (GPUs x time from first to last arrival)

The GPUs are those that the work as it came would keep busy, in nodes of eight, and at least as many as the largest job
has. Arrivals are drawn out or pressed together until the load is what is asked for: they come in the same bursts.
Assumed, because it is not in the trace: jobs of several GPUs have whole ones, at the speed that was measured on so
many, or on the next smaller number that was; needs are lognormal about what is predicted, as in the case study.
"""

import bisect
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Final

from cotenant_api import prediction
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.datasets import gavel
from cotenant_predictor.jobs import prediction as predicting
from cotenant_simulator.engine import jobs
from cotenant_simulator.horus import population as studied
from cotenant_simulator.horus import published
from cotenant_simulator.philly import trace
from cotenant_simulator.twin import sites

GPU_MODEL: Final[GPUModel] = gavel.GPU_MODELS["v100"]
GPUS_PER_NODE: Final = 8


def predictions(knowledge: predicting.Knowledge) -> Mapping[str, prediction.Prediction]:
    """Return what is predicted of each of Gavel's jobs, by name."""
    found = devices.select([GPU_MODEL])
    return {
        name: predicting.predict(graph, found, knowledge=knowledge) for name, graph in sorted(gavel.graphs().items())
    }


def submitted(cluster: str, count: int) -> Sequence[trace.Submission]:
    """Return the first so many jobs of a virtual cluster."""
    return trace.load(cluster)[:count]


def seconds(one: trace.Submission) -> float:
    """Return how long it runs alone."""
    counts, speeds = _alone()[one.job_type]
    return one.steps / speeds[bisect.bisect_right(counts, one.gpus) - 1]


def work_seconds(given: Sequence[trace.Submission]) -> float:
    """GPU seconds of all, alone."""
    return sum(one.gpus * seconds(one) for one in given)


def nodes(given: Sequence[trace.Submission]) -> Sequence[sites.Node]:
    """Return the cluster."""
    (device,) = devices.select([GPU_MODEL])
    needed = max(work_seconds(given) / _lasts(given), *(one.gpus for one in given))
    count = math.ceil(needed / GPUS_PER_NODE)
    return sites.alike(count, gpus=GPUS_PER_NODE, model=GPU_MODEL, memory_mib=device.memory_mib)


def drawn(
    given: Sequence[trace.Submission], known: Mapping[str, prediction.Prediction], *, load: float, seed: int
) -> Sequence[jobs.Job]:
    """Return the jobs, at this load.

    Args:
        given: as they came.
        known: what is predicted, by job type.
        load: of the GPUs of `nodes`.
        seed: of what jobs really need.
    """
    gpus = GPUS_PER_NODE * len(nodes(given))
    slower = work_seconds(given) / (gpus * _lasts(given) * load)
    kinds = {name: studied.kind(name, one, seed=seed, sigma=published.RMSLE) for name, one in known.items()}
    return [_job(number, one, kinds[one.job_type], slower=slower) for number, one in enumerate(given)]


def _job(number: int, one: trace.Submission, kind: jobs.Kind, *, slower: float) -> jobs.Job:
    pods = math.ceil(one.gpus / GPUS_PER_NODE)
    return jobs.Job(
        name=f"job-{number:04}",
        kind=kind,
        arrives=slower * one.arrives,
        seconds={GPU_MODEL: seconds(one)},
        replicas=pods,
        gpus=math.ceil(one.gpus / pods),
    )


def _lasts(given: Sequence[trace.Submission]) -> float:
    return given[-1].arrives - given[0].arrives


@functools.cache
def _alone() -> Mapping[str, tuple[list[int], list[float]]]:
    """Return steps per second by job type: the numbers of GPUs, rising, and the speeds on them."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for (name, gpus), speed in sorted(gavel.steps_per_second(GPU_MODEL).items()):
        counts, speeds = found.setdefault(name, ([], []))
        counts.append(gpus)
        speeds.append(speed)
    return found
