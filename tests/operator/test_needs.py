"""What is made small before kopf decodes it is read as if it were whole."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from cotenant_api import names
from cotenant_operator import labels
from cotenant_operator.state import needs, reading
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

READ: dict[str, tuple[str, Callable[[Json], object]]] = {
    "jobs": ("Job", reading.job),
    "pods": ("Pod", reading.pod),
    "dljobs": ("DLJob", reading.dl_job),
    "deployments": ("Deployment", reading.deployment),
}


def event(kind: str, value: Json) -> bytes:
    return json.dumps({"type": "ADDED", "object": {"kind": kind, **value}}).encode()


def swollen(value: Json) -> Json:
    """The same object with a megabyte of what is not read."""
    found = copy.deepcopy(value)
    metadata = found["metadata"]
    metadata["managedFields"] = [
        *metadata.get("managedFields", ()),
        {"fieldsV1": {f"f:{number}": {} for number in range(50_000)}},
    ]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), "example.com/note": "x" * 200_000}
    spec = found["spec"].get("template", found)["spec"]
    if "workloadType" not in found["spec"]:
        spec["volumes"] = [{"name": f"v{number}"} for number in range(20_000)]
        spec["containers"][0]["env"] = [{"name": f"V{number}", "value": "x"} for number in range(20_000)]
    return found


@pytest.mark.parametrize("workload", ["Training", "Inference"])
async def test_large_objects_are_read_as_the_small_ones(cluster: Cluster, workload: str) -> None:
    cluster.apply(objects.dljob(workloadType=workload, replicas=2 if workload == "Training" else 1))
    await cluster.run("create_pods", "place", "run_pods")
    seen = []
    for plural, (kind, read) in READ.items():
        for value in cluster.server.all(plural):
            small = json.loads(needs.fitting(event(kind, swollen(value))))["object"]
            assert len(json.dumps(small)) < 20_000
            assert read(small) == read(value)
            seen.append(kind)
    assert {"DLJob", "Pod"} < set(seen)


@pytest.mark.parametrize("plural", ["jobs", "deployments"])
async def test_it_is_told_who_has_written_into_a_large_workload(cluster: Cluster, plural: str) -> None:
    cluster.apply(objects.dljob(workloadType="Training" if plural == "jobs" else "Inference"))
    await cluster.settle()
    (value,) = cluster.server.all(plural)
    value["spec"].update(parallelism=0, paused=True)
    template: Json = {"f:spec": {f"f:{number}": {} for number in range(20_000)}}
    fields = {"f:spec": {"f:parallelism": {}, "f:paused": {}, "f:template": template}}
    value["metadata"]["managedFields"] += [
        {"manager": "status", "subresource": "status", "fieldsV1": fields},
        {"manager": "tool", "time": "2026-01-01T00:00:02Z", "fieldsV1": fields},
        {"manager": "other", "time": "2026-01-01T00:00:01Z", "fieldsV1": fields},
        *({"manager": f"m{number}", "fieldsV1": {"f:spec": {"f:paused": {}}}} for number in range(1000)),
    ]
    kind, read = READ[plural]
    small = json.loads(needs.fitting(event(kind, swollen(value))))["object"]
    assert len(json.dumps(small)) < 20_000
    assert read(small) == read(value)
    assert "tool" in str(read(small))


async def test_a_large_pod_that_was_told_to_end_is_known_for_one(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    (pod,) = cluster.server.all("pods")
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T01:00:00Z", "deletionGracePeriodSeconds": 3600}
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:10Z"}}
    pod["status"] |= {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": ended}]}
    small = json.loads(needs.fitting(event("Pod", swollen(pod))))["object"]
    assert reading.pod(small).told_to_end
    assert reading.pod(small) == reading.pod(pod)


def test_ordinary_event_is_left_as_it_is() -> None:
    data = event("DLJob", objects.dljob())
    assert needs.fitting(data) is data


def test_spec_that_is_too_large_is_told_with_its_size() -> None:
    container = {**objects.CONTAINER, "args": ["x" * 900_000]}
    value = objects.dljob(template={"spec": {"containers": [container]}}, ttlSecondsAfterFinished=5)
    value["metadata"] |= {"namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    small = json.loads(needs.fitting(event("DLJob", value)))["object"]
    assert len(json.dumps(small)) < 1000
    assert reading.dl_job(small) == reading.dl_job({"kind": "DLJob", **value})


def test_affinity_of_a_large_gang_is_told() -> None:
    term = {"topologyKey": "a", "namespaces": ["other"]}
    pod = {
        "containers": [{"name": "c", "image": "i", "args": ["x" * 100_000]}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }
    metadata = {
        "name": "x",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {names.DLJOB_LABEL: "x"},
    }
    metadata["annotations"] = {labels.COMPLETION_INDEX: "1"}
    value = {"metadata": metadata, "spec": {"completions": 2, "template": {"spec": pod}}}
    found = reading.job(json.loads(needs.fitting(event("Job", value)))["object"])
    assert found.demand is not None
    assert found.demand.crosses_namespaces


async def test_a_large_pod_that_others_keep_from_being_ready_is_heard_of(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    (pod,) = cluster.server.all("pods")
    pod["spec"]["readinessGates"] = [{"conditionType": "example.com/target-health"}]
    states = {"Ready": "False", "ContainersReady": "True"}
    pod["status"]["conditions"] = [{"type": kind, "status": status} for kind, status in states.items()]
    small = json.loads(needs.fitting(event("Pod", swollen(pod))))["object"]
    assert reading.pod(small) == reading.pod(pod)
    assert not reading.pod(small).silent
