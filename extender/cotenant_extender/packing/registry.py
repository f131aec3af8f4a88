"""The placements by name: `PackingPolicy.spec.placement`. A new one is a file, a line here and a test.

A placement scores offers: higher is better, and ties go to the first in strict order. It returns an array of the shape
of `offers.fits`; what it says of GPUs that do not fit is not looked at. It never decides whether something fits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from cotenant_api import packingpolicy
from cotenant_extender.packing import (
    best_fit,
    dual_price,
    exclusive,
    fgd,
    first_fit,
    fleet,
    interference,
    knowledge,
    mem_percent,
    memory_only,
    random_fit,
    reactive,
    rules,
    sm_percent,
    spread,
)

T = TypeVar("T")

Score = Callable[[rules.Offers, knowledge.Knowledge], rules.Array]


@dataclass(frozen=True)
class ByRow(Generic[T]):
    """A score that says of each node what follows from its row, the pod and a basis alone.

    Attributes:
        basis: what the scores of all rows of a fleet rest on; asked for once for each pod.
        scores: of the offers of any rows.
    """

    basis: Callable[[fleet.Fleet, knowledge.Knowledge], T]
    scores: Callable[[rules.Offers, knowledge.Knowledge, T], rules.Array]

    def __call__(self, offers: rules.Offers, known: knowledge.Knowledge) -> rules.Array:
        """As a `Score`."""
        return self.scores(offers, known, self.basis(offers.fleet, known))


def _by_row(score: Score) -> ByRow[object]:
    """Return a score that rests on nothing but rows and what is known of situations."""
    return ByRow(lambda _source, known: known.situations, lambda offers, known, _basis: score(offers, known))


PLACEMENTS: Mapping[packingpolicy.Placement, Score] = MappingProxyType(
    {
        packingpolicy.Placement.FIRST_FIT: first_fit.score,
        packingpolicy.Placement.BEST_FIT: ByRow(best_fit.basis, best_fit.scores),
        packingpolicy.Placement.SPREAD: _by_row(spread.score),
        packingpolicy.Placement.FGD: ByRow(fgd.basis, fgd.scores),
        packingpolicy.Placement.DUAL_PRICE: ByRow(dual_price.basis, dual_price.scores),
        packingpolicy.Placement.INTERFERENCE: interference.score,
        packingpolicy.Placement.EXCLUSIVE: exclusive.score,
        packingpolicy.Placement.REACTIVE: reactive.score,
        packingpolicy.Placement.MEMORY_ONLY: _by_row(memory_only.score),
        packingpolicy.Placement.SM_PERCENT: _by_row(sm_percent.score),
        packingpolicy.Placement.MEM_PERCENT: _by_row(mem_percent.score),
        packingpolicy.Placement.RANDOM: random_fit.score,
    }
)

BY_SITUATION = frozenset(
    {
        packingpolicy.Placement.INTERFERENCE,
        packingpolicy.Placement.SM_PERCENT,
        packingpolicy.Placement.MEM_PERCENT,
    }
)
"""Placements that look at the situations of GPUs (see `situations`)."""
