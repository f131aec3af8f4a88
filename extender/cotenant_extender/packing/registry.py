"""The placements by name: `PackingPolicy.spec.placement`. A new one is a file, a line here and a test.

A placement scores offers: higher is better, and ties go to the first in strict order. It returns an array of the shape
of `offers.fits`; what it says of GPUs that do not fit is not looked at. It never decides whether something fits.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cotenant_api import packingpolicy
from cotenant_extender.packing import (
    best_fit,
    dual_price,
    exclusive,
    fgd,
    first_fit,
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

Score = Callable[[rules.Offers, knowledge.Knowledge], rules.Array]

PLACEMENTS: Mapping[packingpolicy.Placement, Score] = MappingProxyType(
    {
        packingpolicy.Placement.FIRST_FIT: first_fit.score,
        packingpolicy.Placement.BEST_FIT: best_fit.score,
        packingpolicy.Placement.SPREAD: spread.score,
        packingpolicy.Placement.FGD: fgd.score,
        packingpolicy.Placement.DUAL_PRICE: dual_price.score,
        packingpolicy.Placement.INTERFERENCE: interference.score,
        packingpolicy.Placement.EXCLUSIVE: exclusive.score,
        packingpolicy.Placement.REACTIVE: reactive.score,
        packingpolicy.Placement.MEMORY_ONLY: memory_only.score,
        packingpolicy.Placement.SM_PERCENT: sm_percent.score,
        packingpolicy.Placement.MEM_PERCENT: mem_percent.score,
        packingpolicy.Placement.RANDOM: random_fit.score,
    }
)
