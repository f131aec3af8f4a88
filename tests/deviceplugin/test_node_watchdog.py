"""Who uses more memory than was booked, and what follows."""

import pytest

from cotenant_api import gpunode, packingpolicy
from cotenant_api.names import GPUUID, GPUModel, PodUID
from cotenant_deviceplugin.node import watchdog

UID, GPU = PodUID("u"), GPUUID("GPU-1")
EVENT = packingpolicy.Spec()
EVICT = packingpolicy.Spec(memory_overuse=packingpolicy.MemoryOveruse.EVICT)


def gpu(used_mib: int, limit_mib: int | None = 1000, *, uuid: str = GPU) -> gpunode.GPU:
    tenant = gpunode.Tenant(
        pod_uid=UID, namespace="team", pod="train", memory_used_mib=used_mib, memory_limit_mib=limit_mib
    )
    return gpunode.GPU(
        uuid=GPUUID(uuid),
        index=0,
        model=GPUModel("Tesla-T4"),
        memory_mib=15360,
        health=gpunode.Health.HEALTHY,
        tenants=(tenant,),
    )


def watched(*samples: gpunode.GPU, policy: packingpolicy.Spec | None = EVENT) -> tuple[watchdog.Overuse, ...]:
    """What the last of the samples gives."""
    counts: watchdog.Counts = {}
    found: tuple[watchdog.Overuse, ...] = ()
    for sample in samples:
        counts, found = watchdog.watch(counts, (sample,), policy)
    return found


def test_a_pod_at_its_limit_is_left_alone() -> None:
    assert watched(gpu(1000), gpu(1000), gpu(1000)) == ()


def test_one_sample_is_not_believed() -> None:
    assert watched(gpu(1001)) == ()


def test_two_samples_in_a_row_are() -> None:
    (found,) = watched(gpu(1001), gpu(1200))
    assert (found.pod_uid, found.gpu, found.used_mib, found.limit_mib, found.evict) == (UID, GPU, 1200, 1000, False)
    assert found.message == "uses 1200 MiB of GPU-1, and 1000 MiB are booked"


def test_samples_must_be_in_a_row() -> None:
    assert watched(gpu(1001), gpu(900), gpu(1001)) == ()


def test_each_gpu_counts_alone() -> None:
    assert watched(gpu(1001), gpu(1001, uuid="GPU-2")) == ()


def test_a_pod_without_a_limit_has_none_to_exceed() -> None:
    assert watched(gpu(9000, None), gpu(9000, None)) == ()


def test_the_policy_says_whether_it_is_evicted() -> None:
    (found,) = watched(gpu(1001), gpu(1001), policy=EVICT)
    assert found.evict
    assert found.message.endswith("it is evicted, as the PackingPolicy says")


@pytest.mark.parametrize(("model", "evict"), [("Tesla-T4", True), ("NVIDIA-L4", False)])
def test_a_policy_may_differ_by_gpu_model(model: str, evict: bool) -> None:
    override = packingpolicy.Override(gpu_models=(GPUModel(model),), memory_overuse=packingpolicy.MemoryOveruse.EVICT)
    (found,) = watched(gpu(1001), gpu(1001), policy=packingpolicy.Spec(overrides=(override,)))
    assert found.evict is evict


def test_nobody_is_evicted_by_a_policy_that_is_not_known() -> None:
    (found,) = watched(gpu(1001), gpu(1001), policy=None)
    assert not found.evict
