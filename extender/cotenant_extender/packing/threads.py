"""The thread percentage of a pod on one GPU: `threadPartition`. MPS fixes it at process start; it is chosen once.

100 where the GPU is booked whole, or with `None`; with `Proportional` the booked share; with `Demand` the predicted
thread demand, never below the booked share; without prediction the booked share.

The others look at the jobs together. Neighbours keep the percentages that they have, so that only the newcomer's p is
to be chosen, once, from L = {share} and the multiples of 5 above it. Percentages are caps and no reservations: their
sum may exceed 100, and what is lost by that is in the predicted speeds s_i(p) of all on the GPU, the newcomer's s_0
among them, each of the job's speed alone with all threads.

    Throughput   least p of L whose sum_i s_i(p) is nearly the largest
    MaxMin       the same among those of L whose min_i s_i(p) is nearly the largest
    Primary      the same among those of L with s_j(p) >= 0.95 r_j for every primary j, the share if there is none;
                 for a newcomer that is the primary, least p of L with s_0(p) >= 0.95 s_0(100)

Nearly: within 0.01, finer than any prediction, so that nobody holds threads that gain nothing. The primaries are the
tenants of the highest rank, inference before training, then the client priority; a newcomer is the primary if its rank
is higher than all of theirs, as it is on an empty GPU. r_j is the speed of j among the primaries alone, so that what
one newcomer of lower rank takes, the next does not take again. Nobody's later joining is foreseen: a first tenant gets
what suits it alone. A pod without prediction gets the share; where nothing is known of speeds together, `Demand` holds.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from cotenant_api import packingpolicy, pod
from cotenant_api.names import HUNDREDTHS
from cotenant_api.packingpolicy import ThreadPartition
from cotenant_extender.packing import jobs, knowledge, needs, policies, view

Array = jobs.Array

KEPT: Final = 0.95
NEAR: Final = 0.01
_STEP: Final = 5
_EQUAL: Final = 1e-9
_BY_SPEED: Final = frozenset({ThreadPartition.THROUGHPUT, ThreadPartition.MAX_MIN, ThreadPartition.PRIMARY})


def needs_speeds(spec: packingpolicy.Spec) -> bool:
    """Return whether a policy needs to know how fast jobs run together."""
    partitions = {spec.thread_partition, *(override.thread_partition for override in spec.overrides)}
    return spec.placement is packingpolicy.Placement.INTERFERENCE or not _BY_SPEED.isdisjoint(partitions)


def percentage(
    demand: pod.Demand, gpu: view.GPU, share: int, *, policy: policies.InForce, known: knowledge.Knowledge
) -> int:
    """Percentage of the SMs that the pod's kernels may use."""
    neighbours = tuple(jobs.of_tenant(tenant, gpu.memory_mib) for tenant in gpu.tenants)
    predicted = needs.predicted_on(demand, gpu.model)
    joining = jobs.joining(demand, predicted, neighbours, share=share, gpu_memory_mib=gpu.memory_mib)
    return percentages([joining], policy.packing(gpu.model).thread_partition, known.speeds)[0]


def percentages(
    joinings: Sequence[jobs.Joining], partition: packingpolicy.ThreadPartition, speeds: jobs.Speeds | None
) -> list[int]:
    """Return the same for newcomers on one GPU each, all at once."""
    found = [_by_itself(joining.newcomer, partition) for joining in joinings]
    if partition not in _BY_SPEED or speeds is None:
        return found
    open_to = [
        place
        for place, joining in enumerate(joinings)
        if joining.newcomer.predicted is not None and joining.newcomer.threads < HUNDREDTHS
    ]
    chosen = _by_speed([joinings[place] for place in open_to], partition, speeds)
    for place, threads in zip(open_to, chosen, strict=True):
        found[place] = threads
    return found


def _by_itself(newcomer: jobs.Job, partition: packingpolicy.ThreadPartition) -> int:
    share, predicted = newcomer.threads, newcomer.predicted
    if share >= HUNDREDTHS or partition is ThreadPartition.NONE:
        return 100
    if partition is ThreadPartition.PROPORTIONAL or predicted is None:
        return share
    return max(share, predicted.thread_percentage)


class _Trial(NamedTuple):
    """A newcomer at each of the percentages that it may get.

    Attributes:
        levels: percentages, ascending.
        speeds: shape (n_levels, n_jobs), the newcomer's first.
        primaries: positions of the primaries among the jobs.
        least: shape (n_primaries,), the speeds that these must keep.
    """

    levels: tuple[int, ...]
    speeds: Array
    primaries: list[int]
    least: Array


def _by_speed(
    joinings: Sequence[jobs.Joining], partition: packingpolicy.ThreadPartition, speeds: jobs.Speeds
) -> list[int]:
    levels = [_levels(joining.newcomer.threads) for joining in joinings]
    primaries = [_primaries(joining) if partition is ThreadPartition.PRIMARY else [] for joining in joinings]
    trials: list[Sequence[jobs.Job]] = [
        (joining.newcomer._replace(threads=level), *joining.neighbours)
        for joining, each in zip(joinings, levels, strict=True)
        for level in each
    ]
    among: list[Sequence[jobs.Job]] = [
        [(joining.newcomer._replace(threads=100), *joining.neighbours)[place] for place in places]
        for joining, places in zip(joinings, primaries, strict=True)
    ]
    predicted = speeds.together([*trials, *among])
    found, first = [], 0
    for place, (joining, each) in enumerate(zip(joinings, levels, strict=True)):
        table = predicted[first : first + len(each), : len(joining.neighbours) + 1]
        alone = predicted[len(trials) + place, : len(primaries[place])]
        # A newcomer that is the primary is measured by what it reaches beside the others.
        least = KEPT * (table[-1, :1] if primaries[place] == [0] else alone)
        found.append(_choice(_Trial(each, table, primaries[place], least), partition))
        first += len(each)
    return found


def _levels(share: int) -> tuple[int, ...]:
    return (share, *range(share - share % _STEP + _STEP, 101, _STEP))


def _primaries(joining: jobs.Joining) -> list[int]:
    """Positions among the newcomer, 0, and its neighbours, from 1."""
    highest = max(map(_rank, joining.neighbours), default=None)
    if highest is None or _rank(joining.newcomer) > highest:
        return [0]
    return [place for place, job in enumerate(joining.neighbours, start=1) if _rank(job) == highest]


def _rank(job: jobs.Job) -> tuple[bool, int]:
    return job.workload_type is pod.WorkloadType.INFERENCE, -job.priority


def _choice(trial: _Trial, partition: packingpolicy.ThreadPartition) -> int:
    allowed: Array = np.all(trial.speeds[:, trial.primaries] >= trial.least - _EQUAL, axis=1)
    if not allowed.any():
        return trial.levels[0]
    if trial.primaries != [0]:
        if partition is ThreadPartition.MAX_MIN:
            allowed &= _nearly_best(trial.speeds.min(axis=1), allowed)
        allowed &= _nearly_best(trial.speeds.sum(axis=1), allowed)
    return trial.levels[int(np.argmax(allowed))]


def _nearly_best(figure: Array, allowed: Array) -> Array:
    best: Array = figure >= figure[allowed].max() - NEAR
    return best
