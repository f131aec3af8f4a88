"""Random: any GPU that takes the pod, each as likely as any other.

The random baseline of KACE and of Weng et al. (ATC 2023). Nothing is drawn: the score is a hash of the pod's UID, the
node's name and the GPU's index, so that filter, bind and the queue find the same place for a pod, and a simulation
repeats. What other nodes there are does not change it.
"""

import zlib
from typing import Final

import numpy as np

from cotenant_extender.packing import knowledge, rules

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_MIXERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
_TOP: Final = np.uint64(11)


def score(offers: rules.Offers, _known: knowledge.Knowledge) -> rules.Array:
    """Numbers in [0, 1), only where the pod fits."""
    source, uid = offers.fleet, zlib.crc32(offers.request.demand.uid.encode())
    found = np.zeros(offers.fits.shape)
    rows = np.flatnonzero(offers.fits.any(axis=1))
    names = (zlib.crc32(source.nodes[row].name.encode()) for row in rows.tolist())
    of_nodes = np.fromiter(names, dtype=np.uint64, count=len(rows)) ^ (np.uint64(uid) << np.uint64(32))
    columns = np.arange(1, offers.fits.shape[1] + 1, dtype=np.uint64)
    found[rows] = (_mixed(of_nodes[:, None] + columns * _ODD) >> _TOP) / 2.0**53
    return found


def _mixed(numbers: rules.Array) -> rules.Array:
    """Every bit of the result depends on every bit given: the finalizer of splitmix64 (Steele et al., OOPSLA 2014)."""
    for mixer, shift in zip(_MIXERS, _SHIFTS[:2], strict=True):
        numbers = (numbers ^ (numbers >> shift)) * mixer
    mixed: rules.Array = numbers ^ (numbers >> _SHIFTS[2])
    return mixed
