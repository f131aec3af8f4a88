"""Which GPUs take a pod: every rule that no placement may break.

Each rule is written once, as the mask of the GPUs that it refuses; what fits and what is told both follow from it. The
order is that of `causes.Cause`. A placement chooses among the offers that are listed here; it never makes its own.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import causes, fleet, holding, needs, spaces, suspicion, view
from cotenant_extender.packing.causes import Cause

Array = NDArray[Any]


class Needs(NamedTuple):
    """What a pod needs on every GPU; each an array of shape (N, G), or one number where it is the same everywhere.

    Attributes:
        refused: code of why the pod may not use the GPU's model; 0: it may.
        share: hundredths.
        memory_mib: MiB to be free; 0 where memory is not checked.
        least_request: hundredths that the pod must request to use so much memory; 0 where it needs not.
    """

    refused: Array | int
    share: Array | int
    memory_mib: Array | int
    least_request: Array | int = 0

    def at(self, row: int, slot: int) -> tuple[int, int]:
        """Hundredths and MiB on one GPU."""
        share, memory = self.share, self.memory_mib
        return (
            share if isinstance(share, int) else int(share[row, slot]),
            memory if isinstance(memory, int) else int(memory[row, slot]),
        )


class Offers(NamedTuple):
    """Every way to place a pod, in strict order.

    Attributes:
        fits: shape (N, G) for a pod on one GPU: whether the GPU takes it. Shape (N, 1) for n whole GPUs and for none:
            whether the node takes it.
        cells: shape (N, G), GPUs that would take it, or one n-th of it.
        gpus: how many GPUs of one node it needs.
    """

    fleet: fleet.Fleet
    request: view.Request
    needs: Needs
    fits: Array
    cells: Array
    gpus: int

    def slots(self, row: int, column: int) -> tuple[int, ...]:
        """Return the GPUs that a place in `fits` stands for.

        A whole multi-GPU job gets a node's first GPUs that are free.
        """
        if self.gpus == 1:
            return (column,)
        return tuple(int(slot) for slot in np.flatnonzero(self.cells[row])[: self.gpus])


class _Rule(NamedTuple):
    """GPUs that are refused: by which cause, or by which causes' codes; and by how much, worked out when asked."""

    cause: Cause | Array
    refused: Array
    amount: Callable[[], Array] | None = None


def offers(source: fleet.Fleet, request: view.Request, *, check_host: bool) -> Offers:
    """Where a pod fits. With `check_host` also what kube-scheduler judges must hold: CPU, memory, selectors, taints."""
    needed = of_models(source, request)
    refused = ~source.present
    for rule in _of_gpus(source, request, needed, check_host=check_host):
        refused |= rule.refused
    cells = ~refused
    count = 0 if request.demand.share == 0 else request.demand.gpus
    takes = np.ones(len(source), dtype=np.bool_)
    for rule in _of_hosts(source, request, check_host=check_host):
        takes &= ~rule.refused
    if count == 1:
        cells &= takes[:, None]
        return Offers(source, request, needed, cells, cells, count)
    takes &= cells.sum(axis=1) >= count
    if count == 0:
        takes &= True if source.absent is None else ~source.absent
        for rule in _of_nodes(source, request, check_host=check_host):
            takes &= ~rule.refused[:, 0]
    return Offers(source, request, needed, takes[:, None], cells, count)


def refusals(
    source: fleet.Fleet, request: view.Request, *, check_host: bool, tell_promises: bool = True
) -> causes.Refusals:
    """Why each GPU refuses, shape (N, G): its own reason before what its node is short of.

    GPUs that would take the pod but are too few on their node say so; with `tell_promises` also those that only
    earmarks keep from taking it.
    """
    codes = np.zeros(source.present.shape, dtype=np.uint8)
    amounts = np.zeros(source.present.shape, dtype=np.int64)
    rules = _of_gpus(source, request, of_models(source, request), check_host=check_host)
    hosts = (
        _Rule(rule.cause, np.broadcast_to(rule.refused[:, None], codes.shape), rule.amount)
        for rule in _of_hosts(source, request, check_host=check_host)
    )
    too_few = _Rule(Cause.TOO_FEW, source.present)
    for rule in (*rules, *hosts, too_few):
        new = source.present & (codes == 0) & rule.refused
        codes[new] = (
            causes.code(rule.cause) if isinstance(rule.cause, Cause) else np.broadcast_to(rule.cause, new.shape)[new]
        )
        if rule.amount is not None:
            amounts[new] = rule.amount()[new]
    if tell_promises:
        _tell_promises(source, request, codes, amounts)
    return causes.Refusals(codes, amounts)


