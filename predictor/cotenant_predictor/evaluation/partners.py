"""Choosing a partner for every job, as published, and how much of the best possible choice each way reaches. Pure.

    score(target) = sum of the two normalised speeds with the chosen partner / the same with the best one

Partners are those that were measured beside the target, itself included where it was. Where several partners are
equally good by a rule, the mean over them counts. The published ways are those of "Predicting workload colocations
under GPU spatial sharing" (KACE): MEMCAP, SM %, MEM %, the best of the three for each target, and linear regression on
the throughput sum, over sums of absolute metrics and means of percentages. Of its metrics, threads, registers and
shared memory of single kernels are not known here; the job's own throughput, memory, rates of kernels and bytes are.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from cotenant_predictor.colocation import profiles
from cotenant_predictor.datasets.joint import Joint, Run
from cotenant_predictor.trees import Array

RANDOM: Final = "random"
ORACLE: Final = "oracle"
MEMCAP: Final = "memcap"
SM_PERCENT: Final = "sm-percent"
MEM_PERCENT: Final = "mem-percent"
BEST_RULE: Final = "best-rule"
KACE: Final = "kace-lr"
FOREST: Final = "rf-utilization"

RULES: Final[Mapping[str, tuple[str, float]]] = {
    MEMCAP: ("memory", -1.0),
    SM_PERCENT: ("utilization", 1.0),
    MEM_PERCENT: ("memoryUtilization", -1.0),
}
"""What the rules look at, and whether they want much or little of it."""

_PERCENT = [profiles.INDEX[name] for name in ("utilization", "memoryUtilization", "smActivity", "dramActivity")]
_MEMORY = profiles.INDEX["memory"]
_LOGS = [profiles.INDEX[name] for name in ("logStepSeconds", "logKernelsPerSecond", "logInputBytesPerSecond")]
_SIGNS = np.array([-1.0, 1.0, 1.0])
_UTILIZATION = profiles.INDEX["utilization"]
_LEAST_SPEED, _LARGEST_SPEED = 0.15, 1.05
"""Linear regression extrapolates badly to jobs that it has not seen; published sums are between these for each job."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs:
    """Measured pairs of jobs on one GPU model under one mechanism, without limits or priorities; or triples, or more.

    What is said of pairs holds of them with more columns than two; `matrix` and `scores` are of pairs alone.
    """

    profiles: Array
    """Shape (n_jobs, n_columns)."""
    jobs: tuple[int, ...]
    """Positions in `Joint.jobs`."""
    groups: tuple[str, ...]
    members: Array
    """Positions of the jobs of each pair, ascending, shape (n_pairs, 2)."""
    speed: Array
    """Mean over repeats, in the order of `members`, shape (n_pairs, 2)."""

    @property
    def total(self) -> Array:
        """Sums of the speeds, shape (n_pairs,)."""
        result: Array = self.speed.sum(axis=1)
        return result

    def at(self, chosen: Array) -> "Pairs":
        """Return the pairs at these positions, with all jobs."""
        return dataclasses.replace(self, members=self.members[chosen], speed=self.speed[chosen])

    def tenants(self) -> Array:
        """As `SpeedModel.predict` takes them, shape (n_pairs, 2, n_columns)."""
        found: Array = self.profiles[self.members]
        return found

    def matrix(self, values: Array) -> Array:
        """Values of the pairs at both places of (target, partner), NaN elsewhere; shape (n_jobs, n_jobs)."""
        found = np.full((len(self.groups), len(self.groups)), np.nan)
        first, second = self.members.T
        found[first, second] = values
        found[second, first] = values
        return found


