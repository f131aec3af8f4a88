"""What the agent tells about pods, when the API server takes it and when it does not, and whom it wants evicted."""

import asyncio
import logging
import random
from collections.abc import Callable

import pytest

from cotenant_api import gpunode
from cotenant_api.names import GPUUID, Namespace, PodUID
from cotenant_deviceplugin.kube import actions, cluster, manifests
from cotenant_deviceplugin.node import incidents
from cotenant_deviceplugin.node.watchdog import Overuse
from cotenant_deviceplugin.retry import Retry
from deviceplugin import fakes
from node_kit.whole_node import CONTAINER_UID

LOG = logging.getLogger("test")
UID = CONTAINER_UID.format(1)
SUBJECT = manifests.Subject(PodUID(UID), Namespace("team"), "train")
EVENTS = "/api/v1/namespaces/team/events"


def ignored(_: str) -> None:
    """Count nothing."""


def told(api: fakes.FakeCluster, asked: Callable[[str], None] = ignored) -> incidents.Incidents:
    clock = fakes.FakeClock()
    return incidents.Incidents(
        lambda uid: SUBJECT if uid == UID else None,
        events=actions.PodEvents(api, fakes.NODE, clock),
        retry=Retry(clock, random.Random(1), LOG),  # noqa: S311
        asked=asked,
    )


async def working(made: incidents.Incidents) -> None:
    task = asyncio.create_task(made.run())
    await fakes.settled()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_in_the_way_is_asked_for_once_with_its_reason_and_told() -> None:
    api, reasons, changes = fakes.FakeCluster(), list[str](), list[None]()
    made = told(api, reasons.append)
    made.changed = lambda: changes.append(None)
    for _ in range(2):
        made.blocking(GPUUID("GPU-1"), [PodUID(UID), PodUID("nobody")])
    await working(made)
    assert (reasons, len(changes), api.count("POST", EVENTS)) == ([incidents.BLOCKS], 1, 1)
    assert made.evict([PodUID(UID)]) == {UID: gpunode.EvictionReason.BLOCKS_RECOVERY}


async def test_a_pod_that_is_gone_is_asked_for_no_longer() -> None:
    made = told(fakes.FakeCluster())
    made.blocking(GPUUID("GPU-1"), [PodUID(UID)])
    assert made.evict([]) == {}
    assert made.evict([PodUID(UID)]) == {}


async def test_a_pod_may_stay_when_each_gpu_that_it_blocked_has_recovered() -> None:
    """An Eviction may wait for long: for a budget, or for an extender that is away."""
    changes = list[None]()
    made = told(fakes.FakeCluster())
    for gpu in ("GPU-1", "GPU-2"):
        made.blocking(GPUUID(gpu), [PodUID(UID)])
    made.changed = lambda: changes.append(None)
    made.recovered(GPUUID("GPU-1"))
    assert list(made.evict([PodUID(UID)])) == [UID]
    for _ in range(2):
        made.recovered(GPUUID("GPU-2"))
    assert (made.evict([PodUID(UID)]), len(changes)) == ({}, 1)
    made.blocking(GPUUID("GPU-2"), [PodUID(UID)])
    assert list(made.evict([PodUID(UID)])) == [UID]


async def test_a_pod_that_has_let_go_may_stay_while_another_one_blocks() -> None:
    changes = list[None]()
    made, other = told(fakes.FakeCluster()), PodUID("other")
    made.blocking(GPUUID("GPU-1"), [PodUID(UID), other])
    made.changed = lambda: changes.append(None)
    for _ in range(2):
        made.blocking(GPUUID("GPU-1"), [other], free=[PodUID(UID)])
    assert (made.evict([PodUID(UID)]), made.let_go, len(changes)) == ({}, frozenset({UID}), 1)
    made.blocking(GPUUID("GPU-1"), [PodUID(UID)])
    assert (list(made.evict([PodUID(UID)])), made.let_go) == ([UID], frozenset())


async def test_what_was_asked_of_a_pod_stands_until_it_is_known_to_hold_the_gpu_no_longer() -> None:
    made = told(fakes.FakeCluster())
    made.blocking(GPUUID("GPU-1"), [PodUID(UID)])
    made.blocking(GPUUID("GPU-1"), [])
    assert list(made.evict([PodUID(UID)])) == [UID]
    made.blocking(GPUUID("GPU-1"), [], free=[PodUID(UID)])
    assert made.evict([PodUID(UID)]) == {}


async def test_a_pod_that_an_earlier_agent_named_is_let_go_when_it_holds_the_gpu_no_longer() -> None:
    changes = list[None]()
    made = told(fakes.FakeCluster())
    made.changed = lambda: changes.append(None)
    for _ in range(2):
        made.blocking(GPUUID("GPU-1"), [], free=[PodUID(UID)])
    made.evict([PodUID(UID)])
    assert (made.let_go, len(changes)) == (frozenset({UID}), 1)


