"""From the recent mix of demands to tables of worth: what is asked of which GPUs, and what their pieces are worth then.

The mix, scaled up to `DEMAND` times the cluster's GPUs, is the demand of the linear program in `cutting`; its duals
price every class of demand, and `patterns` prices every piece of a GPU from these. What is needed of CPU and memory
beside a GPU of a model is the mean over the demands that may go there, those for no GPU too, each spread over the
models that it may use. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant_api.names import HUNDREDTHS, GPUModel
from cotenant_extender.packing import cutting, fleet, mix, patterns
from cotenant_extender.packing.patterns import Array

DEMAND: Final = 1.02
"""More than there is, so that GPUs are scarce; much more would price only the jobs that fill GPUs best."""
HOST: Final = 1.2
"""How much less CPU or memory than usual beside a GPU does not count yet."""
MOST_CLASSES: Final = 64
MOST_JOBS: Final = 16
"""On one GPU; as many as a policy can allow."""

_Class = tuple[int, frozenset[GPUModel]]
"""Hundredths and models of a job that needs GPUs."""


@dataclass(frozen=True, kw_only=True)
class Supply:
    """The GPUs of a cluster.

    Attributes:
        gpus: how many, by model.
        most: of one node, by model.
        jobs: on one GPU at most.
    """

    gpus: Mapping[GPUModel, int]
    most: Mapping[GPUModel, int]
    jobs: int

    @classmethod
    def of(cls, source: fleet.Fleet) -> "Supply":
        """All GPUs, open or not, empty or not."""
        on_node = {
            model: ((source.model == code) & source.present).sum(axis=1) for model, code in source.models.items()
        }
        limits = (source.tenants + source.tenants_left)[source.present]
        return cls(
            gpus={model: int(counts.sum()) for model, counts in on_node.items() if counts.any()},
            most={model: int(counts.max()) for model, counts in on_node.items() if counts.any()},
            jobs=min(max(int(limits.max(initial=1)), 1), MOST_JOBS),
        )


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Worth in GPUs, by code of the model.

    Attributes:
        models: by code.
        pieces: of a GPU, by jobs that it may still take and hundredths free, shape (M, MOST_JOBS + 1, 101).
        idle: what idle GPUs of one node add together beside their pieces, shape (M, most GPUs + 1).
        cpu: of a millicore, shape (M,); `inf` where the mix asks for none.
        memory: of a byte, shape (M,); `inf` where the mix asks for none.
    """

    models: tuple[GPUModel, ...]
    pieces: Array
    idle: Array
    cpu: Array
    memory: Array

    def host(self, kinds: Array, cpu_millis: Array, memory_bytes: Array) -> Array:
        """GPUs for which free CPU and memory of nodes of these models suffice; all arrays of shape (N,)."""
        least = np.full(len(kinds), np.inf)
        for free, of_kind in ((cpu_millis, self.cpu), (memory_bytes, self.memory)):
            each = of_kind[kinds]
            asked = np.isfinite(each)
            np.minimum(least, np.where(asked, np.maximum(free, 0) * np.where(asked, each, 0), np.inf), out=least)
        return least


class Search:
    """Prices that are being found for a mix and a cluster.

    Attributes:
        program: solved when it is done.
    """

    def __init__(self, weights: Mapping[mix.Demand, float], supply: Supply) -> None:
        self._weights, self._supply = weights, supply
        self._classes = _classes(weights)
        models = tuple(supply.gpus)
        counts = np.array([supply.gpus[model] for model in models], dtype=np.float64)
        shares = np.array([share for share, _ in self._classes])
        weight = np.array(list(self._classes.values()))
        groups, of_group = _groups(_allowed(models, self._classes))
        self.program = cutting.Program(
            cutting.Market(
                shares=np.minimum(shares, HUNDREDTHS),
                gpus=np.maximum(shares // HUNDREDTHS, 1),
                demand=weight * DEMAND * counts.sum() * HUNDREDTHS / (weight @ shares),
                supply=np.bincount(of_group, counts),
                most_gpus=np.array(
                    [
                        max(supply.most[model] for model, group in zip(models, of_group, strict=True) if group == one)
                        for one in range(len(groups))
                    ]
                ),
                allowed=groups,
                most_jobs=supply.jobs,
            )
        )

    def tables(self, models: tuple[GPUModel, ...], most_gpus: int) -> Tables:
        """Return the worth of what is left of nodes of these models, with so many GPUs at most."""
        shares = np.array([share for share, _ in self._classes])
        gpus = np.maximum(shares // HUNDREDTHS, 1)
        cut = gpus == 1
        groups, of_group = _groups(_allowed(models, self._classes))
        prices = np.where(groups, self.program.prices(), -np.inf)
        pieces = np.array([patterns.worth(each[cut], shares[cut], MOST_JOBS) for each in prices])
        whole = pieces[:, self._supply.jobs, HUNDREDTHS]
        idle = np.array(
            [
                patterns.of_idle(float(worth), each[~cut], gpus[~cut], most_gpus)
                for worth, each in zip(whole, prices, strict=True)
            ]
        )
        idle -= whole[:, None] * np.arange(most_gpus + 1)
        cpu, memory = _beside(self._weights, self._supply, models)
        return Tables(models=models, pieces=pieces[of_group], idle=idle[of_group], cpu=cpu, memory=memory)


def _classes(weights: Mapping[mix.Demand, float]) -> dict[_Class, float]:
    """Weights of the classes that ask for most GPU together, CPU and memory left aside."""
    found: dict[_Class, float] = {}
    for demand, weight in weights.items():
        if demand.share:
            key = (demand.share, demand.gpu_models)
            found[key] = found.get(key, 0.0) + weight
    ordered = sorted(found.items(), key=lambda item: (-item[0][0] * item[1], item[0][0], sorted(item[0][1])))
    return dict(ordered[:MOST_CLASSES])


def _allowed(models: Sequence[GPUModel], classes: Mapping[_Class, float]) -> Array:
    """Which model may serve which class, shape (M, K)."""
    return np.array([[not named or model in named for _, named in classes] for model in models], dtype=np.bool_)


def _groups(allowed: Array) -> tuple[Array, Array]:
    """Models that may serve the same classes are one group: shapes (G, K) and, which group a model is in, (M,)."""
    groups, of_group = np.unique(allowed, axis=0, return_inverse=True)
    return groups, of_group.ravel()


def _beside(weights: Mapping[mix.Demand, float], supply: Supply, models: Sequence[GPUModel]) -> tuple[Array, Array]:
    """GPUs per millicore and per byte of host memory, by model; each of shape (M,)."""
    asked = np.array([(demand.share / HUNDREDTHS, demand.cpu_millis, demand.memory_bytes) for demand in weights])
    spread = np.array(
        [[not demand.gpu_models or model in demand.gpu_models for demand in weights] for model in models], dtype=float
    )
    spread *= np.array([supply.gpus.get(model, 0) for model in models])[:, None]
    spread /= np.maximum(spread.sum(axis=0), 1)
    needs = spread @ (asked * np.array(list(weights.values()))[:, None])
    per_gpu = np.divide(needs[:, 1:], needs[:, :1], out=np.zeros((len(models), 2)), where=needs[:, :1] > 0)
    each = np.divide(HOST, per_gpu, out=np.full(per_gpu.shape, np.inf), where=per_gpu > 0)
    return each[:, 0], each[:, 1]
