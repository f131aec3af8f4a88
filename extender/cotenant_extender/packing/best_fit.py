"""Best fit: the node that is left with the least, in CPU and GPU; on it, the GPU with the least free share.

    score(node) = 100 x (1 - (CPU left / 128 cores + share left / 8 GPUs) / 2), truncated to a whole number

CPU and share left are sums over the node; a job that asks for no GPU is scored alike. Half of the weight is the CPU's,
measured against a usual large server, so that the score does not depend on what else the cluster has. Nodes within one
point of each other are equals: the first in strict order is taken. This is the BestFit of Weng et al., ATC 2023.
"""

from typing import Final

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import knowledge, rules

_CPU_MILLIS: Final = 128_000
_SHARE: Final = 8 * HUNDREDTHS


def score(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
    """Return the node before the GPU within it."""
    source, asked = offers.fleet, offers.request
    cpu = (source.free_cpu_millis - asked.host.cpu_millis) / _CPU_MILLIS
    share = (np.where(source.present, source.free, 0).sum(axis=1) - asked.demand.share) / _SHARE
    return node_first(offers, np.trunc(100 * (1 - (0.5 * cpu + 0.5 * share))))


def node_first(offers: rules.Offers, of_node: rules.Array) -> rules.Array:
    """Return a score of the shape of `offers.fits`: the best node first, and on it the GPU with the least free share.

    Args:
        offers: what fits where.
        of_node: the score of nodes, shape (N,), whole numbers; equal ones go by strict order.
    """
    rows = len(offers.fleet)
    ranked = (of_node * rows - np.arange(rows))[:, None] * (2 * HUNDREDTHS)
    return np.asarray(ranked - offers.fleet.free if offers.gpus == 1 else ranked, dtype=np.float64)
