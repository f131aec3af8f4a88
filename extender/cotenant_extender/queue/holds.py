"""Which GPUs are held for the oldest job that does not fit.

Those that would take its pods if they were empty, and that have the least booked now: they are likely to be free
soonest. Run times are not known, so a hold may be wrong about which; it stays where it is until its job is placed or
its GPUs close, so that they do empty. The pods of a gang share held GPUs where the rules let them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cotenant_api.names import GPUUID, NodeName
from cotenant_extender.ledger import ledger, views
from cotenant_extender.packing import needs, policies, rules, view

Held = dict[NodeName, set[GPUUID]]


def keep(source: ledger.Ledger, requests: Sequence[view.Request], policy: policies.InForce) -> None:
    """Hold GPUs for a job's pods, the same as before where these can still serve them."""
    hold = view.Hold(
        holders=frozenset(request.demand.uid for request in requests),
        priority=max(request.priority for request in requests),
        since=min(request.since for request in requests),
    )
    if source.hold == hold:
        among = {uuid for uuids in source.held.values() for uuid in uuids}
        if _suited(views.View(source, among=source.held, gpus=among), requests, policy) is not None:
            return
    found = _suited(views.View(source), requests, policy)
    source.set_hold(None if found is None else hold, found)


def _suited(nodes: view.View, requests: Sequence[view.Request], policy: policies.InForce) -> Held | None:
    """GPUs for all of the pods, if these were empty; None where there are not enough."""
    emptied = [_Emptied(node) for node in nodes if node.closed is None and node.host.schedulable]
    for request in sorted(requests, key=lambda request: -request.demand.share):
        options = (found for node in emptied if (found := node.best(request, policy)) is not None)
        best = min(options, default=None, key=lambda found: (found[0], found[1].name))
        if best is None:
            return None
        best[1].take(best[2], request, policy)
    return {node.name: set(node.taken) for node in emptied if node.taken}


class _Emptied:
    """A node as if the GPUs that are taken from it, and only these, were empty."""

    def __init__(self, node: view.Node) -> None:
        self.name, self._node = node.name, node
        self._booked = {gpu.uuid: gpu.share for gpu in node.gpus}
        self._gpus = {gpu.uuid: replace(gpu, tenants=(), share=0, booked_mib=0, hold=None) for gpu in node.gpus}
        self.taken: set[GPUUID] = set()

    def best(
        self, request: view.Request, policy: policies.InForce
    ) -> tuple[int, "_Emptied", tuple[GPUUID, ...]] | None:
        """What would have to be freed for a pod, in hundredths, and on which GPUs: none on those that are taken."""
        host = self._node.host
        if not request.constraints.allow(self.name, host.labels, host.taints):
            return None
        fit = [gpu for gpu in self._gpus.values() if rules.refused_by_gpu(gpu, request, policy) is None]
        fit.sort(key=lambda gpu: (self._cost(gpu.uuid), gpu.index))
        chosen = tuple(gpu.uuid for gpu in fit[: request.demand.gpus])
        return None if len(chosen) < request.demand.gpus else (sum(map(self._cost, chosen)), self, chosen)

    def take(self, uuids: Iterable[GPUUID], request: view.Request, policy: policies.InForce) -> None:
        """Put a pod there."""
        demand = request.demand
        for uuid in uuids:
            gpu = self._gpus[uuid]
            need = needs.need(demand, gpu, policy)
            tenant = view.Tenant(
                uid=demand.uid,
                namespace=demand.namespace,
                labels=request.labels,
                workload_type=demand.workload_type,
                share=need.share,
                memory_mib=need.memory_mib,
            )
            self._gpus[uuid] = replace(
                gpu,
                tenants=(*gpu.tenants, tenant),
                share=gpu.share + need.share,
                booked_mib=gpu.booked_mib + need.memory_mib,
            )
            self.taken.add(uuid)

    def _cost(self, uuid: GPUUID) -> int:
        return -1 if uuid in self.taken else self._booked[uuid]
