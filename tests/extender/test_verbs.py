"""What filter and prioritize answer."""

from typing import Any

from cotenant_api.names import NodeName
from cotenant_api.pod import PackedReason
from cotenant_extender import records, verbs
from cotenant_extender.ledger import ledger
from extender import builders

Object = dict[str, Any]


def filtered(source: ledger.Ledger, raw: Object, *nodes: str) -> verbs.Filtered:
    return verbs.filter_nodes(source, records.pod_record(raw), [NodeName(name) for name in nodes])


def test_the_first_fit_among_the_offered_nodes_is_chosen_whatever_their_order() -> None:
    found = filtered(builders.cluster(nodes=3), builders.pod("a", gates=()), "n2", "n1")
    assert found.chosen == ("n1",)
    assert found.failed == {"n2": "packing chose n1"}


def test_every_node_is_rejected_with_its_own_reason() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    builders.put(source, builders.bound("b", 90, "n0", "GPU-n0-0"))
    builders.put(source, *(builders.bound(f"c{i}", 10, "n1", "GPU-n1-0") for i in range(3)))
    found = filtered(source, builders.pod("a", gates=()), "n0", "n1", "cpu-only")
    assert found == verbs.Filtered(
        (),
        {
            NodeName("n0"): "InsufficientShare: 1 GPU lacks share",
            NodeName("n1"): "TenantLimit: 1 GPU holds as many jobs as it may",
            NodeName("cpu-only"): "InsufficientShare: the node has no GPUNode",
        },
        PackedReason.TENANT_LIMIT,
    )


def test_without_candidates_nothing_is_chosen() -> None:
    assert filtered(builders.cluster(), builders.pod("a", gates=())).chosen == ()


def test_a_pod_without_share_passes_everywhere() -> None:
    found = filtered(builders.cluster(paused=True), builders.pod("a", 0), "n0", "other")
    assert found == verbs.Filtered((NodeName("n0"), NodeName("other")), {}, None)


def test_while_nothing_is_placed_every_node_is_rejected_with_the_policy() -> None:
    found = filtered(builders.cluster(mode="Observe"), builders.pod("a", gates=()), "n0")
    assert found.chosen == ()
    assert "mode Observe" in found.failed[NodeName("n0")]


def test_an_unreadable_request_is_rejected_with_what_is_wrong() -> None:
    raw = builders.pod("a", gates=(), annotations={"cotenant.dev/gpu-memory": "x"})
    found = filtered(builders.cluster(), raw, "n0")
    assert found.reason is PackedReason.INVALID_REQUEST
    assert "cotenant.dev/gpu-memory" in found.failed[NodeName("n0")]


def test_prioritize_prefers_what_filter_would_choose_then_what_fits() -> None:
    source = builders.cluster(nodes=3)
    builders.put(source, builders.bound("b", 100, "n2", "GPU-n2-0"), builders.bound("c", 100, "n2", "GPU-n2-1"))
    record = records.pod_record(builders.pod("a", gates=()))
    names = [NodeName(name) for name in ("n2", "n1", "n0")]
    assert verbs.prioritize(source, record, names) == [("n2", 0), ("n1", 1), ("n0", 10)]
