"""Spread: the GPU with the fewest tenants, among these the one with the most free share.

For n whole GPUs, and for none, the node with the most free share in sum.
"""

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import knowledge, rules


def score(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
    """Free hundredths, less more than a whole GPU for every tenant."""
    source = offers.fleet
    if offers.gpus == 1:
        return np.asarray(source.free - 2 * HUNDREDTHS * source.tenants.astype(np.int32))
    return np.asarray(np.where(source.present, source.free, 0).sum(axis=1, keepdims=True))
