"""What a real node's agent remembers of Node, policy and other drivers, and what it does to pods."""

import asyncio
import logging
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant_api import errors, packingpolicy
from cotenant_api.names import Namespace, PodUID
from cotenant_deviceplugin import pods
from cotenant_deviceplugin.kube import actions, cluster, manifests, surroundings
from cotenant_deviceplugin.kube.reflector import Reflector
from cotenant_deviceplugin.retry import Retry
from deviceplugin import fakes

LOG = logging.getLogger("test")
SUBJECT = manifests.Subject(PodUID("uid-train"), Namespace("team"), "train")
POD = f"{fakes.POD_PATH}/train"
EVENTS = "/api/v1/namespaces/team/events"


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> None:
        """One more."""
        self.calls += 1


def retry(clock: fakes.FakeClock) -> Retry:
    return Retry(clock, random.Random(1), LOG)  # noqa: S311


# The Node


def node(runtime: str = "containerd://2.3.7", **allocatable: str) -> dict[str, Any]:
    return {"status": {"nodeInfo": {"containerRuntimeVersion": runtime}, "allocatable": allocatable}}


@pytest.mark.parametrize(
    ("allocatable", "offered"),
    [
        ({}, ()),
        ({"nvidia.com/gpu": "0", "cpu": "4", "cotenant.dev/gpu-share": "400"}, ()),
        ({"nvidia.com/gpu": "4"}, ("nvidia.com/gpu",)),
        ({"nvidia.com/gpu.shared": "40"}, ("nvidia.com/gpu.shared",)),
        ({"nvidia.com/mig-1g.10gb": "7"}, ("nvidia.com/mig-1g.10gb",)),
    ],
)
def test_what_nvidias_own_plugin_offers_is_seen(allocatable: dict[str, str], offered: tuple[str, ...]) -> None:
    store = surroundings.Node()
    store.replace([node(**allocatable)])
    assert (store.container_runtime, store.offered, store.synced) == ("containerd://2.3.7", offered, True)


def test_a_plugin_that_restarts_still_offers_what_it_is_going_to_offer_again() -> None:
    store, read = surroundings.Node(), node(**{"nvidia.com/gpu": "0"})
    read["status"]["capacity"] = {"nvidia.com/gpu": "4"}
    store.replace([read])
    assert store.offered == ("nvidia.com/gpu",)


def test_a_node_that_reads_the_same_is_no_change() -> None:
    store, counter = surroundings.Node(), Counter()
    store.changed = counter.count
    store.replace([node()])
    store.apply("MODIFIED", node())
    store.apply("MODIFIED", node("containerd://2.4.0"))
    store.apply("DELETED", node())
    assert (counter.calls, store.container_runtime) == (3, None)


# ResourceSlices


def piece(name: str, driver: str = "gpu.nvidia.com", devices: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"driver": driver, "devices": [{}] * devices}}


def test_slices_of_nvidias_driver_are_seen_while_they_offer_a_device() -> None:
    store = surroundings.Slices()
    store.replace([piece("a"), piece("b", driver="compute-domain.nvidia.com"), piece("c", devices=0)])
    assert store.offer()
    store.apply("DELETED", piece("a"))
    assert not store.offer()
    store.apply("ADDED", piece("d"))
    assert store.offer()
    store.apply("MODIFIED", piece("d", devices=0))
    assert not store.offer()


async def test_an_api_server_without_slices_has_none_and_is_asked_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, api, store = fakes.FakeClock(), fakes.FakeCluster(), surroundings.Slices()
    selection = cluster.nvidia_slices_of(fakes.NODE)
    api.faults.append(fakes.Fault("LIST", selection.path, cluster.NotFoundError("404")))
    reflector = Reflector("slices", selection, store, may_be_absent=True)
    task = asyncio.create_task(reflector.follow(api, retry(clock)))
    await fakes.settled()
    assert (store.synced, store.offer(), caplog.text) == (True, False, "")
    await clock.advance(301)
    assert api.count("LIST", selection.path) == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# The policy


def policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "default", "generation": 1}, "spec": spec}


def test_nothing_is_known_of_a_policy_before_it_was_looked_for() -> None:
    assert surroundings.Policy(LOG).spec is None


def test_without_a_policy_its_defaults_are_in_force() -> None:
    store = surroundings.Policy(LOG)
    store.replace([])
    assert store.spec == packingpolicy.Spec()


def test_a_policy_is_followed_and_told_when_it_changes() -> None:
    store, counter = surroundings.Policy(LOG), Counter()
    store.changed = counter.count
    store.replace([policy(mode="Observe")])
    store.apply("MODIFIED", policy(mode="Observe"))
    assert (store.spec and store.spec.mode, counter.calls) == (packingpolicy.Mode.OBSERVE, 1)


def test_a_policy_that_is_deleted_stays_in_force() -> None:
    store = surroundings.Policy(LOG)
    store.replace([policy(mode="Observe")])
    store.apply("DELETED", policy(mode="Observe"))
    store.replace([])
    assert store.spec is not None
    assert store.spec.mode is packingpolicy.Mode.OBSERVE


