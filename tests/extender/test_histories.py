"""Random histories of the ledger and the queue; pods one by one, without a queue."""

import hypothesis
from hypothesis import strategies as st

from cotenant_api import booking, names, packingpolicy
from cotenant_extender import records
from cotenant_extender.packing import causes, placing
from extender import builders, histories

histories.Histories.TestCase.settings = hypothesis.settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = histories.Histories.TestCase


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    pods=st.lists(st.tuples(st.integers(1, 100), st.sampled_from(["team", "others"]), st.integers(1, 40)), max_size=30),
    placement=st.sampled_from(packingpolicy.Placement),
)
def test_a_pod_is_refused_only_where_no_gpu_takes_it(
    pods: list[tuple[int, str, int]], placement: packingpolicy.Placement
) -> None:
    source = builders.cluster(nodes=2, gpus=2, placement=placement)
    for number, (share, namespace, gib) in enumerate(pods):
        raw = builders.pod(f"p{number}", share, namespace=namespace, annotations={names.GPU_MEMORY: f"{gib}Gi"})
        record = records.pod_record(raw)
        assert record.request is not None
        assert source.policy is not None
        found = placing.place(source.seen(), record.request, source.known)
        takes = booking.memory_part(gib * 1024, 143771 * 95 // 100) <= share and any(
            gpu.share + share <= 100
            and gpu.booked_mib + gib * 1024 <= 143771 * 95 // 100
            and len(gpu.tenants) < 3
            and all(tenant.namespace == namespace for tenant in gpu.tenants)
            for node in source.seen().nodes
            for gpu in node.gpus
        )
        assert isinstance(found, causes.Rejection) is not takes
        if not isinstance(found, causes.Rejection):
            builders.put(source, raw)
            source.reserve(record.uid, found)
        else:
            assert sum(found.counts.values()) == 4
