"""Nodes, requests and mixes by their figures, for tests of placements that look at what is left for others."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from cotenant_api.names import GPUModel, NodeName
from cotenant_extender import records
from cotenant_extender.packing import fleet, knowledge, mix, rules, view
from extender import builders, sharing

A, B = GPUModel("A"), GPUModel("B")
CPU, MEMORY = 128_000, 10**12


def node(name: str, free: Sequence[int], *, cpu: int = CPU, memory: int = MEMORY, model: str = A) -> view.Node:
    """A node by the hundredths that are free on each of its GPUs; one tenant holds the rest."""
    gpus = [
        sharing.gpu(*([] if left == 100 else [sharing.tenant(None, share=100 - left)]), model=model) for left in free
    ]
    found = sharing.node(name, *gpus)
    return dataclasses.replace(
        found,
        name=NodeName(name),
        host=dataclasses.replace(found.host, free_cpu_millis=cpu, free_memory_bytes=memory),
    )


def nodes(*found: view.Node, **spec: Any) -> fleet.Fleet:
    """A fleet of these nodes, anyone beside anyone."""
    return fleet.Fleet.of(found, sharing.in_force(**spec))


def request(share: int, *, cpu: int = 0, memory: int = 0, models: Iterable[str] = ()) -> view.Request:
    """A pod that asks for this, and for a share of the GPU's memory; share 0: for no GPU."""
    found = records.pod_record(builders.pod("new", share or 1)).request
    assert found is not None
    demand = dataclasses.replace(
        found.demand, share=share, memory_mib=None, gpu_models=frozenset(GPUModel(model) for model in models)
    )
    return dataclasses.replace(
        found, demand=demand, host=view.HostNeed(cpu_millis=cpu, memory_bytes=memory), fit_key=(share, cpu, memory)
    )


def known(demands: Iterable[mix.Demand], *, times: int = 40) -> knowledge.Knowledge:
    """What is known when all of these came so many times, in turns."""
    return knowledge.Knowledge(mix=mix.Mix(list(demands) * times))


def offered(source: fleet.Fleet, asked: view.Request) -> rules.Offers:
    """Where a pod fits."""
    return rules.offers(source, asked, check_host=True)
