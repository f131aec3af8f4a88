"""Dual prices: the place where the pod leaves the node with the most worth for the pods that usually come.

    score = - (worth of the node before - worth of the node with the pod), in GPUs, rounded to hundredths

    worth = the least of    sum of what its GPUs' free pieces are worth + what its idle GPUs add together,
                            free CPU    x HOST / CPU that the recent mix asks for beside a GPU,
                            free memory x HOST / memory that the recent mix asks for beside a GPU

What a piece is worth is what it serves of the recent mix, at the dual prices of the linear program that serves most of
it (`markets`, `cutting`, `patterns`). GPUs without the CPU that usual jobs need are worth little, and CPU beside GPUs
that are gone is worth nothing: so CPU-heavy jobs go where CPU is plentiful, and a piece is cut where what remains is of
use. Equal losses go to the first in strict order. Differences finer than hundredths are noise: to obey them costs more
than it gains. First fit until prices have been learned.
"""

from typing import Final

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import fleet, knowledge, markets, rules, worths
from cotenant_extender.packing.patterns import Array

_HALVES_DOWN: Final = 0.5 - 1e-6
"""Losses are often halves of hundredths: rounding errors must not decide."""


def basis(source: fleet.Fleet, known: knowledge.Knowledge) -> markets.Tables | None:
    """Worth by the prices in force; None as long as there are none."""
    return known.prices.tables(known.mix, source)


def scores(offers: rules.Offers, known: knowledge.Knowledge, tables: markets.Tables | None) -> rules.Array:
    """Return the loss of worth, negated; only where the pod fits."""
    source = offers.fleet
    losses = np.zeros(offers.fits.shape)
    rows = np.flatnonzero(offers.fits.any(axis=1))
    if tables is None or not len(rows):
        return losses
    losses[rows] = np.floor(_losses(offers, tables, known.worths.of(source, tables), rows) * HUNDREDTHS + _HALVES_DOWN)
    return -losses


def _losses(offers: rules.Offers, tables: markets.Tables, of_nodes: worths.Worths, rows: Array) -> Array:
    """Return what each place costs, in GPUs, shape (len(rows), columns of `fits`)."""
    source, host = offers.fleet, offers.request.host
    kinds, count = of_nodes.kinds[rows], of_nodes.count[rows]
    if offers.gpus == 1:
        share = np.broadcast_to(offers.needs.share, source.free.shape)[rows]
        places = np.maximum(of_nodes.places[rows] - worths.PER_JOB - share, 0)
        cut = of_nodes.pieces[rows] - tables.pieces.ravel()[places]
        fewer = tables.idle[kinds, np.maximum(count - 1, 0)] - tables.idle[kinds, count]
        cut -= of_nodes.idle[rows] * fewer[:, None]
    else:
        cells = offers.cells[rows]
        used = cells & (cells.cumsum(axis=1) <= offers.gpus)
        cut = (of_nodes.pieces[rows] * used).sum(axis=1)
        cut -= tables.idle[kinds, np.maximum(count - offers.gpus, 0)] - tables.idle[kinds, count]
        cut = cut[:, None]
    gpus = (of_nodes.whole[rows] + tables.idle[kinds, count])[:, None] - cut
    cpu, memory = source.free_cpu_millis[rows] - host.cpu_millis, source.free_memory_bytes[rows] - host.memory_bytes
    left = np.minimum(gpus, tables.host(kinds, cpu, memory)[:, None])
    return np.asarray(of_nodes.total[rows][:, None] - left)