def test_a_policy_that_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    store = surroundings.Policy(LOG)
    store.replace([policy(mode="Observe")])
    store.apply("MODIFIED", policy(mode="Guess"))
    assert store.spec is not None
    assert store.spec.mode is packingpolicy.Mode.OBSERVE
    assert "cannot be read" in caplog.text


# Pods


async def test_a_pod_is_read_as_it_stands_now() -> None:
    api = fakes.FakeCluster()
    api.put(POD, fakes.pod(fakes.PodSpec()))
    bound = await actions.FreshPods(api, fakes.NODE).read(Namespace("team"), "train")
    assert bound is not None
    assert (bound.uid, bound.node, bound.ends_at) == ("uid-train", fakes.NODE, None)


async def test_a_pod_that_is_gone_is_none() -> None:
    assert await actions.FreshPods(fakes.FakeCluster(), fakes.NODE).read(Namespace("team"), "train") is None


@pytest.mark.parametrize(
    "error", [cluster.RefusedError("403"), errors.TemporaryError("the API server cannot be reached", delay_seconds=0)]
)
async def test_a_pod_that_cannot_be_read_is_never_taken_for_gone(error: errors.CotenantError) -> None:
    api = fakes.FakeCluster()
    api.faults.append(fakes.Fault("GET", POD, error))
    with pytest.raises(errors.TemporaryError):
        await actions.FreshPods(api, fakes.NODE).read(Namespace("team"), "train")


async def test_all_pods_of_the_node_are_read_afresh() -> None:
    api = fakes.FakeCluster()
    api.put(POD, fakes.pod(fakes.PodSpec()))
    api.put(f"{fakes.POD_PATH}/plain", {"metadata": {"name": "plain"}, "spec": {"nodeName": fakes.NODE}})
    assert [bound.name for bound in await actions.FreshPods(api, fakes.NODE).bound()] == ["train"]


async def test_pods_that_may_not_be_listed_are_a_temporary_matter() -> None:
    api = fakes.FakeCluster()
    api.faults.append(fakes.Fault("LIST", "/api/v1/pods", cluster.RefusedError("403")))
    with pytest.raises(errors.TemporaryError):
        await actions.FreshPods(api, fakes.NODE).bound()


def test_a_pod_that_is_being_deleted_says_when_it_is_killed() -> None:
    manifest = fakes.pod(fakes.PodSpec())
    manifest["metadata"] |= {"deletionTimestamp": "2026-03-01T12:00:30Z", "deletionGracePeriodSeconds": 20}
    bound = pods.read(manifest)
    assert bound is not None
    assert (bound.ends_at, bound.grace_seconds) == (datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC), 20)


async def test_an_event_names_the_pod_and_is_created_once() -> None:
    api = fakes.FakeCluster()
    events = actions.PodEvents(api, fakes.NODE, fakes.FakeClock())
    for _ in range(2):
        await events.tell(SUBJECT, reason="GPUMemoryOveruse", message="m" * 2000)
    assert api.count("POST", EVENTS) == 1
    (made,) = (value for path, value in api.objects.items() if path.startswith(EVENTS))
    assert made["involvedObject"]["uid"] == "uid-train"
    assert made["source"]["host"] == fakes.NODE
    assert (made["reason"], len(made["message"]), made["type"]) == ("GPUMemoryOveruse", 1024, "Warning")


async def test_an_event_of_an_earlier_agent_is_not_told_again() -> None:
    api = fakes.FakeCluster()
    for _ in range(2):
        await actions.PodEvents(api, fakes.NODE, fakes.FakeClock()).tell(SUBJECT, reason="R", message="m")
    assert len([path for path in api.objects if path.startswith(EVENTS)]) == 1


async def test_other_reasons_and_other_pods_of_the_name_are_told_too() -> None:
    api = fakes.FakeCluster()
    events = actions.PodEvents(api, fakes.NODE, fakes.FakeClock())
    again = manifests.Subject(PodUID("uid-2"), SUBJECT.namespace, SUBJECT.name)
    for about, reason in ((SUBJECT, "R"), (SUBJECT, "S"), (again, "R")):
        await events.tell(about, reason=reason, message="m")
    assert len([path for path in api.objects if path.startswith(EVENTS)]) == 3


async def test_only_the_latest_events_are_remembered() -> None:
    api = fakes.FakeCluster()
    events = actions.PodEvents(api, fakes.NODE, fakes.FakeClock())
    for number in range(actions.TOLD_LIMIT + 1):
        await events.tell(SUBJECT, reason=f"R{number}", message="m")
    await events.tell(SUBJECT, reason="R0", message="m")
    assert api.count("POST", EVENTS) == actions.TOLD_LIMIT + 2


def test_the_name_of_an_event_fits() -> None:
    long = manifests.Subject(PodUID("u"), Namespace("team"), "x" * 253)
    made = manifests.event(long, node=fakes.NODE, reason="R", message="m", now=fakes.START)
    assert len(made["metadata"]["name"]) <= 253
