"""Best fit: the node that is left with the least, in CPU and GPU; on it, the GPU with the least free share.

    score(node) = 100 x (1 - (CPU left / 128 cores + share left / 8 GPUs) / 2), truncated to a whole number

CPU and share left are sums over the node; a job that asks for no GPU is scored alike. Half of the weight is the CPU's,
measured against a usual large server, so that the score does not depend on what else the cluster has. Nodes within one
point of each other are equals: the first in strict order is taken. This is the BestFit of Weng et al., ATC 2023.
"""

from typing import Final

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import fleet, knowledge, rules

_CPU_MILLIS: Final = 128_000
_SHARE: Final = 8 * HUNDREDTHS


def score(offers: rules.Offers, known: knowledge.Knowledge) -> rules.Array:
    """Return the node before the GPU within it."""
    return scores(offers, known, offers.fleet)


def basis(source: fleet.Fleet, _known: knowledge.Knowledge) -> fleet.Fleet:
    """Return the fleet whose strict order counts."""
    return source


def scores(offers: rules.Offers, _known: knowledge.Knowledge, whole: fleet.Fleet) -> rules.Array:
    """Return the node before the GPU within it, for some nodes of a fleet as among all of them."""
    source, asked = offers.fleet, offers.request
    cpu = (source.free_cpu_millis - asked.host.cpu_millis) / _CPU_MILLIS
    share = (np.where(source.present, source.free, 0).sum(axis=1) - asked.demand.share) / _SHARE
    return node_first(offers, np.trunc(100 * (1 - (0.5 * cpu + 0.5 * share))), whole)


def node_first(offers: rules.Offers, of_node: rules.Array, whole: fleet.Fleet | None = None) -> rules.Array:
    """Return a score of the shape of `offers.fits`: the best node first, and on it the GPU with the least free share.

    Args:
        offers: what fits where.
        of_node: the score of nodes, shape (N,), whole numbers; equal ones go by strict order.
        whole: the fleet whose order that is, of which these are some nodes; None: these are all.
    """
    source = offers.fleet
    among = source if whole is None else whole
    places = np.arange(len(among))
    if source is not among:
        places = np.array([among.rows[node.name] for node in source.nodes], dtype=np.intp)
    ranked = (of_node * len(among) - places)[:, None] * (2 * HUNDREDTHS)
    return np.asarray(ranked - source.free if offers.gpus == 1 else ranked, dtype=np.float64)
