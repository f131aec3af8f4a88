"""What a piece of a GPU is worth when it is cut into jobs as well as can be. Pure numpy, knows no cluster.

    worth[j, g] = max(worth[j-1, g],  max over classes k with share_k <= g of  price_k + worth[j-1, g - share_k])

is the most that at most j jobs on g free hundredths add up to. A class may be used any number of times.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cotenant_api.names import HUNDREDTHS

Array: TypeAlias = NDArray[Any]

_PIECES: Final = np.arange(HUNDREDTHS + 1)
_EPSILON: Final = 1e-9


def worth(prices: Array, shares: Array, most: int) -> Array:
    """Worth by jobs at most and free hundredths, shape (most + 1, 101); never below 0, grows with both.

    Args:
        prices: what a job of each class is worth, shape (K,); `-inf`: not here.
        shares: hundredths, 1 to 100, whole numbers of shape (K,).
        most: jobs at most.
    """
    found = np.zeros((most + 1, HUNDREDTHS + 1))
    if not len(shares):
        return found
    left = _PIECES[:, None] - shares
    barred = np.where(left < 0, -np.inf, prices)
    left = np.maximum(left, 0)
    for jobs in range(1, most + 1):
        np.maximum(found[jobs - 1], (barred + found[jobs - 1][left]).max(axis=1), out=found[jobs])
        if (found[jobs] <= found[jobs - 1] + _EPSILON).all():
            found[jobs:] = found[jobs - 1]
            break
    return found


def pattern(prices: Array, shares: Array, found: Array) -> Array:
    """Return how many jobs of each class a whole GPU holds where it is worth `found` by `worth`, shape (K,)."""
    counts = np.zeros(len(shares), dtype=np.int64)
    piece, jobs = HUNDREDTHS, len(found) - 1
    while jobs and found[jobs, piece] > _EPSILON:
        jobs -= 1
        values = np.where(shares <= piece, prices + found[jobs][np.maximum(piece - shares, 0)], -np.inf)
        best = int(values.argmax())
        if values[best] > found[jobs, piece] + _EPSILON:
            counts[best] += 1
            piece -= int(shares[best])
    return counts


def of_idle(each: float, prices: Array, gpus: Array, most: int) -> Array:
    """Return what 0 to `most` idle GPUs of one node are worth together, shape (most + 1,).

    Args:
        each: what one of them is worth cut into jobs.
        prices: of jobs on several whole GPUs, shape (K,); `-inf`: not here.
        gpus: how many each of these needs, shape (K,).
        most: GPUs.
    """
    found = np.zeros(most + 1)
    for idle in range(1, most + 1):
        fitting = gpus <= idle
        together = prices[fitting] + found[idle - gpus[fitting]]
        found[idle] = max(found[idle - 1] + each, together.max(initial=-np.inf))
    return found
