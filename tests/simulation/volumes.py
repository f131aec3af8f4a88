"""Volumes that come late in some worlds: kube-scheduler has chosen a node, and fails the pod before its Binding.

It says so in a report of an error, which tells of no node, and tries again after a while.
"""

import random
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

READY = "simulation/volume-ready"
"""When a pod's volume is there, in seconds since the epoch."""
PART = 0.3
"""Of all worlds."""
PODS = 0.15
"""Of the pods of such a world."""
LATE_SECONDS = (2.0, 40.0)
FAILS_SECONDS = 0.5
FAILURE = 'running PreBind plugin "VolumeBinding": binding volumes: the volume is not there yet'


class Volumes:
    """Which pods of one world have a volume that comes late."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._some = False

    def begin(self) -> None:
        """From now on, in some worlds."""
        self._some = self._rng.random() < PART

    def notes(self, *, now: float) -> dict[str, str]:
        """Annotations of a pod that is made now."""
        if not self._some or self._rng.random() >= PODS:
            return {}
        return {READY: f"{now + self._rng.uniform(*LATE_SECONDS):.3f}"}


def is_late(pod: Mapping[str, Any], *, now: float) -> bool:
    """Return whether a pod's volume is not there yet."""
    notes: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return float(notes.get(READY, "0")) > now
