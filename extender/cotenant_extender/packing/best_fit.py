"""Best fit: the GPU that is left with the least free share; among equals the node that is left with the least CPU.

    score = -(free share of the GPU - share) - free CPU of the node / most CPU free on any node

For n whole GPUs, and for none, the node that is left with the least free share in sum.
"""

import numpy as np

from cotenant_extender.packing import knowledge, rules


def score(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
    """Hundredths that are left, below zero, with less than one hundredth for the CPU."""
    source = offers.fleet
    free = source.free if offers.gpus == 1 else np.where(source.present, source.free, 0).sum(axis=1, keepdims=True)
    left = np.asarray(free - (offers.needs.share if offers.gpus == 1 else 0), dtype=np.float64)
    cpu = np.maximum(source.free_cpu_millis, 0)
    most = max(int(cpu.max(initial=0)), 1)
    return -left - 0.999 * (cpu / most)[:, None]
