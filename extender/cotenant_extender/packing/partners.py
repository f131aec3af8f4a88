"""Scores of partners: GPUs by what one figure of their tenants adds up to. The rule is a placement's own.

These are rules of KACE ("Predicting workload colocations under GPU spatial sharing"), which chooses one partner for
each job; here several may be there, and count together. A GPU that is empty has no partner: it is taken only where no
other fits, and is not chosen by these rules. Sums that differ by less than a millionth are equal.
"""

from collections.abc import Callable

import numpy as np

from cotenant_extender.packing import jobs, knowledge, rules

Figure = Callable[[jobs.Job], float]

_ALONE = -1e6
_DECIMALS = 6


def score(offers: rules.Offers, known: knowledge.Knowledge, figure: Figure, *, sign: float) -> rules.Array:
    """`sign` times the figure's sum over the tenants of each GPU; first fit for pods that share none."""
    if offers.gpus != 1:
        return np.zeros(offers.fits.shape, dtype=np.int8)
    table = known.situations
    codes = table.codes(offers.fleet)
    sums = np.full(len(table.known), _ALONE)
    # Looked up once for each situation: thousands of GPUs are in few.
    remembered = table.found(figure, figure)
    for code in np.unique(codes[offers.fits]).tolist():
        tenants = table.known[code].tenants
        if not tenants:
            continue
        if code not in remembered:
            remembered[code] = round(sum(map(figure, tenants)), _DECIMALS)
        sums[code] = sign * remembered[code]
    return sums[codes]
