"""What counts where, and when it ends."""

from dataclasses import replace
from typing import Any

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import feed, podreports, records, steps
from cotenant_extender.ledger import claims, drift, earmarks, ledger, lists, views
from cotenant_extender.packing.causes import Cause
from extender import builders
from extender.builders import NOW

Object = dict[str, Any]


def booked(source: ledger.Ledger) -> dict[str, int]:
    return {gpu.uuid: gpu.share for node in source.seen().nodes for gpu in node.gpus if gpu.share}


def closed(source: ledger.Ledger) -> list[Cause | None]:
    return [node.closed or gpu.closed for node in source.seen().nodes for gpu in node.gpus]


def listing(source: ledger.Ledger, name: str, **tenants: list[str]) -> None:
    by_index = {int(key[1:]): pods for key, pods in tenants.items()}
    source.gpunode(records.gpunode_record(builders.gpunode(name, tenants=by_index)), now=NOW)


def earmarked(source: ledger.Ledger, raw: Object) -> earmarks.Earmark:
    builders.put(source, raw)
    record = source.pods[PodUID(raw["metadata"]["uid"])]
    return source.earmark(record.uid, builders.place(source, record), now=NOW)


def test_an_event_twice_counts_once() -> None:
    source = builders.cluster()
    builders.put(source, *[builders.bound("a", 40, "n0", "GPU-n0-0")] * 2)
    assert booked(source) == {"GPU-n0-0": 40}
    assert drift.differences(source) == []


def test_an_event_that_is_older_than_what_is_known_changes_nothing() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=7), builders.pod("a", version=6))
    assert booked(source) == {"GPU-n0-0": 40}


def test_a_late_event_of_a_deleted_pod_does_not_bring_it_back() -> None:
    source = builders.cluster()
    raw = builders.bound("a", 40, "n0", "GPU-n0-0")
    builders.put(source, raw)
    source.node_gone(NodeName("n0"))
    source.pod_gone(PodUID("uid-a"))
    builders.put(source, raw)
    assert booked(source) == {}


def test_a_finished_pod_counts_no_more_although_its_agent_lists_it() -> None:
    source = builders.cluster()
    listing(source, "n0", g0=["a"])
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", phase="Succeeded", version=2))
    assert booked(source) == {}
    assert closed(source) == [None, None]


def test_a_pod_that_finished_and_is_gone_closes_nothing_while_its_agent_lists_it() -> None:
    source = builders.cluster()
    listing(source, "n0", g0=["a"])
    raw = builders.bound("a", 40, "n0", "GPU-n0-0", phase="Failed")
    source.pod_gone(PodUID("uid-a"), last=records.pod_record(raw))
    assert closed(source) == [None, None]
    listing(source, "n0")
    assert not source.graves.has_finished(PodUID("uid-a"))


def test_a_vanished_pod_counts_until_its_agent_lists_it_no_longer() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    listing(source, "n0", g0=["a"])
    source.pod_gone(PodUID("uid-a"))
    assert booked(source) == {"GPU-n0-0": 40}
    assert closed(source) == [None, None]
    assert drift.differences(source) == []
    listing(source, "n0")
    assert booked(source) == {}


def test_a_vanished_pod_that_was_not_listed_counts_until_its_gpunode_has_been_read() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.pod_gone(PodUID("uid-a"))
    listing(source, "n0")
    assert booked(source) == {"GPU-n0-0": 40}
    assert source.graves.doubtful == {"uid-a": "n0"}
    source.gpunode(records.gpunode_record(builders.gpunode("n0")), now=NOW, tells_of=source.graves.doubtful)
    assert booked(source) == {}
    assert source.graves.doubtful == {}


def test_a_gpunode_that_was_read_and_lists_a_vanished_pod_keeps_it() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.pod_gone(PodUID("uid-a"))
    read = builders.gpunode("n0", tenants={0: ["a"]}, version=9)
    source.gpunode(records.gpunode_record(read), now=NOW, tells_of=source.graves.doubtful)
    assert booked(source) == {"GPU-n0-0": 40}
    older = builders.gpunode("n0", version=8)
    source.gpunode(records.gpunode_record(older), now=NOW)
    assert booked(source) == {"GPU-n0-0": 40}
    ended = builders.gpunode("n0", version=10)
    source.gpunode(records.gpunode_record(ended), now=NOW)
    assert booked(source) == {}


def test_a_gpunode_that_was_asked_for_before_a_pod_vanished_tells_nothing_of_it() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"), builders.bound("b", 30, "n0", "GPU-n0-0"))
    source.pod_gone(PodUID("uid-a"))
    asked = source.graves.doubtful_on(NodeName("n0"))
    source.pod_gone(PodUID("uid-b"))
    source.gpunode(records.gpunode_record(builders.gpunode("n0", version=9)), now=NOW, tells_of=asked)
    assert booked(source) == {"GPU-n0-0": 30}


