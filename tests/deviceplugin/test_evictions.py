"""Whom the agent wants evicted, as its GPUNode tells it."""

from datetime import timedelta

import pytest

from cotenant_api import gpunode, placement
from cotenant_api.names import GPUUID, GPUModel, Namespace, PodUID
from cotenant_deviceplugin.publishing import status, tenants
from deviceplugin import fakes

UID = PodUID("uid-train")
OVERUSE, BLOCKS = gpunode.EvictionReason.MEMORY_OVERUSE, gpunode.EvictionReason.BLOCKS_RECOVERY


def gpu(*uids: str, evict: gpunode.EvictionReason | None = None) -> gpunode.GPU:
    listed = tuple(gpunode.Tenant(pod_uid=PodUID(uid), namespace="team", pod=uid, evict=evict) for uid in uids)
    return gpunode.GPU(
        uuid=GPUUID("GPU-1"),
        index=0,
        model=GPUModel("Tesla-T4"),
        memory_mib=15360,
        health=gpunode.Health.HEALTHY,
        tenants=listed,
    )


def test_who_ended_is_told_of_with_the_reason() -> None:
    (ended,) = tenants.with_ended(gpu(), gpu(UID, evict=OVERUSE), fakes.START).ended
    assert ended.evict is OVERUSE


@pytest.mark.parametrize(
    ("before", "asked", "serves", "then"),
    [
        (None, None, False, None),
        (None, BLOCKS, False, BLOCKS),
        (BLOCKS, None, False, BLOCKS),
        (BLOCKS, None, True, None),
        (BLOCKS, BLOCKS, True, BLOCKS),
        (OVERUSE, None, True, OVERUSE),
        (OVERUSE, BLOCKS, False, OVERUSE),
        (OVERUSE, BLOCKS, True, OVERUSE),
        (BLOCKS, OVERUSE, False, BLOCKS),
        (BLOCKS, OVERUSE, True, OVERUSE),
    ],
)
def test_who_was_to_go_stays_named_also_after_a_restart_until_the_gpu_serves_if_that_was_why(
    before: gpunode.EvictionReason | None,
    asked: gpunode.EvictionReason | None,
    serves: bool,
    then: gpunode.EvictionReason | None,
) -> None:
    old = gpu(UID, evict=before)
    evict = tenants.to_evict({} if asked is None else {UID: asked}, old, serves=serves)
    booked = placement.Placement.from_object(fakes.placement(fakes.PodSpec()), source="test")
    holder = tenants.Holder(uid=UID, namespace=Namespace("team"), pod="train", booked=booked)
    (told,) = tenants.tenants([(holder, holder.booked.gpus[0])], {}, old, alone={}, evict=evict)
    assert told.evict is then


@pytest.mark.parametrize(("before", "then"), [(BLOCKS, {}), (OVERUSE, {UID: OVERUSE})])
def test_who_has_let_go_is_named_no_longer_though_the_gpu_does_not_serve(
    before: gpunode.EvictionReason, then: dict[PodUID, gpunode.EvictionReason]
) -> None:
    assert tenants.to_evict({}, gpu(UID, evict=before), serves=False, let_go={UID}) == then


def test_that_somebody_should_go_is_written_at_once() -> None:
    old, new = (gpunode.Status(gpus=(gpu(UID, evict=reason),)) for reason in (None, OVERUSE))
    now = fakes.START + timedelta(seconds=1)
    assert status.worth_writing(old, new, last_written=fakes.START, now=now)
