"""The observed state: late, repeated and lost events, and which DLJobs an event concerns."""

import gc
import json
import sys
from types import FunctionType, ModuleType
from typing import Any

from cotenant_api.names import NodeName
from cotenant_operator.state import specs
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.store import NOBODY, Store
from cotenant_operator.state.views import Key
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

TRAIN = Key("team", "train")


def stored(value: Json, *, uid: str = "u1", version: int = 1, namespace: str = "team", **metadata: Any) -> Json:
    known = {"uid": uid, "resourceVersion": str(version), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**value, "metadata": {"namespace": namespace, **value["metadata"], **known, **metadata}}


def labelled(name: str, **metadata: Any) -> Json:
    value: Json = {"metadata": {"name": name}, "spec": {"template": {"spec": {}}}}
    return stored(value, labels={"cotenant.dev/dljob": "train"}, **metadata)


def test_older_version_never_replaces_a_newer_one() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob(suspend=True), version=7))
    assert store.put(Kind.DLJOB, stored(objects.dljob(suspend=False), version=6)) == NOBODY
    job = store.dljob(TRAIN)
    assert job is not None
    assert job.spec is not None
    assert job.spec.suspend


def test_deleted_object_does_not_come_back() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob()))
    assert store.remove(Kind.DLJOB, "u1") == {TRAIN}
    assert store.put(Kind.DLJOB, stored(objects.dljob(), version=9)) == NOBODY
    assert store.dljob(TRAIN) is None


def test_late_deletion_of_the_former_object_leaves_the_new_one() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob(), uid="old"))
    store.put(Kind.DLJOB, stored(objects.dljob(), uid="new", version=2))
    store.remove(Kind.DLJOB, "old")
    job = store.dljob(TRAIN)
    assert job is not None
    assert job.meta.uid == "new"


def test_deletion_of_an_unknown_object_concerns_nobody() -> None:
    assert Store().remove(Kind.POD, "u1") == NOBODY


def test_workloads_concern_the_dljob_of_their_label() -> None:
    store = Store()
    assert store.put(Kind.JOB, labelled("train-1")) == {TRAIN}
    assert store.put(Kind.DEPLOYMENT, labelled("train", uid="u2")) == {TRAIN}
    assert store.remove(Kind.JOB, "u1") == {TRAIN}


def test_jobs_of_another_owner_are_not_observed() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob(), uid="mine"))
    for uid, owner in (("j1", "mine"), ("j2", "other")):
        owners = [{"uid": owner, "controller": True}]
        store.put(Kind.JOB, labelled(uid, uid=uid, ownerReferences=owners))
    observed = store.observe(TRAIN, outcome=None)
    assert observed is not None
    assert [job.meta.uid for job in observed.jobs] == ["j1"]


def test_finished_dljob_keeps_no_spec() -> None:
    store = Store()
    ended = {"type": "Complete", "status": "True", "reason": "Completed"}
    store.put(Kind.DLJOB, {**stored(objects.dljob()), "status": {"conditions": [ended]}})
    job = store.dljob(TRAIN)
    assert job is not None
    assert job.spec is None
    assert store.unfinished() == NOBODY


def test_models_are_counted_by_the_nodes_that_have_them() -> None:
    store = Store()
    first = stored(objects.gpu_node("n1", gpus={"G1": "A", "G2": "B"}), namespace="", uid="n1")
    second = stored(objects.gpu_node("n2", gpus={"G3": "B"}), namespace="", uid="n2")
    for value in (first, second):
        store.put(Kind.GPU_NODE, value)
    assert store.gpu_models() == {"A", "B"}
    store.put(Kind.GPU_NODE, stored(objects.gpu_node("n1", gpus={}), namespace="", uid="n1", version=2))
    assert store.gpu_models() == {"B"}
    store.remove(Kind.GPU_NODE, "n2")
    assert store.gpu_models() == set()


def test_node_of_a_new_model_concerns_those_that_wait_for_their_workload() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob()))
    node = stored(objects.gpu_node(), namespace="", uid="n1")
    assert store.put(Kind.GPU_NODE, node) == {TRAIN}
    again = stored(objects.gpu_node(), namespace="", uid="n1", version=2)
    assert store.put(Kind.GPU_NODE, again) == NOBODY


def test_policy_of_another_name_is_no_policy() -> None:
    store = Store()
    value = stored({"metadata": {"name": "other"}, "spec": {}}, namespace="")
    assert store.put(Kind.POLICY, value) == NOBODY
    assert store.policy() is None


def test_deletion_of_another_policy_leaves_the_one_in_force() -> None:
    store = Store()
    store.put(Kind.POLICY, stored(objects.policy(), namespace="", uid="p"))
    store.put(Kind.POLICY, stored({**objects.policy(), "metadata": {"name": "other"}}, namespace="", uid="o"))
    assert store.remove(Kind.POLICY, "o") == NOBODY
    assert store.policy() is not None


def test_late_deletion_of_a_former_policy_leaves_the_one_made_since() -> None:
    store = Store()
    store.put(Kind.POLICY, stored(objects.policy(), namespace="", uid="old"))
    store.put(Kind.POLICY, stored(objects.policy(), namespace="", uid="new", version=2))
    assert store.remove(Kind.POLICY, "old") == NOBODY
    assert store.policy() is not None