def test_a_list_of_gpunodes_that_was_asked_for_before_a_pod_vanished_tells_nothing_of_it() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"), builders.bound("b", 30, "n0", "GPU-n0-0"))
    source.pod_gone(PodUID("uid-a"))
    gpunodes = feed.GPUNodes(source, lambda: NOW, lambda: None)
    gpunodes.asked()
    source.pod_gone(PodUID("uid-b"))
    steps.finish(gpunodes.take([records.gpunode_record(builders.gpunode("n0", version=9))], 9))
    assert booked(source) == {"GPU-n0-0": 30}


def test_a_gpunode_that_is_older_than_what_is_known_tells_nothing_of_a_vanished_pod() -> None:
    source = builders.cluster()
    source.gpunode(records.gpunode_record(builders.gpunode("n0", version=100)), now=NOW)
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.pod_gone(PodUID("uid-a"))
    # After etcd was restored, before the watch lists again: the agent lists it in what is an old version by now.
    restored = records.gpunode_record(builders.gpunode("n0", tenants={0: ["a"]}, version=50))
    source.gpunode(restored, now=NOW, tells_of=source.graves.doubtful)
    assert booked(source) == {"GPU-n0-0": 40}


def test_an_event_that_a_gpunode_is_gone_tells_nothing_of_a_pod_that_was_listed_in_the_next_one() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.pod_gone(PodUID("uid-a"))
    source.gpunode_gone(NodeName("n0"))
    assert list(source.claims) == ["uid-a"]
    source.gpunode_gone(NodeName("n0"), tells_of=source.graves.doubtful_on(NodeName("n0")))
    assert list(source.claims) == []


def test_a_vanished_pod_ends_with_its_node() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    listing(source, "n0", g0=["a"])
    source.pod_gone(PodUID("uid-a"))
    source.node_gone(NodeName("n0"))
    assert booked(source) == {}
    assert closed(source) == [Cause.NODE_GONE, Cause.NODE_GONE]


def test_a_pod_that_a_list_lacks_is_gone_unless_it_is_younger_than_the_list() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=5))
    builders.put(source, builders.bound("b", 30, "n0", "GPU-n0-0", version=9))
    steps.finish(lists.pods(source, [], version=7, now=NOW))
    source.gpunode(records.gpunode_record(builders.gpunode("n0")), now=NOW, tells_of=source.graves.doubtful)
    assert booked(source) == {"GPU-n0-0": 30}


def test_nodes_that_a_list_lacks_are_gone() -> None:
    source = builders.cluster(nodes=2)
    steps.finish(lists.nodes(source, [records.node_record(builders.node("n1"))]))
    assert closed(source) == [Cause.NODE_GONE, Cause.NODE_GONE, None, None]
    steps.finish(lists.gpunodes(source, [records.gpunode_record(builders.gpunode("n1"))], version=1, now=NOW))
    assert [node.name for node in source.seen().nodes] == ["n1"]
    assert list(source.nodes) == ["n1"]


def test_a_missing_lease_closes_a_node_and_its_return_opens_it() -> None:
    source = builders.cluster()
    steps.finish(lists.leases(source, {}, now=NOW))
    assert closed(source) == [Cause.AGENT_SILENT] * 2
    source.lease(NodeName("n0"), NOW, now=NOW)
    assert closed(source) == [None, None]


def test_an_earmark_counts_and_is_left_out_for_its_own_pod() -> None:
    source = builders.cluster()
    earmarked(source, builders.pod("a"))
    assert booked(source) == {"GPU-n0-0": 40}
    with views.without(source, PodUID("uid-a")) as own:
        assert [gpu.share for node in own.nodes for gpu in node.gpus] == [0, 0]
        assert own.free.tolist() == [[100, 100]]
        assert own.free_share.tolist() == [200]
    assert source.seen().free.tolist() == [[60, 100]]


def test_a_bound_pod_needs_its_earmark_no_more() -> None:
    source = builders.cluster()
    earmarked(source, builders.pod("a"))
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-1", version=2))
    assert booked(source) == {"GPU-n0-1": 40}
    assert len(source.earmarks) == 0


def test_an_earmark_ends_when_its_pod_is_deleted() -> None:
    source = builders.cluster()
    earmarked(source, builders.pod("a"))
    builders.put(source, builders.pod("a", deleting=True, version=2))
    assert booked(source) == {}


