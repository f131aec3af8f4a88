"""What filter and prioritize answer."""

from typing import Any

import pytest

from cotenant_api import placement
from cotenant_api.names import NodeName
from cotenant_api.pod import PackedReason
from cotenant_extender import records, verbs
from cotenant_extender.ledger import ledger, views
from cotenant_extender.packing import placing
from extender import builders

Object = dict[str, Any]


def filtered(source: ledger.Ledger, raw: Object, *nodes: str) -> verbs.Filtered:
    return verbs.filter_nodes(source, records.pod_record(raw), [NodeName(name) for name in nodes])


def test_the_first_fit_among_the_offered_nodes_is_chosen_whatever_their_order() -> None:
    source, raw = earmarked("n0")
    found = filtered(source, raw, "n2", "n1")
    assert found.chosen == ("n1",)
    assert found.failed == {}


@pytest.mark.parametrize("leaves", verbs.Leaves)
def test_a_pod_that_the_queue_has_promised_nothing_waits_for_its_turn_on_every_node(leaves: verbs.Leaves) -> None:
    source = builders.cluster(nodes=2, gpus=1)
    builders.put(source, builders.pod("a", gates=()), builders.bound("b", 90, "n0", "GPU-n0-0"))
    found = verbs.filter_nodes(
        source, records.pod_record(builders.pod("a", gates=())), [NodeName("n0"), NodeName("n1")], leaves=leaves
    )
    assert found.chosen == ()
    assert found.reason is PackedReason.WAITING_FOR_TURN
    assert {reason.partition(":")[0] for reason in found.failed.values()} == {"WaitingForTurn"}


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


def scores(source: ledger.Ledger, raw: Object, *nodes: str) -> dict[str, int]:
    """What prioritize says of each node."""
    found = verbs.prioritize(source, records.pod_record(raw), [NodeName(name) for name in nodes])
    assert [name for name, _ in found] == list(nodes)
    return {str(name): score for name, score in found}


def all_filtered(source: ledger.Ledger, raw: Object, *nodes: str) -> verbs.Filtered:
    names = [NodeName(name) for name in nodes]
    return verbs.filter_nodes(source, records.pod_record(raw), names, leaves=verbs.Leaves.ALL)


def test_prioritize_puts_packings_choice_far_ahead_of_the_others_that_fit() -> None:
    source, raw = earmarked("n0", nodes=4)
    builders.put(source, builders.bound("b", 100, "n2", "GPU-n2-0"), builders.bound("c", 100, "n2", "GPU-n2-1"))
    found = scores(source, raw, "n2", "n1", "n3", "n0", "cpu-only")
    assert found == {"n2": 0, "n1": 4, "n3": 2, "n0": 10, "cpu-only": 0}


def test_prioritize_follows_the_placement_of_the_policy() -> None:
    source, raw = earmarked("n1", gpus=1, placement="BestFit")
    builders.put(source, builders.bound("b", 50, "n1", "GPU-n1-0"), builders.bound("c", 20, "n2", "GPU-n2-0"))
    found = scores(source, raw, "n0", "n1", "n2")
    assert found["n1"] == 10
    assert found["n2"] > found["n0"]


def earmarked(node: str, *, nodes: int = 3, **cluster: Any) -> tuple[ledger.Ledger, Object]:
    """A ledger of some nodes, and a pod that is promised a GPU of one of them."""
    source, raw = builders.cluster(nodes=nodes, **cluster), builders.pod("a", gates=())
    builders.put(source, raw)
    record = records.pod_record(raw)
    assert record.request is not None
    placed = placing.place(views.node(source, NodeName(node)), record.request, source.known)
    assert isinstance(placed, placement.Placement)
    source.earmark(record.uid, placed, now=builders.NOW)
    return source, raw


def test_an_earmark_is_packings_choice() -> None:
    source, raw = earmarked("n2")
    assert scores(source, raw, "n0", "n1", "n2") == {"n0": 5, "n1": 4, "n2": 10}
    assert filtered(source, raw, "n0", "n1", "n2").chosen == ("n2",)


def test_where_kube_scheduler_chooses_every_node_that_takes_the_pod_is_left_whatever_is_earmarked() -> None:
    source, raw = earmarked("n2")
    builders.put(source, builders.bound("b", 100, "n1", "GPU-n1-0"), builders.bound("c", 100, "n1", "GPU-n1-1"))
    found = all_filtered(source, raw, "n2", "n1", "n0", "cpu-only")
    assert found.chosen == ("n2", "n0")
    assert set(found.failed) == {"n1", "cpu-only"}
    assert found.failed[NodeName("n1")].startswith("InsufficientShare")
    assert found.reason is None


def test_where_no_node_takes_the_pod_all_are_rejected_in_the_same_words() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    builders.put(source, builders.bound("b", 90, "n0", "GPU-n0-0"))
    raw = builders.pod("a", gates=())
    assert all_filtered(source, raw, "n0", "cpu-only") == filtered(source, raw, "n0", "cpu-only")


def test_a_binding_whose_reply_was_lost_leaves_one_node_even_there() -> None:
    source, raw = earmarked("n2")
    placed = source.earmarks.get(records.pod_record(raw).uid)
    assert placed is not None
    source.reserve(records.pod_record(raw).uid, placed.placed)
    assert all_filtered(source, raw, "n0", "n1", "n2").chosen == ("n2",)


def test_nothing_is_scored_while_nothing_is_placed() -> None:
    assert scores(builders.cluster(paused=True), builders.pod("a", gates=()), "n0") == {"n0": 0}
