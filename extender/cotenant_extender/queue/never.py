"""What no GPU of the cluster could ever give a pod, however empty: in words, with the remedy. Pure."""

from collections.abc import Sequence

import numpy as np

from cotenant_api import suggestions
from cotenant_api.names import GPUModel
from cotenant_api.pod import PackedReason
from cotenant_extender.packing import causes, fleet, rules, view

Words = tuple[PackedReason, str]


def words(seen: fleet.Fleet, requests: Sequence[view.Request]) -> Words | None:
    """Say why the first of a job's pods that fits no GPU of the cluster never will; None: each fits one that is empty.

    GPUs that are closed, booked or held count as if they were free: they may be again.
    """
    if not seen.present.any():
        return None
    kinds = {request.fit_key: request for request in requests}.values()
    return next((found for request in kinds if (found := _of_one(seen, request)) is not None), None)


def _of_one(seen: fleet.Fleet, request: view.Request) -> Words | None:
    models, demand = _models(seen), request.demand
    if demand.gpu_models and demand.gpu_models.isdisjoint(models):
        return PackedReason.GPU_MODEL_MISMATCH, _no_model(sorted(demand.gpu_models), models)
    needed = rules.of_models(seen, request)
    usable = seen.present & (np.asarray(needed.refused) == 0)
    if not usable.any():
        return None
    most = int(usable.sum(axis=1).max())
    if demand.gpus > most:
        return PackedReason.NEVER_FITS, (
            f"asks for {demand.gpus} GPUs of one node, and no node has more than {most} that it may use: ask for "
            "fewer, or add such a node"
        )
    if (usable & (needed.memory_mib <= seen.bookable_mib)).any():
        return None
    wanted = int(np.broadcast_to(needed.memory_mib, usable.shape)[usable].min())
    largest = int(seen.bookable_mib[usable].max())
    return PackedReason.NEVER_FITS, (
        f"asks for {causes.memory(wanted)} of GPU memory, and no GPU that it may use has more than "
        f"{causes.memory_within(largest)} to book: ask for less, or add a larger GPU"
    )


def _models(seen: fleet.Fleet) -> frozenset[GPUModel]:
    """Return the GPU models that nodes have; the fleet knows those of former nodes, too."""
    there = set(np.unique(seen.model[seen.present]).tolist())
    return frozenset(model for model, code in seen.models.items() if code in there)


def _no_model(asked: Sequence[GPUModel], there: frozenset[GPUModel]) -> str:
    advice = "; ".join(dict.fromkeys(suggestions.advice(model, there, known_are="nodes have") for model in asked))
    return f"no node has a GPU of model {' or '.join(asked)}: {advice}"
