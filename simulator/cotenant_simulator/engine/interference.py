"""How fast the tenants of one GPU really run, by the predictor's model of co-location; remembered by who is there.

    utilization of the GPU = min(1, sum over tenants of utilization alone x speed)

A tenant is known by what it really needs, its thread percentage and its client priority.
"""

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from cotenant_api import prediction
from cotenant_extender.packing import speeds as packed
from cotenant_predictor.colocation import profiles
from cotenant_predictor.colocation import speeds as models
from cotenant_predictor.trees import Array

MPS: Final = packed.MECHANISM
_MOST: Final = 1_000_000


class Tenant(NamedTuple):
    """A job on one GPU.

    Attributes:
        real: what it needs alone.
        gpu_memory_mib: the GPU's memory.
        threads: percentage of the SMs that it may use; what shares a GPU otherwise than by MPS may use all.
        priority: MPS client priority.
        kind: name of the kind of job that it is; empty: none is known.
    """

    real: prediction.GPUPrediction
    gpu_memory_mib: int
    threads: int
    priority: int
    kind: str = ""


class Together(NamedTuple):
    """Speeds of the tenants in order, of their speeds alone; and the GPU's utilization, 0..1."""

    speeds: tuple[float, ...]
    utilization: float


class Speeds(Protocol):
    """How fast the tenants of one GPU are.

    Attributes:
        mechanism: of sharing, of `colocation.prior.RESOURCES`.
    """

    mechanism: str

    def together(self, tenants: Sequence[Tenant]) -> Together:
        """Who shares a GPU, and how fast each is."""
        ...


class Interference:
    """`Speeds` by the predictor's model, of one mechanism on all GPUs."""

    def __init__(self, model: models.SpeedModel, mechanism: str) -> None:
        self.mechanism = mechanism
        self._model = model
        self._numbers: dict[int, int] = {}
        self._kept: list[prediction.GPUPrediction] = []
        self._rows: dict[tuple[int, int], Array] = {}
        self._known: dict[Hashable, Together] = {}

    def together(self, tenants: Sequence[Tenant]) -> Together:
        """See `Speeds`."""
        if not tenants:
            return Together((), 0.0)
        keys = [self._key(tenant) for tenant in tenants]
        order = sorted(range(len(tenants)), key=keys.__getitem__)
        key = tuple(keys[place] for place in order)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            found = self._known[key] = self._of([tenants[place] for place in order])
        speeds = [0.0] * len(tenants)
        for place, speed in zip(order, found.speeds, strict=True):
            speeds[place] = speed
        return Together(tuple(speeds), found.utilization)

    def _of(self, tenants: Sequence[Tenant]) -> Together:
        rows = np.array([self._row(tenant) for tenant in tenants])
        limited = self.mechanism == MPS
        threads = np.array([tenant.threads if limited else 100 for tenant in tenants]) / 100
        priority = np.array([tenant.priority if limited else 0 for tenant in tenants])
        group = profiles.with_settings(rows, threads=threads, priority=priority)[None]
        speeds = self._model.predict(group, self.mechanism).speed[0]
        busy = float((speeds * rows[:, profiles.INDEX["utilization"]]).sum())
        return Together(tuple(map(float, speeds)), min(1.0, busy))

    def _row(self, tenant: Tenant) -> Array:
        key = self._number(tenant.real), tenant.gpu_memory_mib
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = profiles.of_prediction(tenant.real, tenant.gpu_memory_mib)
        return found

    def _key(self, tenant: Tenant) -> tuple[int, int, int, int]:
        return self._number(tenant.real), tenant.gpu_memory_mib, tenant.threads, tenant.priority

    def _number(self, real: prediction.GPUPrediction) -> int:
        """In the order in which they are first seen, so that the same run sums in the same order."""
        number = self._numbers.get(id(real))
        if number is None:
            number = self._numbers[id(real)] = len(self._kept)
            self._kept.append(real)  # an id is its own as long as its object lives
        return number
