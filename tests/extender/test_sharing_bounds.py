"""What is remembered of pods is small, whatever their authors write."""

from typing import Any

import pytest

from cotenant_extender import records, sharing
from cotenant_extender.packing import conflicts, constraints
from extender import builders


def plain(**metadata: Any) -> dict[str, Any]:
    raw = builders.pod("p", 0, node="n0", gates=())
    raw["metadata"] |= metadata
    return raw


@pytest.mark.parametrize(
    "labels",
    [{f"k{at}": "v" for at in range(sharing.MOST_LABELS + 1)}, {"k": "v" * (sharing.MOST_CHARACTERS + 1)}],
    ids=["many", "long"],
)
def test_labels_that_want_memory_are_not_read(labels: dict[str, str]) -> None:
    assert records.pod_record(plain(labels=labels)).labels == {}


def test_large_labels_are_read_and_not_remembered() -> None:
    labels = {f"k{at}": "v" * 60 for at in range(128)}
    found = [records.pod_record(plain(labels=dict(labels))).labels for _ in range(2)]
    assert found == [labels, labels]
    assert found[0] is not found[1]


def test_small_labels_are_one_object_for_all_pods() -> None:
    found = [records.pod_record(plain(labels={"app": "x"})).labels for _ in range(2)]
    assert found[0] is found[1]


def test_gates_of_a_pod_without_a_share_are_not_kept() -> None:
    raw = plain()
    raw["spec"]["schedulingGates"] = [{"name": f"example.org/g{at}"} for at in range(9)]
    assert records.pod_record(raw).gates == ()


def test_an_image_of_any_length_is_told_from_another_by_little() -> None:
    def images(image: str) -> tuple[str, ...]:
        raw = builders.pod("p", 10)
        raw["spec"]["containers"][0]["image"] = image
        return records.pod_record(raw).images

    assert images("registry.example/train:1") == ("registry.example/train:1",)
    long = ["x" * 1_000_000, "x" * 999_999 + "y"]
    assert len({images(image) for image in long}) == 2
    assert all(len(found) <= 64 for image in long for found in images(image))


def test_the_kind_of_an_owner_is_no_longer_than_kinds_are() -> None:
    raw = builders.pod("p", 10)
    raw["metadata"]["ownerReferences"] = [{"kind": "K" * 1_000_000, "controller": True}]
    assert len(records.pod_record(raw).tenure.owner) < 100


@pytest.mark.parametrize(("parts", "kept"), [(constraints.MAX_PARTS - 3, True), (constraints.MAX_PARTS - 2, False)])
def test_an_anti_affinity_of_too_many_parts_is_left_to_kube_scheduler(parts: int, *, kept: bool) -> None:
    selector = {"matchExpressions": [{"key": "k", "operator": "In", "values": [f"v{at}" for at in range(parts)]}]}
    term = {"topologyKey": conflicts.HOST_NAME, "labelSelector": selector}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    assert (conflicts.exclusion("team", spec) is not conflicts.NOTHING) == kept
