"""Interference: the GPU on which the pod adds most to the predicted speeds of all jobs there.

    score = sum over tenants and newcomer of speed together  -  sum over tenants of speed before

A speed is of the job's own speed alone on that GPU model with all threads, predicted for MPS with the thread
percentages and client priorities that the tenants have and that the newcomer would get. The score is what the newcomer
gets, less what it takes from others. Scores that differ by less than a millionth are equal: the first in strict order
is taken, so that jobs that do not disturb each other are packed as by first fit, and others are kept apart.

A job without prediction counts as one that runs at full speed, and for that keeps busy all the threads that it may
use, and as large a part of the memory bandwidth. Several whole GPUs are taken from the first node that has them: on
empty GPUs nobody disturbs anybody. Where nothing is known of speeds together, first fit.

At most `MOST` situations (`situations`) are compared: those where SM time or memory bandwidth, whichever is needed more
by tenants and newcomer together, exceeds the GPU least; among equals the first in strict order.

As long as no measured pairs under MPS have been trained in, speeds rest on the formula's prior alone
(`cotenant_predictor.colocation.prior`): SM time and memory bandwidth are shared fairly, and jobs disturb each other in
no other way. By it nobody is disturbed where these suffice. No job needs more of either than its utilization, so that
with the default `metric` and a `maxUtilizationPercent` of at most 100 the prior tells no two GPUs apart: this is first
fit then, until pairs are measured.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant_api import packingpolicy, pod
from cotenant_api.names import HUNDREDTHS, GPUModel
from cotenant_extender.packing import jobs, knowledge, needs, rules, situations, threads

MOST: Final = 128
_NOT_COMPARED: Final = -1e3
_DECIMALS: Final = 6


def score(offers: rules.Offers, known: knowledge.Knowledge) -> rules.Array:
    """Return the sum of speeds that the pod adds."""
    if known.speeds is None or offers.gpus != 1:
        return np.zeros(offers.fits.shape, dtype=np.int8)
    table = known.situations
    codes = table.codes(offers.fleet)
    compared = _compared(codes[offers.fits], table, _needed(offers.request.demand))
    gains = np.full(len(table.known), _NOT_COMPARED)
    for code, gain in _gains(offers, compared, table, known.speeds).items():
        gains[code] = gain
    return gains[codes]


def _compared(fitting: rules.Array, table: situations.Situations, needed: rules.Array) -> list[int]:
    """Situations that are compared, from those of all GPUs that fit, in strict order."""
    first = np.full(len(table.known), -1)
    first[fitting[::-1]] = np.arange(len(fitting))[::-1]
    distinct = np.flatnonzero(first >= 0)
    if len(distinct) > MOST:
        together = np.maximum((table.loads[distinct] + needed).max(axis=1), 1.0)
        distinct = distinct[np.lexsort((first[distinct], together))[:MOST]]
    return [int(code) for code in distinct]


def _needed(asked: pod.Demand) -> rules.Array:
    """Return what the pod needs of SM time and memory bandwidth on the GPU model where it needs most, shape (2,)."""
    known = {} if asked.predicted is None else asked.predicted.by_gpu
    every = [jobs.needed(jobs.Job(one, 0, asked.share, 0, asked.workload_type)) for one in known.values() or (None,)]
    most: rules.Array = np.max(every, axis=0)
    return most


def _gains(
    offers: rules.Offers, compared: Sequence[int], table: situations.Situations, speeds: jobs.Speeds
) -> dict[int, float]:
    """Return what the pod adds in each situation; remembered, for pods that are alike."""
    policy, asked = offers.fleet.policy, offers.request.demand
    by_model: dict[GPUModel, list[int]] = defaultdict(list)
    for code in compared:
        by_model[table.known[code].model].append(code)
    found: dict[int, float] = {}
    for model, codes in by_model.items():
        need, predicted = needs.need(asked, model, policy), needs.predicted_on(asked, model)
        share = need.share if isinstance(need, needs.Need) else HUNDREDTHS
        remembered = table.found((model, predicted, share, asked.workload_type), policy, speeds)
        missing = [code for code in codes if code not in remembered]
        joinings = [
            jobs.joining(asked, predicted, here.tenants, share=share, gpu_memory_mib=here.memory_mib)
            for here in (table.known[code] for code in missing)
        ]
        remembered.update(zip(missing, _added(joinings, policy.packing(model).thread_partition, speeds), strict=True))
        found.update((code, remembered[code]) for code in codes)
    return found


def _added(
    joinings: Sequence[jobs.Joining], partition: packingpolicy.ThreadPartition, speeds: jobs.Speeds
) -> list[float]:
    """Return what each newcomer adds to the sum of speeds on its GPU."""
    chosen = threads.percentages(joinings, partition, speeds)
    after = [
        (*joining.neighbours, joining.newcomer._replace(threads=percentage))
        for joining, percentage in zip(joinings, chosen, strict=True)
    ]
    before = [joining.neighbours for joining in joinings]
    totals = np.nansum(speeds.together([*after, *before]), axis=1)
    return [float(gain) for gain in np.round(totals[: len(after)] - totals[len(after) :], _DECIMALS)]
