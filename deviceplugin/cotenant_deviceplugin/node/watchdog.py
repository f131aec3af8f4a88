"""Who uses more of a GPU's memory than was booked for it. Pure.

MPS limits each process, and only one that leaves its environment alone; the sum over a pod is held here. What one
sample shows may be a process that is just ending, so it takes several in a row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant_api import gpunode, packingpolicy
from cotenant_api.names import GPUUID, Namespace, PodUID

CONFIRMATIONS = 2
"""So many samples in a row make it certain."""

Key = tuple[PodUID, GPUUID]
Counts = Mapping[Key, int]
"""How many samples in a row each pod has been over its limit on each GPU."""


@dataclass(frozen=True, kw_only=True)
class Overuse:
    """A pod that uses more memory of a GPU than was booked, in MiB."""

    pod_uid: PodUID
    namespace: Namespace
    pod: str
    gpu: GPUUID
    used_mib: int
    limit_mib: int
    evict: bool

    @property
    def message(self) -> str:
        """For the pod's events."""
        end = ": it is evicted, as the PackingPolicy says" if self.evict else ""
        return f"uses {self.used_mib} MiB of {self.gpu}, and {self.limit_mib} MiB are booked{end}"


def watch(
    before: Counts, gpus: Iterable[gpunode.GPU], policy: packingpolicy.Spec | None
) -> tuple[Counts, tuple[Overuse, ...]]:
    """Return the counts after one more sample, and who is certainly over a limit.

    Args:
        before: the counts after the last sample; empty at first.
        gpus: with their tenants, as they were just measured.
        policy: decides what follows; None: unknown, so that nobody is evicted.
    """
    over = [(gpu, tenant) for gpu in gpus for tenant in gpu.tenants if _is_over(tenant)]
    counts = {(tenant.pod_uid, gpu.uuid): before.get((tenant.pod_uid, gpu.uuid), 0) + 1 for gpu, tenant in over}
    certain = [
        _overuse(gpu, tenant, policy) for gpu, tenant in over if counts[(tenant.pod_uid, gpu.uuid)] >= CONFIRMATIONS
    ]
    return counts, tuple(certain)


def _is_over(tenant: gpunode.Tenant) -> bool:
    return tenant.memory_limit_mib is not None and tenant.memory_used_mib > tenant.memory_limit_mib


def _overuse(gpu: gpunode.GPU, tenant: gpunode.Tenant, policy: packingpolicy.Spec | None) -> Overuse:
    evicts = policy is not None and policy.packing(gpu.model).memory_overuse is packingpolicy.MemoryOveruse.EVICT
    return Overuse(
        pod_uid=tenant.pod_uid,
        namespace=Namespace(tenant.namespace),
        pod=tenant.pod,
        gpu=gpu.uuid,
        used_mib=tenant.memory_used_mib,
        limit_mib=tenant.memory_limit_mib or 0,
        evict=evicts,
    )
