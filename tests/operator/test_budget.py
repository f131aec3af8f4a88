"""What is kept of one namespace is bounded, what is beyond is named, and another namespace has its own room."""

from typing import Any

import pytest

from cotenant_api import errors, names
from cotenant_operator.state import budget, demand
from cotenant_operator.state.budget import Budget, TooMuchError
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.store import Store
from cotenant_operator.state.views import Key
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

KIB = 1024


def stored(value: Json, name: str, *, namespace: str = "evil", version: int = 1) -> Json:
    known = {"uid": f"{namespace}/{name}", "resourceVersion": str(version), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**value, "metadata": {**value["metadata"], "name": name, "namespace": namespace, **known}}


def large(kib: int = 100) -> Json:
    container = {**objects.CONTAINER, "args": ["x" * kib * KIB]}
    return objects.dljob(template={"spec": {"containers": [container]}})


def gang(**spec: Any) -> Json:
    metadata = {"labels": {names.DLJOB_LABEL: "x"}}
    pod = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"metadata": metadata, "spec": {"completions": 2, "suspend": True, "template": {"spec": pod}}}


def test_objects_count_until_they_are_dropped_and_each_namespace_by_itself() -> None:
    found = Budget(per_object=10 * KIB, per_namespace=10 * KIB)
    found.take("evil", "a", "x" * 9 * KIB)
    with pytest.raises(TooMuchError, match="namespace evil may have 10240: delete finished DLJobs"):
        found.take("evil", "b", "x" * 9 * KIB)
    found.take("team", "b", "x" * 9 * KIB)
    found.drop("evil", "a")
    assert found.left("evil") == 10 * KIB
    found.take("evil", "b", "x" * 9 * KIB)


def test_former_version_stays_counted_where_the_next_one_is_refused() -> None:
    found = Budget(per_object=10 * KIB, per_namespace=20 * KIB)
    found.take("evil", "a", "x" * 9 * KIB)
    held = found.held("evil")
    with pytest.raises(errors.InvalidInputError, match="may have 10240"):
        found.take("evil", "a", "x" * 90 * KIB)
    assert found.held("evil") == held


def test_ordinary_objects_are_not_counted() -> None:
    found = Budget(per_object=KIB, per_namespace=KIB)
    for number in range(10_000):
        found.take("team", str(number), "x" * KIB)
    assert found.held("team") == 0


@pytest.mark.parametrize(
    "kept", ["x" * 5000, ("x" * 5000,), {"a": "x" * 5000}, {"x" * 5000: 1}, objects.toy_graph("x" * 250)]
)
def test_all_that_is_in_a_value_weighs(kept: object) -> None:
    assert budget.weight(kept) >= 5000 or not isinstance(kept, (str, tuple, dict))
    assert budget.weight(kept) > 250


def test_ten_thousand_large_dljobs_of_one_namespace_are_kept_within_its_bound() -> None:
    store = Store(room=Budget(per_namespace=KIB * KIB))
    for number in range(200):
        store.put(Kind.DLJOB, stored(large(), f"d{number}"))
    store.put(Kind.DLJOB, stored(large(), "train", namespace="team"))
    found = {key: store.dljob(key) for key in store.keys()}  # noqa: SIM118 - a Store is no mapping
    kept = [key for key, job in found.items() if key.namespace == "evil" and job is not None and job.text]
    assert 5 <= len(kept) <= 10
    honest = store.dljob(Key("team", "train"))
    assert honest is not None
    assert honest.problem is None


async def test_dljob_without_room_says_so_and_runs_when_there_is_room(cluster: Cluster) -> None:
    cluster.store._budget = Budget(per_namespace=150 * KIB)
    cluster.apply(large() | {"metadata": {"name": "first"}})
    cluster.apply(large() | {"metadata": {"name": "second"}})
    await cluster.settle()
    message = cluster.condition("Queued", name="second")["message"]
    assert "namespace team may have 153600: delete finished DLJobs" in message
    assert [job["metadata"]["name"] for job in cluster.server.all("jobs")] == ["first-1"]
    cluster.server.delete("dljobs", "first")
    await cluster.settle()
    assert [job["metadata"]["name"] for job in cluster.server.all("jobs")] == ["second-1"]
    # The operator may list and watch DLJobs and pods, and get none.
    assert not [one.path for one in cluster.server.requests if one.method == "GET" and one.path.endswith("/second")]


def test_an_affinity_is_not_kept_and_still_told() -> None:
    terms = [{"topologyKey": "a"} for _ in range(10_000)] + [{"topologyKey": "a", "namespaceSelector": {}}]
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    template = gang(affinity=affinity)["spec"]["template"]
    found = demand.read(template, pods=2)
    assert found.crosses_namespaces
    assert budget.weight(found) < 4 * KIB


def test_gang_of_countless_containers_is_not_kept() -> None:
    store = Store()
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"limits": {"cpu": str(number)}}} for number in range(9000)
    ]
    store.put(Kind.JOB, stored(gang(containers=containers), "x-1"))
    assert store._jobs == {}


@pytest.mark.parametrize("annotation", ["spec-digest", "model-digest", "made-from", "graph"])
def test_long_digests_are_not_kept(annotation: str) -> None:
    store = Store()
    job = gang()
    job["metadata"]["annotations"] = {f"{names.GROUP}/{annotation}": "g" * 250_000}
    store.put(Kind.JOB, stored(job, "x-1"))
    (kept,) = store._jobs[Key("evil", "x")].values()
    assert budget.weight(kept) < 4 * KIB
