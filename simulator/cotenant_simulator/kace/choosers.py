"""The ways to choose a partner: chance, published rules, published models, the shared-resource formula, ours. Pure.

| name | takes |
|---|---|
| random | each candidate as likely as any other |
| memcap | others with the least memory |
| sm-percent | others with the highest utilization |
| mem-percent | others with the least use of memory bandwidth |
| best-rule | the best of the three rules above for each target, known afterwards |
| least-utilization | others that add least to the sum of utilizations |
| rf-utilization | the largest sum of speeds, by a random forest on utilizations, as of graph-based predictors |
| kace-lr | the same by KACE's linear regression on the metrics of jobs alone |
| physics | the same by max-min fair sharing, without anything learned |
| cotenant | the same by the predictor's model of co-location, of the mechanism that was measured |
| as-asked | the same by that model of MPS, the one mechanism that the extender asks it of |
| oracle | the largest sum that was measured |
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from cotenant_predictor.colocation import prior, profiles, speeds
from cotenant_predictor.evaluation import colocation, partners
from cotenant_predictor.trees import Array
from cotenant_simulator.engine import interference
from cotenant_simulator.kace import candidates

AS_ASKED: Final = "as-asked"
LEAST_UTILIZATION: Final = "least-utilization"
LEARNED: Final = (partners.FOREST, partners.KACE, colocation.PHYSICS, colocation.COTENANT, AS_ASKED)
"""Those that predict sums of speeds."""
RULES: Final[Mapping[str, tuple[str, float]]] = {**partners.RULES, LEAST_UTILIZATION: ("utilization", -1.0)}
NAMES: Final = (
    partners.RANDOM,
    *partners.RULES,
    partners.BEST_RULE,
    LEAST_UTILIZATION,
    *LEARNED,
    partners.ORACLE,
)
"""In the order in which tables show them."""


def by_rule(among: candidates.Candidates) -> dict[str, Array]:
    """Return how much the ways that learn nothing want each candidate, by name, each of shape (n_candidates,)."""
    found = {partners.RANDOM: np.zeros(len(among.group)), partners.ORACLE: among.total}
    for name, (column, sign) in RULES.items():
        values = sign * among.groups.profiles[:, profiles.INDEX[column]]
        found[name] = values[among.others].sum(axis=1)
    return found


def predicted(
    model: speeds.SpeedModel, known: partners.Pairs, asked: partners.Pairs, mechanism: str
) -> dict[str, Array]:
    """Return the sums of speeds of the groups asked for, by name, each of shape (n_groups,).

    Args:
        model: ours, taught by what is known.
        known: groups of the same size that a published model learns from; with fewer than two it says nothing.
        asked: the groups.
        mechanism: how they share the GPU, as measured.
    """
    found = {
        colocation.PHYSICS: prior.speeds(asked.tenants(), mechanism).sum(axis=1),
        colocation.COTENANT: model.predict(asked.tenants(), mechanism).total,
        AS_ASKED: model.predict(asked.tenants(), interference.MPS).total,
    }
    if len(known.members) > 1:
        found |= {name: partners.published(name, known, asked) for name in (partners.KACE, partners.FOREST)}
    return found