def pairs_of(joint: Joint, *, size: int = 2) -> Pairs:
    """Return the pairs among runs that ran, of one GPU model and mechanism, with both speeds measured.

    Args:
        joint: the runs.
        size: 2 for pairs, 3 for triples.
    """
    found: dict[tuple[int, ...], list[tuple[float, ...]]] = {}
    for run in joint.runs:
        if is_plain(run, size=size):
            tenants = sorted(run.tenants, key=lambda tenant: tenant.job)
            speeds = tuple(tenant.speed for tenant in tenants)
            found.setdefault(tuple(tenant.job for tenant in tenants), []).append(speeds)
    used = sorted({job for pair in found for job in pair})
    place = {job: index for index, job in enumerate(used)}
    keys = sorted(found)
    return Pairs(
        profiles=joint.profiles[used],
        jobs=tuple(used),
        groups=tuple(joint.jobs[job].group for job in used),
        members=np.array([[place[job] for job in key] for key in keys], dtype=np.intp).reshape(-1, size),
        speed=np.array([np.mean(found[key], axis=0) for key in keys]).reshape(-1, size),
    )


def is_plain_pair(run: Run) -> bool:
    """Return whether two jobs ran, both with all threads and the usual priority, and both speeds were measured."""
    return is_plain(run, size=2)


def is_plain(run: Run, *, size: int) -> bool:
    """Return the same of so many jobs."""
    plain = all(tenant.threads == 1.0 and tenant.priority == 0 and np.isfinite(tenant.speed) for tenant in run.tenants)
    return run.ran and len(run.tenants) == size and plain


def scores(pairs: Pairs, wanted: Array) -> Array:
    """Share of the oracle that each target reaches, shape (n_jobs,), NaN without a partner.

    Args:
        pairs: what was measured.
        wanted: how much a way wants each partner (second axis) for each target, shape (n_jobs, n_jobs); not finite
            where it has nothing to say: such a partner is not a candidate.
    """
    return shares(pairs.matrix(pairs.total), wanted)


def shares(actual: Array, wanted: Array) -> Array:
    """Return the same by sums of speeds with each partner (second axis), shape (n_jobs, n_jobs), NaN without one."""
    found = np.full(len(actual), np.nan)
    for target, (sums, liking) in enumerate(zip(actual, wanted, strict=True)):
        here = np.isfinite(sums) & np.isfinite(liking)
        if here.any():
            chosen = liking[here] == liking[here].max()
            found[target] = sums[here][chosen].mean() / sums[here].max()
    return found


def fixed(pairs: Pairs) -> dict[str, Array]:
    """Scores of the ways that learn nothing, by name, each of shape (n_jobs,)."""
    count = len(pairs.groups)
    found = {RANDOM: scores(pairs, np.zeros((count, count))), ORACLE: scores(pairs, pairs.matrix(pairs.total))}
    for name, (column, sign) in RULES.items():
        values = sign * pairs.profiles[:, profiles.INDEX[column]]
        found[name] = scores(pairs, np.broadcast_to(values, (count, count)))
    found[BEST_RULE] = np.max([found[name] for name in RULES], axis=0)
    return found


def published(name: str, train: Pairs, test: Pairs) -> Array:
    """Return the sums that a published way (`KACE` or `FOREST`) predicts for the test pairs, shape (n_pairs,)."""
    make = _kace_features if name == KACE else _utilization_features
    known, asked = np.nan_to_num(make(train)), np.nan_to_num(make(test))
    scale = known.std(axis=0)
    scale[scale == 0] = 1.0
    model: Any = LinearRegression() if name == KACE else RandomForestRegressor(100, random_state=0)
    predicted = model.fit(known / scale, train.total).predict(asked / scale)
    size = test.members.shape[1]
    result: Array = np.clip(predicted, size * _LEAST_SPEED, size * _LARGEST_SPEED)
    return result


def _kace_features(pairs: Pairs) -> Array:
    absolute = np.concatenate([pairs.profiles[:, [_MEMORY]], np.exp(_SIGNS * pairs.profiles[:, _LOGS])], axis=1)
    percent = pairs.profiles[:, _PERCENT]
    members = pairs.members
    result: Array = np.concatenate([absolute[members].sum(axis=1), percent[members].mean(axis=1)], axis=1)
    return result


def _utilization_features(pairs: Pairs) -> Array:
    busy = pairs.profiles[:, _UTILIZATION][pairs.members]
    return np.column_stack([busy.sum(axis=1), busy.max(axis=1), busy.min(axis=1)])
