"""What happened between two statuses, in one line each, for the log. Pure."""

from collections.abc import Iterator

from cotenant_api import conditions, gpunode


def between(old: gpunode.Status | None, new: gpunode.Status) -> tuple[str, ...]:
    """One line per change of readiness, GPU, tenant or refusal; usage is no change."""
    before = gpunode.Status() if old is None else old
    return (*_readiness(before, new), *_gpus(before, new), *_refusals(before, new))


def _readiness(old: gpunode.Status, new: gpunode.Status) -> Iterator[str]:
    was, ready = (conditions.find(status.conditions, gpunode.READY) for status in (old, new))
    if ready is not None and (was is None or (was.status, was.message) != (ready.status, ready.message)):
        yield f"Ready={ready.status} {ready.reason}: {ready.message}"


def _gpus(old: gpunode.Status, new: gpunode.Status) -> Iterator[str]:
    before = {gpu.uuid: gpu for gpu in old.gpus}
    for gpu in new.gpus:
        was = before.pop(gpu.uuid, None)
        if was is None or (was.health, was.mode) != (gpu.health, gpu.mode):
            reason = f" ({gpu.reason})" if gpu.reason else ""
            yield f"GPU {gpu.index} {gpu.uuid} {gpu.model} is {gpu.health}, mode {gpu.mode}{reason}"
        yield from _tenants(was, gpu)
    for gpu in before.values():
        yield f"GPU {gpu.index} {gpu.uuid} {gpu.model} is gone"


def _tenants(old: gpunode.GPU | None, new: gpunode.GPU) -> Iterator[str]:
    before = {tenant.pod_uid: tenant for tenant in (old.tenants if old else ())}
    for tenant in new.tenants:
        if before.pop(tenant.pod_uid, None) is None:
            yield f"GPU {new.index}: {tenant.namespace}/{tenant.pod} is a tenant ({len(new.tenants)} in all)"
    for tenant in before.values():
        yield f"GPU {new.index}: {tenant.namespace}/{tenant.pod} ended, memory peak {tenant.memory_peak_mib} MiB"


def _refusals(old: gpunode.Status, new: gpunode.Status) -> Iterator[str]:
    before = {refused.pod_uid: refused.reason for refused in old.refused}
    for refused in new.refused:
        if before.get(refused.pod_uid) != refused.reason:
            yield f"pod with UID {refused.pod_uid} is refused: {refused.reason}"
