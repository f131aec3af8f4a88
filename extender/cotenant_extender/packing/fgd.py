"""Fragmentation gradient descent: the place that makes least idle GPU useless for the pods that usually come.

    score = 100 / (1 + exp(F with the pod - F before)), truncated to a whole number; F in GPUs (`fragments`)

What is usual is the recent mix of demands, learned as pods come. First fit until it is known. The coarse score is part
of the method: places of equal whole numbers are equals, and the first in strict order is taken. Weng et al., ATC 2023.
"""

import dataclasses
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import fleet, fragments, knowledge, rules
from cotenant_extender.packing.fragments import Array

_ROUNDING: Final = 1e-9


def basis(source: fleet.Fleet, known: knowledge.Knowledge) -> fragments.Tables | None:
    """Of what use idle GPUs are; None as long as that is not known."""
    return known.fragments.tables(known.mix, tuple(source.models), source.present.shape[1])


def scores(offers: rules.Offers, _known: knowledge.Knowledge, tables: fragments.Tables | None) -> rules.Array:
    """Return how much F falls, as a whole number from 0 to 100; only where the pod fits."""
    found = np.zeros(offers.fits.shape)
    rows = np.flatnonzero(offers.fits.any(axis=1))
    if tables is None or not len(rows):
        return found
    grown = _grown(offers, tables, rows)
    found[rows] = np.trunc(100 / (1 + np.exp(grown / HUNDREDTHS)) + _ROUNDING)
    return found


def _grown(offers: rules.Offers, tables: fragments.Tables, rows: Array) -> Array:
    """F with the pod less F before, in hundredths, shape (len(rows), columns of `fits`)."""
    source, before = offers.fleet, _State.of(offers.fleet, tables, rows)
    after = before.left_with(source.free_cpu_millis[rows] - offers.request.host.cpu_millis)
    pieces = after.pieces()
    of_use = pieces.sum(axis=1, keepdims=True)
    if offers.gpus == 1:
        share = np.broadcast_to(offers.needs.share, source.free.shape)[rows]
        gone, taken = np.minimum(share, before.free), before.idle
        of_use = of_use - pieces + after.left_of(before.free - gone)
    else:
        used = offers.cells[rows]
        used &= used.cumsum(axis=1) <= offers.gpus
        gone = (before.free * used).sum(axis=1, keepdims=True)
        taken = used.sum(axis=1, keepdims=True)
        of_use = of_use - (pieces * used).sum(axis=1, keepdims=True)
    of_use = of_use + after.wholes(taken)
    return np.asarray(before.pieces().sum(axis=1, keepdims=True) + before.wholes(0) - of_use - gone)


@dataclass(frozen=True, kw_only=True)
class _State:
    """What is idle on R nodes.

    Attributes:
        tables: of what use it is.
        kinds: code of the nodes' model, shape (R, 1).
        fitting: how many of the distinct CPU demands fit, shape (R, 1).
        free: hundredths on each GPU that is open, shape (R, G).
        jobs: that each may still take, shape (R, G).
        idle: whether it is open and empty, shape (R, G).
    """

    tables: fragments.Tables
    kinds: Array
    fitting: Array
    free: Array
    jobs: Array
    idle: Array

    @classmethod
    def of(cls, source: fleet.Fleet, tables: fragments.Tables, rows: Array) -> Self:
        """As the nodes are."""
        usable = source.present[rows] & (source.closed[rows] == 0)
        return cls(
            tables=tables,
            kinds=source.model[rows, usable.argmax(axis=1)][:, None],
            fitting=tables.fitting(source.free_cpu_millis[rows])[:, None],
            free=np.where(usable, np.clip(source.free[rows], 0, HUNDREDTHS), 0),
            jobs=np.where(usable, source.tenants_left[rows], 0),
            idle=usable & (source.tenants[rows] == 0),
        )

    def left_with(self, free_cpu_millis: Array) -> Self:
        """Return the same with other CPU left, shape (R,)."""
        return dataclasses.replace(self, fitting=self.tables.fitting(free_cpu_millis)[:, None])

    def pieces(self) -> Array:
        """Hundredths of use on each GPU to demands for one, shape (R, G)."""
        return np.where(self.jobs > 0, self.tables.pieces[self.kinds, self.fitting, self.free], 0)

    def left_of(self, free: Array) -> Array:
        """Return the same where each GPU has taken one job more, which left it these hundredths."""
        return np.where(self.jobs > 1, self.tables.pieces[self.kinds, self.fitting, free], 0)

    def wholes(self, taken: Array | int) -> Array:
        """Hundredths of use to demands for several GPUs, when so many idle ones are gone."""
        idle = np.maximum(self.idle.sum(axis=1, keepdims=True) - taken, 0)
        return np.asarray(self.tables.wholes[self.kinds, self.fitting, idle] * idle * HUNDREDTHS)