async def test_a_pod_that_blocks_another_gpu_stays_named() -> None:
    made = told(fakes.FakeCluster())
    for gpu in ("GPU-1", "GPU-2"):
        made.blocking(GPUUID(gpu), [PodUID(UID)])
    made.blocking(GPUUID("GPU-1"), [], free=[PodUID(UID)])
    assert list(made.evict([PodUID(UID)])) == [UID]


async def test_overuse_stands_though_the_gpu_recovers() -> None:
    made = told(fakes.FakeCluster())
    made.overused([overuse(evict=True)])
    made.blocking(GPUUID("GPU-1"), [PodUID(UID)])
    made.recovered(GPUUID("GPU-1"))
    assert made.evict([PodUID(UID)]) == {UID: gpunode.EvictionReason.MEMORY_OVERUSE}


async def test_a_pod_is_asked_for_whose_event_nobody_takes() -> None:
    api = fakes.FakeCluster()
    refused = cluster.RefusedError("403: the namespace is being terminated")
    api.faults.append(fakes.Fault("POST", EVENTS, refused))
    made = told(api)
    made.blocking(GPUUID("GPU-1"), [PodUID(UID)])
    await working(made)
    assert list(made.evict([PodUID(UID)])) == [UID]


def test_the_name_of_an_event_is_one_for_a_long_name_too() -> None:
    about = manifests.Subject(PodUID(UID), Namespace("team"), f"{'a' * (manifests.MAX_EVENT_STEM - 1)}-b")
    made = manifests.event(about, node=fakes.NODE, reason="Any", message="", now=fakes.START)
    assert made["metadata"]["name"].startswith(f"{'a' * (manifests.MAX_EVENT_STEM - 1)}.")


def overuse(*, evict: bool) -> Overuse:
    return Overuse(
        pod_uid=PodUID(UID),
        namespace=Namespace("team"),
        pod="train",
        gpu=GPUUID("G"),
        used_mib=2,
        limit_mib=1,
        evict=evict,
    )


async def test_overuse_without_eviction_is_only_told() -> None:
    api = fakes.FakeCluster()
    made = told(api)
    made.overused([overuse(evict=False)])
    await working(made)
    assert (made.evict([PodUID(UID)]), len(api.objects)) == ({}, 1)


async def test_culprit_and_victims_of_a_fault_are_told_apart() -> None:
    api = fakes.FakeCluster()
    made = told(api)
    made.faulted(GPUUID("G"), gpunode.Fault(id="1", time="t", xid=31, culprit_pod_uid=PodUID(UID)))
    await working(made)
    (event,) = api.objects.values()
    assert event["message"] == "caused a fatal fault of G (XID 31)"


async def test_nobody_is_told_to_be_innocent_of_a_fault_whose_cause_is_not_known() -> None:
    api, both = fakes.FakeCluster(), (PodUID(UID), PodUID("other"))
    made = told(api)
    made.faulted(GPUUID("G"), gpunode.Fault(id="1", time="t", victim_pod_uids=both, suspect_pod_uids=both))
    await working(made)
    (event,) = api.objects.values()
    assert event["message"] == "was on G when a fatal fault hit it; which of its tenants caused it is not known"


async def test_a_refusal_is_told_when_it_is_new() -> None:
    api = fakes.FakeCluster()
    made = told(api)
    refused = gpunode.Status(refused=(gpunode.Refused(pod_uid=PodUID(UID), reason="UnknownGPU: x"),))
    made.published(refused)
    made.published(refused)
    await working(made)
    assert api.count("POST", EVENTS) == 1


async def test_what_the_api_server_refuses_is_given_up_after_a_while() -> None:
    api = fakes.FakeCluster()
    api.down = cluster.RefusedError("403")
    clock = fakes.FakeClock()
    made = incidents.Incidents(
        lambda _: SUBJECT,
        events=actions.PodEvents(api, fakes.NODE, clock),
        retry=Retry(clock, random.Random(1), LOG),  # noqa: S311
        asked=ignored,
    )
    made.blocking(GPUUID("G"), [PodUID(UID)])
    task = asyncio.create_task(made.run())
    await clock.advance(60)
    assert api.count("POST", EVENTS) == incidents.ATTEMPTS
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_more_than_can_be_told_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    made = incidents.Incidents(
        lambda uid: manifests.Subject(uid, Namespace("team"), "p"),
        events=actions.PodEvents(fakes.FakeCluster(), fakes.NODE, fakes.FakeClock()),
        retry=Retry(fakes.FakeClock(), random.Random(1), LOG),  # noqa: S311
        asked=ignored,
    )
    made.blocking(GPUUID("G"), [PodUID(str(number)) for number in range(incidents.MAX_WAITING + 1)])
    assert caplog.text.count("left out") == 1
