"""MemoryOnly: the GPU with the least memory left to book, among those that have enough.

GPU sharing by memory alone: as gpushare-scheduler-extender (Alibaba Cloud) packs GPUs. It knows nothing of how busy a
GPU is, so that what is predicted of that costs nothing (`cotenant_api.booking`). Several whole GPUs, and pods without a
GPU, go to the first node that has them.
"""

import numpy as np

from cotenant_extender.packing import knowledge, rules


def score(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
    """Score the offers: the less is free, the higher."""
    if offers.gpus != 1:
        return np.zeros(offers.fits.shape, dtype=np.int8)
    return np.asarray(-offers.fleet.free_mib)