def test_policy_written_again_concerns_nobody() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob()))
    assert store.put(Kind.POLICY, stored(objects.policy(), namespace="", uid="p")) == {TRAIN}
    assert store.put(Kind.POLICY, stored(objects.policy(), namespace="", uid="p", version=2)) == NOBODY


async def test_placed_pod_concerns_its_neighbours(cluster: Cluster) -> None:
    for name in ("train", "other"):
        cluster.apply(objects.dljob(name))
    await cluster.run("create_pods", "place")
    pod = next(pod for pod in cluster.server.all("pods") if pod["metadata"]["name"].startswith("other"))
    assert cluster.store.remove(Kind.POD, pod["metadata"]["uid"]) == {TRAIN, Key("team", "other")}


async def test_sweep_finds_deletions_that_no_watch_reported(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    cluster.server.delete("jobs", "train-1")
    cluster.lose(100)
    await cluster.settle()
    assert cluster.server.find("jobs", "train-1") is None
    cluster.sweeper.want(Kind.JOB)
    cluster.sweeper.want(Kind.POD)
    await cluster.sweeper.sweep_wanted()
    await cluster.settle()
    assert cluster.server.find("jobs", "train-1")


async def test_sweep_spares_what_came_while_it_listed(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("first"))
    await cluster.settle()
    cluster.apply(objects.dljob("second"))
    await cluster.relist()
    await cluster.settle()
    assert cluster.store.keys() == {Key("team", "first"), Key("team", "second")}


def large(size: int, **fields: Any) -> Json:
    """A DLJob whose spec has so many bytes and more, all in its template."""
    template = {"spec": {"containers": [{"name": "main", "image": "x", "args": ["a" * size]}]}}
    return objects.dljob(template=template, **fields)


def test_spec_beyond_the_bound_is_refused_with_size_and_remedy_and_not_kept() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(large(specs.MAX_BYTES)))
    job = store.dljob(TRAIN)
    assert job is not None
    assert job.spec is None
    assert job.problem is not None
    assert f"may have {specs.MAX_BYTES}: put a graph into a ConfigMap" in job.problem


def test_large_dljobs_cost_little_memory() -> None:
    """60 of 0.9 MB, as the API server takes them; by a count of bytes, which no load changes."""
    store = Store()
    annotations = {f"a{index}": "x" * 1000 for index in range(200)}
    dense = {"spec": {"containers": [{"name": "main", "image": "x", "args": ["a" * 100_000], "x": [[]] * 5000}]}}
    text = json.dumps(stored(objects.dljob(template=dense), annotations=annotations))
    larger = json.dumps(stored(large(900_000), annotations=annotations))
    before = bytes_kept(store)
    for number in range(60):
        value = json.loads(text if number % 2 else larger)
        value["metadata"] |= {"uid": f"u{number}", "name": f"j{number}"}
        store.put(Kind.DLJOB, value)
    assert len(store.keys()) == 60
    assert bytes_kept(store) - before < 10 * 1024 * 1024


def bytes_kept(store: Store) -> int:
    """Bytes of all that the store refers to, each object once."""
    seen: set[int] = set()
    waiting: list[object] = [store]
    size = 0
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, type | ModuleType | FunctionType):
            continue
        seen.add(id(found))
        size += sys.getsizeof(found)
        waiting += gc.get_referents(found)
    return size


def test_what_another_node_says_of_a_pods_gpu_is_not_believed() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob()))
    labels = {"cotenant.dev/dljob": "train", "cotenant.dev/dljob-uid": "u1"}
    pod = stored({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{}]}}, uid="p1", labels=labels)
    pod["metadata"]["annotations"] = {"cotenant.dev/placement": objects.placed_on(pod, node=NodeName("n1"))}
    store.put(Kind.POD, pod)
    store.put(Kind.GPU_NODE, stored(objects.gpu_node("n1"), namespace="", uid="n1"))
    tenant = {"podUID": "p1", "namespace": "team", "pod": "p", "memoryPeakMiB": 140_000}
    store.put(Kind.GPU_NODE, stored(objects.gpu_node("n2", tenants=(tenant,)), namespace="", uid="n2"))
    seen = store.observe(TRAIN, outcome=None)
    assert seen is not None
    (gpu,) = seen.gpus.values()
    assert gpu.seen is not None
    assert gpu.seen.tenants == ()


def test_one_nodes_agent_says_nothing_of_the_memory_of_gpus_on_others() -> None:
    store = Store()
    store.put(Kind.DLJOB, stored(objects.dljob()))
    for number, mib in enumerate((143771, 143771, 100_000_000)):
        node = objects.gpu_node(f"n{number}", gpus={f"GPU-{number}": objects.MODEL}, memoryMiB=mib)
        store.put(Kind.GPU_NODE, stored(node, uid=f"n{number}", namespace=""))
    observed = store.observe(TRAIN, outcome=None)
    assert observed is not None
    assert observed.gpu_memory_mib == {objects.MODEL: 143771}
