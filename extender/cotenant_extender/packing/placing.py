"""Place a pod: the policy's placement chooses among the offers, and the choice becomes the placement document."""

from typing import NamedTuple

import numpy as np

from cotenant_api import placement
from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import causes, fleet, knowledge, needs, policies, registry, rules, threads, view


class Choice(NamedTuple):
    """A node and GPUs of it, and what is booked on each."""

    node: view.Node
    gpus: tuple[view.GPU, ...]
    needs: tuple[needs.Need, ...]


def place(
    source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge, *, check_host: bool = True
) -> placement.Placement | causes.Rejection:
    """Return the placement of a pod, or why there is none.

    The fleet is without what the pod itself has been given there.

    With `check_host` also what kube-scheduler judges must hold (see `rules.offers`).
    """
    found = choose(source, request, known, check_host=check_host)
    if found is None:
        return rules.rejection(source, request, check_host=check_host)
    return document(found, request, source.policy, known)


def choose(
    source: fleet.Fleet, request: view.Request, known: knowledge.Knowledge, *, check_host: bool = True
) -> Choice | None:
    """As `place`, without the document, and without the cost of saying why not."""
    offers = rules.offers(source, request, check_host=check_host)
    return best(offers, registry.PLACEMENTS[source.policy.spec.placement], known)


def best(offers: rules.Offers, score: registry.Score, known: knowledge.Knowledge) -> Choice | None:
    """Return the offer that a score puts highest; the first in strict order among equals."""
    return highest(offers, score(offers, known)) if offers.fits.any() else None


def highest(offers: rules.Offers, scores: rules.Array) -> Choice | None:
    """Return the offer with the highest of these scores, of the shape of `fits`.

    The first in strict order among equals.
    """
    if not offers.fits.any():
        return None
    place = int(np.where(offers.fits, scores, -np.inf).argmax())
    row, column = divmod(place, offers.fits.shape[1])
    return chosen(offers.fleet, offers.request, row, offers.slots(row, column))


def chosen(source: fleet.Fleet, request: view.Request, row: int, slots: tuple[int, ...]) -> Choice | None:
    """Return the choice of these GPUs of a node; None where the pod may not use one of them."""
    node = source.nodes[row]
    gpus = tuple(node.gpus[slot] for slot in slots)
    found = [needs.on_gpu(request.demand, gpu, source.policy) for gpu in gpus]
    booked = tuple(need for need in found if isinstance(need, needs.Need))
    return Choice(node, gpus, booked) if len(booked) == len(gpus) else None


def document(
    choice: Choice, request: view.Request, policy: policies.InForce, known: knowledge.Knowledge
) -> placement.Placement:
    """Return the placement document of a choice."""
    demand = request.demand
    whole = all(need.share >= HUNDREDTHS for need in choice.needs)
    return placement.Placement(
        pod_uid=demand.uid,
        node=choice.node.name,
        container=demand.container,
        policy_generation=policy.generation,
        backend=placement.Backend.WHOLE if whole else placement.Backend.MPS,
        processes_per_gpu=demand.processes_per_gpu,
        gpus=tuple(
            placement.GPUBooking(
                uuid=gpu.uuid,
                share=need.share,
                active_thread_percentage=threads.percentage(demand, gpu, need.share, policy=policy, known=known),
                memory_mib=need.booked_mib(policy.bookable_mib(gpu)),
                client_priority=needs.client_priority(demand, (tenant.workload_type for tenant in gpu.tenants)),
            )
            for gpu, need in zip(choice.gpus, choice.needs, strict=True)
        ),
    )
