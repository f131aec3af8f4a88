"""After etcd was restored from a snapshot: a list is believed, what is from before it is not."""

from typing import Any

import pytest

from api_server.server import Server
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records, steps
from cotenant_extender.kube import pods
from cotenant_extender.ledger import drift, ledger, lists
from extender import builders, running, virtual
from extender.builders import NOW
from extender.running import until

Object = dict[str, Any]
A = PodUID("uid-a")
BUMPS = (0, 10**9)


def booked(source: ledger.Ledger) -> dict[str, int]:
    return {gpu.uuid: gpu.share for node in source.seen().nodes for gpu in node.gpus if gpu.share}


def listed(source: ledger.Ledger, *raw: Object, version: int) -> None:
    """A list of all pods, with nothing learned while it is under way."""
    source.news_of_pods.begin()
    steps.finish(lists.pods(source, [records.pod_record(item) for item in raw], version=version, now=NOW))
    assert drift.differences(source) == []


def test_a_pod_that_a_list_has_in_an_older_version_is_as_the_list_has_it() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=90))
    listed(source, builders.pod("a", version=50), version=60)
    assert booked(source) == {}
    assert list(source.index.pending) == [A]


def test_a_pod_that_a_list_lacks_is_gone_although_its_version_is_above_the_lists() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", version=90))
    listed(source, version=60)
    assert source.pods == {}


@pytest.mark.parametrize("tenants", [{}, {0: ["a"]}])
def test_a_pod_that_was_deleted_and_is_in_a_list_again_is_back_and_counts_once(tenants: dict[int, list[str]]) -> None:
    source = builders.cluster()
    raw = builders.bound("a", 40, "n0", "GPU-n0-0", version=50)
    builders.put(source, raw)
    source.gpunode(records.gpunode_record(builders.gpunode("n0", tenants=tenants)), now=NOW)
    source.pod_gone(A)
    listed(source, raw, version=60)
    assert booked(source) == {"GPU-n0-0": 40}
    assert (source.graves.pods, source.graves.doubtful) == ({}, {})
    source.gpunode(records.gpunode_record(builders.gpunode("n0", version=2)), now=NOW, tells_of=source.graves.doubtful)
    assert booked(source) == {"GPU-n0-0": 40}


def test_a_pod_that_was_deleted_as_finished_and_is_back_running_explains_its_being_listed() -> None:
    source = builders.cluster()
    source.gpunode(records.gpunode_record(builders.gpunode("n0", tenants={0: ["a"]})), now=NOW)
    source.pod_gone(A, last=records.pod_record(builders.bound("a", 40, "n0", "GPU-n0-0", phase="Succeeded")))
    listed(source, builders.bound("a", 40, "n0", "GPU-n0-0"), version=60)
    assert booked(source) == {"GPU-n0-0": 40}
    assert not source.graves.has_finished(A)


def test_a_pod_that_is_back_without_asking_for_a_share_counts_no_more() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=90))
    source.pod_gone(A)
    listed(source, builders.pod("a", 0, version=50), version=60)
    assert booked(source) == {}
    assert source.pods == {}


def test_what_was_learned_while_a_list_was_under_way_and_is_younger_stays() -> None:
    source = builders.cluster()
    source.news_of_pods.begin()
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=90))
    builders.put(source, builders.bound("b", 30, "n0", "GPU-n0-1", version=91))
    steps.finish(lists.pods(source, [records.pod_record(builders.pod("b", 30, version=50))], version=60, now=NOW))
    assert booked(source) == {"GPU-n0-0": 40, "GPU-n0-1": 30}


def test_a_pod_that_went_while_a_list_was_under_way_does_not_come_back_with_it() -> None:
    source = builders.cluster()
    raw = builders.pod("a", version=50)
    builders.put(source, raw)
    source.news_of_pods.begin()
    source.pod_gone(A)
    steps.finish(lists.pods(source, [records.pod_record(raw)], version=60, now=NOW))
    assert source.pods == {}


@pytest.mark.parametrize("late", [51, 60])
def test_an_event_from_before_the_list_changes_nothing(late: int) -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("b", version=55))
    listed(source, builders.pod("a", version=50), version=60)
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=late))
    builders.put(source, builders.bound("b", 40, "n0", "GPU-n0-0", version=late))
    assert booked(source) == {}
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=61))
    assert booked(source) == {"GPU-n0-0": 40}


def test_after_a_list_with_a_lower_version_events_above_that_are_believed() -> None:
    source = builders.cluster()
    listed(source, builders.pod("a", version=890), version=900)
    listed(source, builders.pod("a", version=50), version=60)
    builders.put(source, builders.bound("a", 40, "n0", "GPU-n0-0", version=61))
    assert booked(source) == {"GPU-n0-0": 40}


def test_a_gpunode_that_a_list_has_in_an_older_version_is_as_the_list_has_it() -> None:
    source = builders.cluster()

    def told(version: int, **changes: Any) -> records.GPUNode:
        return records.gpunode_record(builders.gpunode("n0", version=version, **changes))

    source.gpunode(told(90, ready="False"), now=NOW)
    source.news_of_gpunodes.begin()
    steps.finish(lists.gpunodes(source, [told(50)], version=60, now=NOW))
    assert [node.closed for node in source.seen().nodes] == [None]
    source.gpunode(told(55, ready="False"), now=NOW)
    assert [node.closed for node in source.seen().nodes] == [None]
    source.news_of_gpunodes.begin()
    source.gpunode(told(70, ready="False"), now=NOW, tells_of=source.graves.doubtful)
    steps.finish(lists.gpunodes(source, [told(50)], version=65, now=NOW))
    assert [node.closed is None for node in source.seen().nodes] == [False]


async def _rewritten(server: Server, *, bump: int) -> None:
    """`kept` is there as in the snapshot, though it went since; `late` came since, and never was; `moved` waits again.

    Much else was written meanwhile, so that the version of the API server does not catch up soon.
    """
    server.put(pods.PODS, builders.bound("kept", 70, "n0", "GPU-n0-0", packed="Placed"))
    server.put(pods.PODS, builders.pod("moved", 60, priority=1))
    server.put(pods.NODES, builders.node("n0", unschedulable=True))
    saved = server.store.snapshot()
    await until(lambda: server.sent("PATCH", "moved/status") > 0, "told")
    server.remove(pods.PODS, "kept", "team")
    server.put(pods.PODS, builders.bound("late", 80, "n0", "GPU-n0-0", packed="Placed"))
    server.put(pods.PODS, builders.bound("moved", 60, "n0", "GPU-n0-1", packed="Placed"))
    for number in range(100):
        server.put(pods.NODES, builders.node("n0", labels={"count": str(number)}))
    await until(lambda: server.sent("GET", "gpunodes/n0") > 0, "that the pod is gone is confirmed")
    server.restore(saved, bump=bump)


@pytest.mark.parametrize("bump", BUMPS)
@virtual.time
async def test_a_whole_extender_takes_over_what_was_restored(bump: int) -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await rig.serving()
        await _rewritten(server, bump=bump)
        source = rig.extender.ledger
        await until(lambda: set(source.pods) == {"uid-kept", "uid-moved"}, "the pods of the snapshot")
        assert booked(source) == {"GPU-n0-0": 70}
        node = source.nodes[NodeName("n0")].record
        assert node is not None
        assert not node.schedulable
        server.put(pods.NODES, builders.node("n0"))
        await until(lambda: "schedulingGates" not in server.pod("moved")["spec"], "lifted")
        assert drift.differences(source) == []
