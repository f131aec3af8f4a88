"""First fit: the first GPU that takes the pod, nodes by name, GPUs by index.

With a queue in decreasing share this is first-fit decreasing.
"""

import numpy as np

from cotenant_extender.packing import knowledge, rules


def score(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
    """Return the same for all: ties go to the first."""
    return np.zeros(offers.fits.shape, dtype=np.int8)
