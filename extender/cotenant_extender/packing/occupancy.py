"""How full the GPUs are: figures of a whole fleet."""

from typing import NamedTuple

import numpy as np

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import fleet


class Occupancy(NamedTuple):
    """Counts of GPUs: with tenants, open and empty, closed and empty; and hundredths booked on those with tenants."""

    in_use: int
    free: int
    closed: int
    booked: int

    @property
    def efficiency(self) -> float:
        """Share booked of the GPUs that are in use, 0 to 1; 1 where none is."""
        return self.booked / (HUNDREDTHS * self.in_use) if self.in_use else 1.0


def occupancy(source: fleet.Fleet) -> Occupancy:
    """Return the figures of all GPUs."""
    used = source.present & (source.tenants > 0)
    closed = source.present & ~used & ((source.closed > 0) | (source.node_closed[:, None] > 0))
    booked = int((HUNDREDTHS - source.free)[used].sum())
    in_use, shut = int(np.count_nonzero(used)), int(np.count_nonzero(closed))
    return Occupancy(in_use, int(np.count_nonzero(source.present)) - in_use - shut, shut, booked)
