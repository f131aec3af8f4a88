"""What an agent remembers of pods."""

import pytest

from cotenant_deviceplugin.kube import stores
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
