"""What an agent remembers of pods and of its GPUNode."""

import logging

import pytest

from cotenant_deviceplugin.kube import manifests, stores
from deviceplugin import fakes


@pytest.fixture
def changes() -> list[str]:
    return []


@pytest.fixture
def store(changes: list[str]) -> stores.Pods:
    made = stores.Pods()
    made.changed = lambda: changes.append("changed")
    made.replace([fakes.pod(fakes.PodSpec())])
    changes.clear()
    return made


def test_a_repeated_event_is_no_change(store: stores.Pods, changes: list[str]) -> None:
    store.apply("MODIFIED", fakes.pod(fakes.PodSpec()))
    assert changes == []


def test_a_pod_that_asks_for_no_share_is_no_change(store: stores.Pods, changes: list[str]) -> None:
    other = {"metadata": {"uid": "other"}, "spec": {"containers": [{"name": "main"}]}}
    for kind in ("ADDED", "DELETED"):
        store.apply(kind, other)
    assert changes == []


def test_the_same_list_is_no_change(store: stores.Pods, changes: list[str]) -> None:
    store.replace([fakes.pod(fakes.PodSpec())])
    assert changes == []


def test_a_list_without_a_pod_forgets_it(store: stores.Pods, changes: list[str]) -> None:
    store.replace([])
    assert (store.all(), changes) == ((), ["changed"])


def test_an_empty_first_list_is_a_change() -> None:
    changes: list[str] = []
    made = stores.Pods()
    made.changed = lambda: changes.append("changed")
    made.replace([])
    assert (made.synced, changes) == (True, ["changed"])


def test_a_pod_recreated_by_name_is_another(store: stores.Pods) -> None:
    store.apply("ADDED", fakes.pod(fakes.PodSpec(uid="second")))
    store.apply("DELETED", fakes.pod(fakes.PodSpec()))
    assert [bound.uid for bound in store.all()] == ["second"]


def test_only_running_pods_run(store: stores.Pods) -> None:
    store.apply("ADDED", fakes.pod(fakes.PodSpec(uid="waits", phase="Pending")))
    assert [bound.uid for bound in store.running()] == ["uid-train"]


def gpunode(version: int, *, uid: str = "first", excluded: tuple[str, ...] = ()) -> dict[str, object]:
    metadata = {"name": "n1", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"excludedGPUs": list(excluded)}, "status": {"nonce": f"of {version}"}}


@pytest.fixture
def known() -> stores.GPUNode:
    made = stores.GPUNode(logging.getLogger("test"))
    made.replace([gpunode(5, excluded=("GPU-1",))])
    return made


def test_a_reply_that_is_older_than_what_was_seen_changes_nothing(known: stores.GPUNode) -> None:
    known.take(gpunode(4))
    assert (known.preconditions, known.spec.excluded_gpus, known.nonce) == (
        manifests.Preconditions("first", "5"),
        ("GPU-1",),
        "of 5",
    )


def test_news_that_a_former_gpunode_was_deleted_come_too_late(known: stores.GPUNode) -> None:
    known.take(gpunode(8, uid="second"))
    known.apply("DELETED", gpunode(7))
    assert known.preconditions == manifests.Preconditions("second", "8")


def test_a_reply_about_a_gpunode_that_was_deleted_meanwhile_does_not_bring_it_back(known: stores.GPUNode) -> None:
    known.apply("DELETED", gpunode(7))
    known.take(gpunode(6))
    assert (known.uid, known.nonce) == (None, None)


def test_what_is_read_after_a_refused_write_counts_also_where_it_is_older(known: stores.GPUNode) -> None:
    known.read(gpunode(3, uid="restored"))
    known.take(gpunode(4, uid="restored"))
    assert known.preconditions == manifests.Preconditions("restored", "4")