def _tell_promises(source: fleet.Fleet, request: view.Request, codes: Array, amounts: Array) -> None:
    """GPUs that only earmarks keep from taking the pod say so."""
    if not source.promises.any():
        return
    needed = of_models(source, request)
    fits = (source.free + source.promised >= needed.share) & (
        source.free_mib + source.promised_mib >= needed.memory_mib
    )
    fits &= (source.tenants_left + source.promises > 0) & (source.promises > 0)
    told = fits & np.isin(codes, _SHORTAGES)
    codes[told] = causes.code(Cause.PROMISED)
    amounts[told] = 0


_SHORTAGES = [causes.code(cause) for cause in (Cause.TENANT_LIMIT, Cause.LACKS_SHARE, Cause.LACKS_MEMORY)]


def rejection(
    source: fleet.Fleet, request: view.Request, *, check_host: bool, tell_promises: bool = True
) -> causes.Rejection:
    """Why no GPU takes the pod; see `refusals`."""
    return causes.rejection(refusals(source, request, check_host=check_host, tell_promises=tell_promises))


def of_models(source: fleet.Fleet, request: view.Request) -> Needs:
    """Return what the pod needs on every GPU, by its model, and at least its part of the memory (`needs.on_gpu`)."""
    needed, demand = _of_models(source, request), request.demand
    share, memory, bookable = needed.share, needed.memory_mib, source.bookable_mib
    if demand.memory_mib is None and demand.predicted is None:
        return needed
    if bool((HUNDREDTHS * memory <= np.minimum(share, demand.share) * bookable).all(where=source.present)):
        return needed
    parts = np.clip(-(-HUNDREDTHS * np.asarray(memory) // np.maximum(bookable, 1)), 1, HUNDREDTHS)
    parts = np.where((memory > 0) & (memory <= bookable), parts, 0)
    if demand.predicted is None:
        return needed._replace(least_request=np.where(parts > demand.share, parts, 0))
    return needed._replace(share=np.maximum(share, parts))


def on_gpu(source: fleet.Fleet, request: view.Request, row: int, slot: int) -> tuple[int, int]:
    """Return the hundredths and MiB that a pod needs on one GPU, as `of_models` says of all."""
    if request.demand.share == 0:
        return 0, 0
    found = needs.on_gpu(request.demand, source.nodes[row].gpus[slot], source.policy)
    if isinstance(found, Cause):
        return of_models(source, request).at(row, slot)
    return found.share, found.booked_mib(int(source.bookable_mib[row, slot])) if found.memory_checked else 0


def _of_models(source: fleet.Fleet, request: view.Request) -> Needs:
    if request.demand.share == 0:
        return Needs(0, 0, 0)
    found = [needs.need(request.demand, model, source.policy) for model in source.models]
    if len(set(found)) == 1 and isinstance(found[0], needs.Need):
        only = found[0]
        return Needs(0, only.share, _memory(source, only))
    refused = np.array([causes.code(need) if isinstance(need, Cause) else 0 for need in found], dtype=np.uint8)
    share = np.array([0 if isinstance(need, Cause) else need.share for need in found], dtype=np.int32)
    memory = np.zeros(source.present.shape, dtype=np.int64)
    for model, need in enumerate(found):
        if isinstance(need, needs.Need):
            np.copyto(memory, _memory(source, need), where=source.model == model)
    if not found:
        return Needs(0, 0, 0)
    return Needs(refused[source.model], share[source.model], memory)


def _memory(source: fleet.Fleet, need: needs.Need) -> Array | int:
    if not need.memory_checked:
        return 0
    return source.bookable_mib * need.share // HUNDREDTHS if need.memory_mib is None else need.memory_mib


def _of_gpus(source: fleet.Fleet, request: view.Request, needed: Needs, *, check_host: bool) -> Iterator[_Rule]:
    """Yield the rules on GPUs, and on whole nodes before them."""
    yield from _of_nodes(source, request, check_host=check_host)
    if isinstance(needed.refused, np.ndarray):
        yield _Rule(needed.refused, needed.refused > 0)
    least = needed.least_request
    if isinstance(least, np.ndarray):
        yield _Rule(Cause.MEMORY_ABOVE_SHARE, least > request.demand.share, lambda: least)
    yield _Rule(source.closed, source.closed > 0)
    closed = holding.closed(source, request)
    if closed is not None:
        yield _Rule(Cause.HELD, closed[source.hold])
    joins = source.circle == fleet.EMPTY
    for circle in (fleet.ANYONE, *source.circles(request)):
        joins |= source.circle == circle
    yield _Rule(Cause.TENANCY, ~joins)
    if request.demand.suspect:
        yield _Rule(Cause.SUSPECT, suspicion.strange(source, request.demand.suspect))
    namespace = request.demand.namespace
    if spaces.beyond(source, namespace, request.demand.gpus):
        yield _Rule(Cause.NAMESPACE_LIMIT, ~spaces.held(source, namespace))
    beyond = holding.beyond(source, request)
    if beyond is not None:
        yield _Rule(Cause.NAMESPACE_KEPT, beyond)
    yield _Rule(Cause.TENANT_LIMIT, source.tenants_left <= 0, lambda: source.tenants)
    yield _Rule(Cause.LACKS_SHARE, source.free < needed.share, lambda: needed.share - source.free)
    memory = needed.memory_mib
    if isinstance(memory, np.ndarray) or memory:
        over = (source.free_mib < memory) & (memory > 0)
        yield _Rule(Cause.LACKS_MEMORY, over, lambda: memory - source.free_mib)


def _of_nodes(source: fleet.Fleet, request: view.Request, *, check_host: bool) -> Iterator[_Rule]:
    """Why none of a node's GPUs may take the pod, whatever is free there; masks of shape (N, 1)."""
    closed = source.node_closed[:, None]
    yield _Rule(closed, closed > 0)
    if not check_host:
        return
    wanted = request.constraints
    yield _Rule(Cause.NODE_REFUSES, ~(source.schedulable & source.selected(wanted))[:, None])
    if wanted.volumes:
        yield _Rule(Cause.VOLUMES, ~source.reached(wanted)[:, None])
    if wanted.refused is not None:
        yield _Rule(Cause.SCHEDULER_REFUSES, source.refused(wanted.refused)[:, None])


def _of_hosts(source: fleet.Fleet, request: view.Request, *, check_host: bool) -> Iterator[_Rule]:
    """Yield what nodes have too little of for the pod; masks of shape (N,)."""
    short = holding.short(source, request) if source.kept else None
    if short is not None:
        yield _Rule(Cause.KEPT, short)
    yield _Rule(Cause.LACKS_TOKENS, source.free_share < request.demand.share)
    if check_host:
        yield from _of_machines(source, request)


def _of_machines(source: fleet.Fleet, request: view.Request) -> Iterator[_Rule]:
    """Yield what nodes have too little of beside GPUs; masks of shape (N,)."""
    need = request.host
    if need.cpu_millis:
        yield _Rule(Cause.LACKS_CPU, source.free_cpu_millis < need.cpu_millis)
    if need.memory_bytes:
        yield _Rule(Cause.LACKS_HOST_MEMORY, source.free_memory_bytes < need.memory_bytes)
    yield _Rule(Cause.LACKS_PODS, source.free_pods < 1)


def hosts(source: fleet.Fleet, request: view.Request) -> Array:
    """Which nodes take a pod by what is evaluated here of its host, whatever their GPUs hold, shape (N,)."""
    takes: Array = source.schedulable & source.selected(request.constraints) & source.reached(request.constraints)
    for rule in _of_machines(source, request):
        takes &= ~rule.refused
    return takes