def test_an_earmark_ends_when_kube_scheduler_finds_no_node_and_the_pod_waits_longer_each_time() -> None:
    source = builders.cluster()
    delays = []
    for attempt in range(3):
        earmarked(source, builders.pod("a", version=10 * attempt + 1, unschedulable=None))
        raw = builders.pod("a", gates=(), version=10 * attempt + 2, unschedulable=f"port {attempt}")
        builders.put(source, raw)
        assert booked(source) == {}
        setback = source.earmarks.setback(PodUID("uid-a"))
        assert setback is not None
        delays.append(setback.until - NOW)
    assert delays == [2.0, 4.0, 8.0]


def test_a_report_that_stood_before_the_earmark_does_not_end_it_and_after_it_was_taken_back_an_equal_one_does() -> None:
    source = builders.cluster()
    raw = builders.pod("a", gates=(), unschedulable="no port")
    earmarked(source, raw)
    builders.put(source, raw | {"metadata": raw["metadata"] | {"resourceVersion": "2"}})
    assert booked(source) == {"GPU-n0-0": 40}
    builders.put(source, builders.pod("a", gates=(), version=3, unschedulable=podreports.TAKEN_BACK))
    assert booked(source) == {"GPU-n0-0": 40}
    builders.put(source, builders.pod("a", gates=(), version=4, unschedulable="no port"))
    assert booked(source) == {}


def test_every_earmark_of_a_pod_is_written_differently() -> None:
    source = builders.cluster()
    first = earmarked(source, builders.pod("a"))
    noted = builders.pod("a", gates=(), version=2, annotations={"cotenant.dev/earmark": first.note().to_json()})
    source.end_earmark(PodUID("uid-a"))
    second = earmarked(source, noted)
    assert second.placed == first.placed
    assert second.note().to_json() != first.note().to_json()


def test_a_reservation_stands_until_its_pod_is_seen_bound() -> None:
    source = builders.cluster()
    earmark = earmarked(source, builders.pod("a"))
    source.reserve(PodUID("uid-a"), earmark.placed)
    source.end_all_earmarks()
    builders.put(source, builders.pod("a", version=2))
    assert source.claims[PodUID("uid-a")].kind is claims.Kind.RESERVED
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=3))
    assert source.claims[PodUID("uid-a")].kind is claims.Kind.BOUND
    assert source.reserved == {}


def test_a_pod_that_is_gone_while_its_binding_was_in_flight_counts_if_an_agent_lists_it() -> None:
    source = builders.cluster()
    earmark = earmarked(source, builders.pod("a"))
    source.reserve(PodUID("uid-a"), earmark.placed)
    listing(source, "n0", g0=["a"])
    source.pod_gone(PodUID("uid-a"))
    assert booked(source) == {"GPU-n0-0": 40}


def test_a_changed_policy_holds_from_the_next_view_on() -> None:
    source = builders.cluster(maxUtilizationPercent=200)
    notes = {"cotenant.dev/prediction": builders.prediction(h200=(80.0, 1000, 60))}
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", annotations=notes))
    assert booked(source) == {"GPU-n0-0": 40}
    source.policy_changed(builders.in_force(generation=2, maxUtilizationPercent=100))
    assert booked(source) == {"GPU-n0-0": 80}
    assert drift.differences(source) == []


def test_a_finished_pod_that_is_deleted_after_its_node_closes_nothing() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    listing(source, "n0", g0=["a"])
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", phase="Failed", version=2))
    source.node_gone(NodeName("n0"))
    source.pod_gone(PodUID("uid-a"))
    assert drift.differences(source) == []
    source.node(records.node_record(builders.node("n0")))
    assert closed(source) == [None, None]


def test_an_event_that_changes_nothing_of_a_claim_writes_no_row() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    before = source.seen().versions.copy()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=2))
    assert source.seen().versions.tolist() == before.tolist()


def test_the_drift_check_finds_a_sum_that_is_wrong() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    source.nodes[NodeName("n0")].share += 1
    found = drift.differences(source)
    assert len(found) == 1
    assert "n0" in found[0]


def test_a_pod_of_no_share_counts_while_it_is_bound_alone() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", 0))
    assert source.pods == {}
    builders.put(source, builders.pod("a", 0, node="n0"))
    assert source.nodes[NodeName("n0")].cpu_millis == 100
    source.pod_gone(PodUID("uid-a"))
    assert source.nodes[NodeName("n0")].cpu_millis == 0


def test_a_tenant_on_another_gpu_than_its_placement_says_closes_that_gpu() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0"))
    listing(source, "n0", g1=["a"])
    assert closed(source) == [None, Cause.UNEXPLAINED]


def test_the_last_state_in_a_deletion_counts_more_than_what_was_known() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a"))
    listing(source, "n0", g0=["a"])
    last = records.pod_record(builders.bound("a", 40, "n0", "GPU-n0-0", version=3))
    source.pod_gone(PodUID("uid-a"), last=replace(last, version=3))
    assert booked(source) == {"GPU-n0-0": 40}
