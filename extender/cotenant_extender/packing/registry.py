"""The placements by name: `PackingPolicy.spec.placement`. A new one is a file, a line here and a test.

A placement takes the options in strict order, as an iterator that does the work only as far as it is read.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from cotenant_api import packingpolicy
from cotenant_extender.packing import first_fit, rules

Choose = Callable[[Iterator[rules.Option]], rules.Option | None]

PLACEMENTS: Mapping[packingpolicy.Placement, Choose] = MappingProxyType(
    {packingpolicy.Placement.FIRST_FIT: first_fit.first_fit}
)
