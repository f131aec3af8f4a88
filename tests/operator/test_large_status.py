"""The status of the largest job that admission lets in fits into an object."""

import json
from datetime import UTC, datetime

from cotenant_api import placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_operator.state import views
from cotenant_operator.state.observed import GPU
from cotenant_operator.telling import replicas

REPLICAS, GPUS = 1024, 16
MIB = 2**20
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = "n" * 240


def pod(index: int) -> views.Pod:
    uuids = [GPUUID(f"GPU-{index:08d}-0000-0000-0000-{number:012d}") for number in range(GPUS)]
    booked = [
        placement.GPUBooking(uuid=uuid, share=50, active_thread_percentage=50, memory_mib=40960) for uuid in uuids
    ]
    node = NodeName(f"{LONG}-{index}")
    placed = placement.Placement(
        pod_uid=PodUID(str(index)),
        node=node,
        container="main",
        policy_generation=1,
        backend=placement.Backend.MPS,
        gpus=tuple(booked),
    )
    meta = views.Meta(
        key=views.Key("team", f"{'p' * 50}-{index}"),
        uid=str(index),
        version=1,
        generation=1,
        created=NOW,
        deleting=False,
        owner_uid="job",
        labels={},
    )
    return views.Pod(
        meta=meta,
        dljob_uid="dljob",
        attempt=1,
        index=index,
        node=node,
        placement=placed,
        phase="Running",
        ready=True,
        packed=None,
        unschedulable=None,
        scheduled_at=NOW,
        why=None,
    )


def test_the_replicas_of_the_largest_job_are_all_listed_and_fit_into_an_object() -> None:
    pods = [pod(index) for index in range(REPLICAS)]
    held = {PodUID(f"other-{number}"): f"{'t' * 60}/{'o' * 180}-{number}" for number in range(3)}
    gpus = {gpu.uuid: GPU(seen=None, holders=held) for each in pods if each.placement for gpu in each.placement.gpus}
    found = replicas.listed(pods, gpus)
    assert [one.index for one in found] == list(range(REPLICAS))
    assert [one.node for one in found] == [each.node for each in pods]
    assert len(found[0].gpus) == GPUS
    assert len(json.dumps([one.to_object() for one in found], separators=(",", ":"))) < MIB
