"""Jobs together as rows that a learner sees: one row per tenant, the same whatever the order of its neighbours. Pure.

A row is: the job's own values; its neighbours' values added up, their largest and their smallest; by how much all
together exceed the GPU; and the prior. With one neighbour the three views of the neighbours are equal.
"""

from typing import Final

import numpy as np

from cotenant_predictor.colocation import prior as priors
from cotenant_predictor.colocation import profiles
from cotenant_predictor.trees import Array

OWN: Final = (*profiles.LEARNED, "alone", "priority")
EXCEEDED: Final = ("utilization", "smActivity", "dramActivity", "memoryUtilization")
NAMES: Final = (
    *(f"own_{name}" for name in OWN),
    *(f"{view}_{name}" for view in ("all", "most", "least") for name in OWN),
    *(f"excess_{name}" for name in EXCEEDED),
    "neighbours",
    "prior",
)
N_OWN: Final = len(OWN)
N_OTHERS: Final = 3 * N_OWN
PRIOR: Final = len(NAMES) - 1
"""The column of the prior."""
NEIGHBOURS: Final = len(NAMES) - 2

_LEARNED = [profiles.INDEX[name] for name in profiles.LEARNED]
_SUMMED = slice(0, len(profiles.SUMMED))
_RATES = slice(len(profiles.SUMMED), len(profiles.SUMMED) + len(profiles.RATES))
_MEANT = slice(len(profiles.SUMMED) + len(profiles.RATES), N_OWN)
_EXCEEDED = [OWN.index(name) for name in EXCEEDED]


def of(tenants: Array, mechanism: str) -> Array:
    """Rows of every place, shape (n_groups x n_tenants, n_names); those of empty places are NaN.

    Args:
        tenants: shape (n_groups, n_tenants, n_columns), columns as `profiles.COLUMNS`, NaN rows where a place is empty.
        mechanism: one of `prior.RESOURCES`.

    Raises:
        KeyError: no such mechanism.
    """
    here = profiles.present(tenants)
    own = np.where(here[..., None], _own(tenants), np.nan)
    groups, places = here.shape
    found = np.full((groups, places, len(NAMES)), np.nan)
    found[..., :N_OWN] = own
    for place in range(places):
        others = np.delete(own, place, axis=1)
        found[:, place, N_OWN : N_OWN + N_OTHERS] = _views(others)
    total = np.nansum(own[..., _EXCEEDED], axis=1)
    found[..., N_OWN + N_OTHERS : NEIGHBOURS] = np.maximum(0.0, total - 1.0)[:, None, :]
    found[..., NEIGHBOURS] = here.sum(axis=1, keepdims=True) - 1.0
    found[..., PRIOR] = priors.speeds(tenants, mechanism)
    found[~here] = np.nan
    return found.reshape(groups * places, len(NAMES))


def _own(tenants: Array) -> Array:
    """Columns as `OWN`; instead of the threads, what they leave of the job's speed."""
    priority = tenants[..., profiles.INDEX["priority"]]
    return np.concatenate([tenants[..., _LEARNED], priors.alone(tenants)[..., None], priority[..., None]], axis=-1)


def _views(others: Array) -> Array:
    """Shape (n_groups, N_OTHERS) from shape (n_groups, n_others, N_OWN); all NaN where there is no neighbour."""
    groups = len(others)
    if not others.shape[1]:
        return np.full((groups, N_OTHERS), np.nan)
    known = np.isfinite(others)
    any_known = known.any(axis=1)
    filled = np.where(known, others, 0.0)
    everything = filled.sum(axis=1)
    everything[:, _RATES] = _log_of_sum(others[..., _RATES])
    everything[:, _MEANT] = (filled.sum(axis=1) / np.maximum(1, known.sum(axis=1)))[:, _MEANT]
    most = np.where(known, others, -np.inf).max(axis=1)
    least = np.where(known, others, np.inf).min(axis=1)
    views = np.concatenate([everything, most, least], axis=1)
    return np.where(np.tile(any_known, (1, 3)), views, np.nan)


def _log_of_sum(logs: Array) -> Array:
    largest = np.where(np.isfinite(logs), logs, -np.inf).max(axis=1, initial=-700.0)
    total = np.exp(np.where(np.isfinite(logs), logs, -np.inf) - largest[:, None]).sum(axis=1)
    result: Array = largest + np.log(np.maximum(total, 1e-300))
    return result
