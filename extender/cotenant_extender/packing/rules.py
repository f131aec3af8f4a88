"""Which GPUs take a pod: every rule that no placement may break.

A placement chooses among the options that are listed here; it never makes its own. The order of the checks is that of
`causes.Cause`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cotenant_api import booking, packingpolicy
from cotenant_api.names import HUNDREDTHS, Namespace
from cotenant_extender.packing import causes, needs, policies, view
from cotenant_extender.packing.causes import Cause, Refusal


class Option(NamedTuple):
    """GPUs of one node that take the pod, and what it books on each."""

    node: view.Node
    gpus: tuple[view.GPU, ...]
    needs: tuple[needs.Need, ...]


def options(nodes: view.View, request: view.Request, policy: policies.InForce, *, check_host: bool) -> Iterator[Option]:
    """Every way to place the pod, in strict order. A whole multi-GPU job gets a node's first GPUs that are free.

    With `check_host` also what kube-scheduler judges must hold: CPU, memory, pods, selectors, taints, cordons.
    """
    count = request.demand.gpus
    least = min(request.demand.share, HUNDREDTHS)
    for node in nodes:
        if node.most_free < least:
            continue
        if refused_by_node(node, request, check_host=check_host) or _short_of_host(
            node, request, check_host=check_host
        ):
            continue
        fitting = (gpu for gpu in node.gpus if refused_by_gpu(gpu, request, policy) is None)
        if count == 1:
            for gpu in fitting:
                yield _option(node, (gpu,), request, policy)
        else:
            found = tuple(fitting)
            if len(found) >= count:
                yield _option(node, found[:count], request, policy)


def refusals(
    nodes: view.View, request: view.Request, policy: policies.InForce, *, check_host: bool
) -> Iterator[Refusal]:
    """Why each GPU refuses, one for each: its own reason before what its node is short of.

    GPUs that would take the pod but are too few on their node say so.
    """
    for node in nodes:
        for_all = refused_by_node(node, request, check_host=check_host)
        short = _short_of_host(node, request, check_host=check_host) or Refusal(Cause.TOO_FEW)
        for gpu in node.gpus:
            yield for_all or refused_by_gpu(gpu, request, policy) or short


def refused_by_node(node: view.Node, request: view.Request, *, check_host: bool) -> Refusal | None:
    """Why none of a node's GPUs may take the pod, whatever is free there."""
    if node.closed is not None:
        return Refusal(node.closed)
    host = node.host
    allowed = host.schedulable and request.constraints.allow(node.name, host.labels, host.taints)
    return Refusal(Cause.NODE_REFUSES) if check_host and not allowed else None


def _short_of_host(node: view.Node, request: view.Request, *, check_host: bool) -> Refusal | None:
    """What the node has too little of for this pod."""
    host, need = node.host, request.host
    if request.demand.share > host.free_share:
        return Refusal(Cause.LACKS_TOKENS)
    if not check_host:
        return None
    if need.cpu_millis > max(host.free_cpu_millis, 0):
        return Refusal(Cause.LACKS_CPU)
    if need.memory_bytes > max(host.free_memory_bytes, 0):
        return Refusal(Cause.LACKS_HOST_MEMORY)
    return Refusal(Cause.LACKS_PODS) if host.free_pods < 1 else None


def refused_by_gpu(gpu: view.GPU, request: view.Request, policy: policies.InForce) -> Refusal | None:
    """Why this GPU does not take the pod, if so."""
    closed = _closed_to(gpu, request)
    if closed is not None:
        return Refusal(closed)
    packing = policy.packing(gpu.model)
    if gpu.tenants and not _share_tenancy(gpu, request, policy, packing):
        return Refusal(Cause.TENANCY)
    if len(gpu.tenants) >= packing.max_tenants_per_gpu:
        return Refusal(Cause.TENANT_LIMIT, len(gpu.tenants))
    return _short_of_gpu(gpu, needs.need(request.demand, gpu, policy), packing)


def _closed_to(gpu: view.GPU, request: view.Request) -> Cause | None:
    """Why the pod may not use the GPU, whatever is free there. A predicted pod may use no model without prediction."""
    demand = request.demand
    if demand.gpu_models and gpu.model not in demand.gpu_models:
        return Cause.OTHER_MODEL
    if demand.predicted is not None and gpu.model not in demand.predicted.by_gpu:
        return Cause.NOT_PREDICTED
    if gpu.closed is not None:
        return gpu.closed
    return Cause.HELD if gpu.hold is not None and not _may_use(gpu.hold, request) else None


def _short_of_gpu(gpu: view.GPU, need: needs.Need, packing: packingpolicy.Packing) -> Refusal | None:
    lacking = gpu.share + need.share - HUNDREDTHS
    if lacking > 0:
        return Refusal(Cause.LACKS_SHARE, lacking)
    over = gpu.booked_mib + need.memory_mib - booking.bookable_mib(gpu.memory_mib, packing)
    if need.memory_checked and over > 0:
        return Refusal(Cause.LACKS_MEMORY, over)
    return None


def _may_use(hold: view.Hold, request: view.Request) -> bool:
    """The holder, a higher priority, and a job of its priority that has waited longer may."""
    if request.demand.uid in hold.holders or request.priority > hold.priority:
        return True
    return request.priority == hold.priority and request.since < hold.since


def _share_tenancy(
    gpu: view.GPU, request: view.Request, policy: policies.InForce, packing: packingpolicy.Packing
) -> bool:
    """Whether every tenant belongs together with the pod.

    `SameNamespace`: one namespace. `Label`: equal values of the pod label `tenancyLabel`; pods without it share with
    pods without it in their namespace. `Any`: everyone.
    """
    label = policy.spec.tenancy_label
    if packing.tenancy is packingpolicy.Tenancy.ANY:
        return True
    if packing.tenancy is packingpolicy.Tenancy.SAME_NAMESPACE or label is None:
        return all(tenant.namespace == request.demand.namespace for tenant in gpu.tenants)
    mine = _circle(request.demand.namespace, request.labels, label)
    return all(_circle(tenant.namespace, tenant.labels, label) == mine for tenant in gpu.tenants)


def _circle(namespace: Namespace, labels: Mapping[str, str], label: str) -> tuple[str, str]:
    value = labels.get(label)
    return ("namespace", namespace) if value is None else ("label", value)


def _option(node: view.Node, gpus: tuple[view.GPU, ...], request: view.Request, policy: policies.InForce) -> Option:
    return Option(node, gpus, tuple(needs.need(request.demand, gpu, policy) for gpu in gpus))


def rejection(
    nodes: view.View, request: view.Request, policy: policies.InForce, *, check_host: bool
) -> causes.Rejection:
    """Why no GPU takes the pod."""
    return causes.rejection(refusals(nodes, request, policy, check_host=check_host))
