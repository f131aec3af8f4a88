"""Whom each job may be put beside: the groups of one size that were measured with it. Pure.

    total(target, others) = sum of the normalised speeds of the target and the others

A job that was measured beside itself is a partner of its own. Where a way likes several candidates equally, the mean
over them counts.
"""

import dataclasses
from typing import Final

import numpy as np

from cotenant_predictor.evaluation import partners
from cotenant_predictor.trees import Array

SAME: Final = 1e-9
"""Sums of speeds nearer than this are one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidates:
    """Every (target, others) of the groups of one size, on one GPU model under one mechanism.

    Attributes:
        groups: what was measured; "pairs" of any size.
        group: position in `groups` of each candidate, shape (n_candidates,).
        target: position of the target in `groups.jobs`, shape (n_candidates,).
        others: the same of the others, ascending, shape (n_candidates, size - 1).
    """

    groups: partners.Pairs
    group: Array
    target: Array
    others: Array

    @property
    def total(self) -> Array:
        """Measured sums of speeds, shape (n_candidates,)."""
        found: Array = self.groups.total[self.group]
        return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What one way chose for one target.

    Attributes:
        share: of the oracle's sum of speeds, 0..1.
        hit: how likely it is to take a candidate that the oracle would, 0..1.
        taken: the candidates that it likes best.
    """

    share: float
    hit: float
    taken: tuple[int, ...]


def of(groups: partners.Pairs) -> Candidates:
    """Every member of every group as a target; a job that is in a group twice is one target."""
    found = []
    for number, members in enumerate(groups.members.tolist()):
        for place, target in enumerate(members):
            if target not in members[:place]:
                found.append((number, target, members[:place] + members[place + 1 :]))
    size = groups.members.shape[1]
    return Candidates(
        groups=groups,
        group=np.array([number for number, _, _ in found], dtype=np.intp),
        target=np.array([target for _, target, _ in found], dtype=np.intp),
        others=np.array([others for _, _, others in found], dtype=np.intp).reshape(-1, size - 1),
    )


def choices(among: Candidates, liking: Array) -> dict[int, Choice]:
    """Return what a way chooses, by target; targets of which it says nothing are left out.

    Args:
        among: whom it may choose.
        liking: how much it wants each candidate, shape (n_candidates,); not finite where it has nothing to say: such a
            candidate is none, for the oracle neither.
    """
    totals, found = among.total, {}
    for target in np.unique(among.target).tolist():
        here = np.flatnonzero((among.target == target) & np.isfinite(liking))
        if not len(here):
            continue
        taken = here[liking[here] == liking[here].max()]
        best = totals[here].max()
        found[target] = Choice(
            share=float(totals[taken].mean() / best),
            hit=float((totals[taken] >= best - SAME).mean()),
            taken=tuple(taken.tolist()),
        )
    return found
