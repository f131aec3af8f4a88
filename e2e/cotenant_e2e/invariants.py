"""What must hold of every GPU and every pod at any moment, judged by the pods' events alone. Pure.

It knows the rules of packing from the API's documents and from no code of the extender: one must not excuse the other.
A pod holds its GPUs from the event that carries its placement to the event that it has finished or is gone. Events
come in the API server's own order, so a promise that was broken for a moment is seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant_api import booking, errors, names, packingpolicy, placement
from cotenant_api import pod as pods
from cotenant_api.names import GPUUID, HUNDREDTHS, GPUModel, Namespace, NodeName, PodUID

Json = Mapping[str, Any]
FINISHED = ("Succeeded", "Failed")
DELETED = "DELETED"


@dataclass(frozen=True, kw_only=True)
class GPU:
    """A GPU and what it may hold. `bookable_mib`: memory, in MiB."""

    node: NodeName
    index: int
    model: GPUModel
    bookable_mib: int


@dataclass(frozen=True)
class Limits:
    """What the GPUs of a cluster may hold: tenants, and their memory; with `tenancy: SameNamespace`."""

    max_tenants: int
    gpus: Mapping[GPUUID, GPU]

    @classmethod
    def of(cls, policy: dict[str, Any], gpu_nodes: Iterable[Json]) -> "Limits":
        """From a PackingPolicy and GPUNodes as the API server gives them."""
        spec = packingpolicy.PackingPolicy.from_object(policy).spec
        found = {}
        for node in gpu_nodes:
            for gpu in node["status"]["gpus"]:
                model = GPUModel(gpu["model"])
                found[GPUUID(gpu["uuid"])] = GPU(
                    node=NodeName(node["metadata"]["name"]),
                    index=gpu["index"],
                    model=model,
                    bookable_mib=booking.bookable_mib(gpu["memoryMiB"], spec.packing(model)),
                )
        return cls(spec.max_tenants_per_gpu, found)


@dataclass(frozen=True)
class Tenant:
    """A pod on a GPU, as booked."""

    uid: PodUID
    namespace: Namespace
    pod: str
    share: int
    memory_mib: int
    whole: bool


@dataclass
class Invariants:
    """The state of every GPU, folded from events; `violations` must stay empty."""

    limits: Limits
    tenants: dict[GPUUID, dict[PodUID, Tenant]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    _bound: dict[PodUID, tuple[str, str]] = field(default_factory=dict)

    def apply(self, event_type: str, pod: Json) -> placement.Placement | None:
        """Take in one event of a pod that asks for a share; its placement when this event is the first to show it."""
        uid = PodUID(pod["metadata"]["uid"])
        ended = event_type == DELETED or pod.get("status", {}).get("phase") in FINISHED
        if ended:
            for tenants in self.tenants.values():
                tenants.pop(uid, None)
        if event_type == DELETED and uid not in self._bound:
            return None
        return self._seen(pod, holds=not ended)

    def takers(self, pod: Json) -> list[GPUUID]:
        """GPUs that would take a pod without prediction now, for a whole-GPU pod as many as it asks for; or none."""
        demand = pods.demand(pod)
        fitting = [uuid for uuid in self.limits.gpus if self._takes(uuid, demand)]
        if demand.gpus == 1:
            return fitting
        for node in {self.limits.gpus[uuid].node for uuid in fitting}:
            here = [uuid for uuid in fitting if self.limits.gpus[uuid].node == node]
            if len(here) >= demand.gpus:
                return here[: demand.gpus]
        return []

    def _takes(self, uuid: GPUUID, demand: pods.Demand) -> bool:
        gpu, tenants = self.limits.gpus[uuid], list(self.tenants.get(uuid, {}).values())
        if demand.gpu_models and gpu.model not in demand.gpu_models:
            return False
        share = min(demand.share, HUNDREDTHS)
        checked = demand.memory_mib is not None if demand.gpus == 1 and demand.whole else demand.gpus == 1
        memory = booking.booked_mib(
            share=share, annotated_mib=demand.memory_mib, predicted=None, bookable=gpu.bookable_mib
        )
        return (
            all(one.namespace == demand.namespace for one in tenants)
            and len(tenants) < self.limits.max_tenants
            and sum(one.share for one in tenants) + share <= HUNDREDTHS
            and (not checked or _memory(tenants) + memory <= gpu.bookable_mib)
            # A pod without prediction gets no GPU of which its memory is a larger part than it requests.
            and (not checked or booking.memory_part(memory, gpu.bookable_mib) <= share)
        )

    def _seen(self, pod: Json, *, holds: bool) -> placement.Placement | None:
        """Compare what an event shows of a pod's place with what was seen of it before."""
        uid, node = PodUID(pod["metadata"]["uid"]), str(pod["spec"].get("nodeName") or "")
        text = str((pod["metadata"].get("annotations") or {}).get(names.PLACEMENT, ""))
        before = self._bound.get(uid)
        if before == (node, text) or (before is None and not node and not text):
            return None
        if before is not None:
            what = "node" if before[0] != node else "placement"
            self.violations.append(f"the {what} of {name_of(pod)} changed")
            return None
        self._bound[uid] = (node, text)
        if not text:
            self.violations.append(f"{name_of(pod)} is bound to {node} without a placement")
            return None
        try:
            document = placement.Placement.from_json(text, source=f"placement of {name_of(pod)}")
        except errors.InvalidInputError as error:
            self.violations.append(str(error))
            return None
        self._check_document(pod, node, document)
        if holds:
            self._hold(pod, document)
        return document

    def _hold(self, pod: Json, document: placement.Placement) -> None:
        for gpu in document.gpus:
            tenant = Tenant(
                document.pod_uid,
                Namespace(pod["metadata"]["namespace"]),
                pod["metadata"]["name"],
                gpu.share,
                gpu.memory_mib,
                document.backend is placement.Backend.WHOLE,
            )
            self.tenants.setdefault(gpu.uuid, {})[PodUID(pod["metadata"]["uid"])] = tenant
            self._check_gpu(gpu.uuid)

    def _check_document(self, pod: Json, node: str, document: placement.Placement) -> None:
        """Check that a placement is for its own pod, on the pod's node, and covers what the pod asks for."""
        here = [gpu.uuid for gpu in document.gpus if self._node_of(gpu.uuid) == node]
        broken = {
            "for another node or pod": document.node != node or document.pod_uid != pod["metadata"]["uid"],
            "on a GPU of another node": len(here) != len(document.gpus),
            "on one GPU twice": len(set(here)) != len(here),
            "for less than it asks": pods.asks_for_share(pod)
            and sum(gpu.share for gpu in document.gpus) < pods.requested_share(pod)[1],
        }
        wrong = [what for what, is_broken in broken.items() if is_broken]
        self.violations += [f"the placement of {name_of(pod)} is {what}" for what in wrong]

    def _check_gpu(self, uuid: GPUUID) -> None:
        """Check the promises of one GPU, each with what broke it."""
        tenants = list(self.tenants[uuid].values())
        bookable = self.limits.gpus[uuid].bookable_mib if uuid in self.limits.gpus else 0
        share = sum(one.share for one in tenants)
        broken = {
            f"{len(tenants)} tenants": len(tenants) > self.limits.max_tenants,
            f"{share} hundredths": share > HUNDREDTHS,
            f"{_memory(tenants)} MiB of {bookable}": _memory(tenants) > bookable,
            "two namespaces": len({one.namespace for one in tenants}) > 1,
        }
        who = ", ".join(f"{one.namespace}/{one.pod}" for one in tenants)
        self.violations += [f"{uuid} holds {what}: {who}" for what, is_broken in broken.items() if is_broken]

    def _node_of(self, uuid: GPUUID) -> str:
        return self.limits.gpus[uuid].node if uuid in self.limits.gpus else ""


def name_of(pod: Json) -> str:
    """Namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _memory(tenants: list[Tenant]) -> int:
    """Return what is booked beside others: a whole GPU's memory is its tenant's to use."""
    return sum(one.memory_mib for one in tenants if not one.whole)
