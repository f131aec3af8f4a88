"""The recent mix of demands: what pods asked for lately, learned as they come.

Of every class of demand the weight is kept: each arrival counts 1, and what came before it fades, so that the last few
thousand arrivals say most. Weights of a mix add up to 1.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cotenant_api import pod
from cotenant_api.names import GPUModel
from cotenant_extender.packing import view

MEMORY = 4096.0
"""Arrivals after which one counts for 1/e."""
MAX_CLASSES = 512


class Demand(NamedTuple):
    """A class of demands: equal ones fit alike.

    Attributes:
        share: hundredths; 0: no GPU; n x 100: n whole GPUs.
        gpu_models: the models that may be used; empty: any.
        memory_bytes: of the host.
    """

    cpu_millis: int
    share: int
    gpu_models: frozenset[GPUModel] = frozenset()
    memory_bytes: int = 0

    @property
    def gpus(self) -> int:
        """How many GPUs of one node."""
        return -(-self.share // 100)

    @property
    def order(self) -> tuple[int, int, int, list[GPUModel]]:
        """Which of two equally frequent classes comes first."""
        return self.share, self.cpu_millis, self.memory_bytes, sorted(self.gpu_models)


class Mix:
    """Weights by class of demand.

    Attributes:
        arrivals: how many there were.
    """

    def __init__(self, demands: Iterable[Demand] = ()) -> None:
        self.arrivals = 0
        self._weights: dict[Demand, float] = {}
        self._unit = 1.0
        for demand in demands:
            self.add(demand)

    def add(self, demand: Demand) -> None:
        """One more has come."""
        self.arrivals += 1
        self._unit *= 1 + 1 / MEMORY
        self._weights[demand] = self._weights.get(demand, 0.0) + self._unit
        if self._unit > 1e12 or len(self._weights) > MAX_CLASSES:
            self._shrink()

    def weights(self) -> dict[Demand, float]:
        """Return the mix, the most frequent class first."""
        total = sum(self._weights.values())
        ordered = sorted(self._weights.items(), key=lambda item: (-item[1], item[0].order))
        return {demand: weight / total for demand, weight in ordered}

    def _shrink(self) -> None:
        """Keep numbers small, and only the classes that count most."""
        kept = sorted(self._weights.items(), key=lambda item: -item[1])[: MAX_CLASSES // 2]
        self._weights = {demand: weight / self._unit for demand, weight in kept}
        self._unit = 1.0


def demand_of(request: view.Request) -> Demand:
    """Return the class of a request. The share is the smallest that it may cost."""
    demand: pod.Demand = request.demand
    return Demand(request.host.cpu_millis, demand.share, demand.gpu_models, request.host.memory_bytes)
