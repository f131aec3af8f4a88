"""What of all news makes the queue look again: its passes follow `version`."""

from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from extender import builders
from extender.builders import NOW


def wakes(source: ledger.Ledger, raw: dict[str, object]) -> bool:
    """Whether a pod as it is now makes the queue look again."""
    before = source.version
    builders.put(source, raw)
    return source.version != before


def test_a_pod_that_begins_to_wait_or_waits_otherwise_wakes_the_queue() -> None:
    source = builders.cluster()
    assert wakes(source, builders.pod("a"))
    assert wakes(source, builders.pod("a", priority=1, version=2))


def test_news_that_say_nothing_of_why_a_pod_waits_wake_nobody() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a"))
    assert not wakes(source, builders.pod("a", version=2))
    assert not wakes(source, builders.pod("a", version=3, packed="InsufficientShare"))


def test_a_pod_that_is_bound_wakes_nobody() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a"))
    assert not wakes(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=2))


def test_a_gate_that_goes_wakes_nobody_for_whom_gpus_are_promised() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a"))
    source.earmark(PodUID("uid-a"), builders.place(source, source.pods[PodUID("uid-a")]), now=NOW)
    assert not wakes(source, builders.pod("a", gates=(), version=2))


def test_a_gpunode_wakes_the_queue_where_it_opens_or_closes_gpus() -> None:
    source = builders.cluster()
    before = source.version
    source.gpunode(records.gpunode_record(builders.gpunode("n0", version=2)), now=NOW)
    assert source.version == before
    source.gpunode(records.gpunode_record(builders.gpunode("n0", version=3, gpu={"health": "Unhealthy"})), now=NOW)
    assert source.version != before


def test_a_node_that_comes_or_goes_is_other_equipment() -> None:
    source = builders.cluster()
    seen = [source.equipment]
    source.node(records.node_record(builders.node("n9")))
    seen.append(source.equipment)
    source.node_gone(NodeName("n9"))
    seen.append(source.equipment)
    source.gpunode_gone(NodeName("n0"))
    seen.append(source.equipment)
    assert len(set(seen)) == len(seen)
