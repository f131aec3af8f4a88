"""The published policy GpuPacking, in hundredths: for the self-check, no cluster is packed by it.

    0                          pod without GPU
    max(33 - d, d)             node whose d GPUs are all idle
    max(50 - n, 33)            n whole GPUs, on another node
    49                         part of a GPU, where only idle ones of another node fit
    max(100 - h // 10, 50)     part of a GPU, on the used one that fits with the fewest free hundredths h

The best node wins, ties go to the first in strict order; on it, the GPU with the fewest free hundredths.
"""

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import best_fit, fleet, knowledge, placing, rules, view


def choose(source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge) -> placing.Choice | None:
    """As `placing.choose`, whatever placement the policy names."""
    return placing.best(rules.offers(source, request, check_host=True), gpu_packing, known)


def gpu_packing(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
    """Return the node before the GPU within it."""
    source = offers.fleet
    if offers.gpus == 0:
        return best_fit.node_first(offers, np.zeros(len(source)))
    gpus = source.present.sum(axis=1)
    idle = source.present & (source.free == HUNDREDTHS)
    tightest = np.where(offers.cells, source.free, HUNDREDTHS).min(axis=1)
    part = np.where(tightest == HUNDREDTHS, 49, np.maximum(HUNDREDTHS - tightest // 10, 50))
    used = max(50 - offers.gpus, 33) if offers.request.demand.whole else part
    return best_fit.node_first(offers, np.where(idle.sum(axis=1) == gpus, np.maximum(33 - gpus, gpus), used))
