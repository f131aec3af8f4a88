"""Raw Kubernetes objects of a small cluster, as the API server gives them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cotenant_api import names, packingpolicy
from cotenant_simulator.live import snapshot, taking

Object = dict[str, Any]

MODEL = "NVIDIA-A10"
GPU_MIB = 23_028
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
GRAPH = "sha256:" + "a" * 64


def time(minutes_ago: float) -> str:
    return (NOW - timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str = "n1", *, gpus: int = 2, share: bool = True, product: str | None = MODEL, **spec: Any) -> Object:
    labels = {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.memory": str(GPU_MIB), "kubernetes.io/hostname": name}
    offered = {names.GPU_SHARE: str(100 * gpus)} if share else {"nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {"name": name, "labels": labels | ({"nvidia.com/gpu.product": product} if product else {})},
        "spec": spec,
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", **offered},
        },
    }


def gpunode(name: str = "n1", *, gpus: int = 2, health: str = "Healthy") -> Object:
    told = [
        {"uuid": f"GPU-{name}-{index}", "index": index, "model": MODEL, "memoryMiB": GPU_MIB, "health": health}
        for index in range(gpus)
    ]
    ready = {"type": "Ready", "status": "True", "reason": "AgentReady"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [ready], "gpus": told}}


def believed(percent: float = 40.0, *, upper: float | None = None, memory_mib: int = 4000, graph: str = GRAPH) -> str:
    busy = {"q50": percent, "upper": percent if upper is None else upper}
    row = {
        "utilization": busy,
        "smActivity": busy,
        "dramActivity": {"q50": 5.0, "upper": 5.0},
        "memoryMiB": {"q50": memory_mib, "upper": memory_mib},
        "stepMilliseconds": 100.0,
        "threadPercentage": 50,
        "regime": "Compute",
    }
    document = {"v": 1, "graph": graph, "source": "Model", "model": "default-1@sha256:00", "byGPU": {MODEL: row}}
    return json.dumps(document)


def pod(
    name: str,
    *,
    share: int = 0,
    whole: int = 0,
    created: float = 60,
    started: float | None = None,
    finished: float | None = None,
    node_name: str = "n1",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod; times in minutes before the snapshot."""
    limits = {names.GPU_SHARE: str(share)} if share else {"nvidia.com/gpu": str(whole)} if whole else {}
    status: Object = {"phase": "Pending"}
    if started is not None:
        spec["nodeName"] = node_name
        status = {"phase": "Running", "startTime": time(started)}
    if finished is not None:
        ended = {"name": "main", "state": {"terminated": {"finishedAt": time(finished), "exitCode": 0}}}
        status |= {"phase": "Succeeded", "containerStatuses": [ended]}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": time(created),
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}], **spec},
        "status": status,
    }


def predicted(name: str, percent: float = 40.0, *, upper: float | None = None, **changed: Any) -> Object:
    """A pod that is packed by a prediction."""
    document = believed(percent, upper=upper)
    return pod(name, share=max(1, round(upper or percent)), annotations={names.PREDICTION: document}, **changed)


def policy(**spec: Any) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "PackingPolicy",
        "metadata": {"name": packingpolicy.NAME, "generation": 3},
        "spec": spec,
    }


def dljob(name: str, *, created: float = 60, status: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": time(created)},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}, **spec},
        "status": status or {},
    }


def lists(
    *,
    nodes: Iterable[Object] = (),
    pods: Iterable[Object] = (),
    gpunodes: Iterable[Object] = (),
    dljobs: Iterable[Object] = (),
    policies: Iterable[Object] = (),
) -> taking.Lists:
    """What an API server would list."""
    known = {
        taking.NODES: list(nodes),
        taking.PODS: list(pods),
        taking.GPUNODES: list(gpunodes),
        taking.DLJOBS: list(dljobs),
        taking.POLICIES: list(policies),
    }

    def listed(path: str, read: Callable[[taking.Object], taking.Read | None], /) -> Sequence[taking.Read]:
        return [one for raw in known[path] if (one := read(raw)) is not None]

    return listed


def taken(found: taking.Lists) -> snapshot.Snapshot:
    """At the usual time."""
    return taking.taken(found, now=NOW)


def packing(pods: Iterable[Object], *, gpus: int = 2, nodes: int = 1, **spec: Any) -> snapshot.Snapshot:
    """A cluster on which Cotenant packs."""
    named = [f"n{number}" for number in range(1, nodes + 1)]
    found = lists(
        nodes=[node(name, gpus=gpus) for name in named],
        gpunodes=[gpunode(name, gpus=gpus) for name in named],
        pods=pods,
        policies=[policy(**spec)],
    )
    return taken(found)


def plain(pods: Iterable[Object], *, gpus: int = 2, nodes: int = 1) -> snapshot.Snapshot:
    """A cluster without Cotenant."""
    found = lists(nodes=[node(f"n{number}", gpus=gpus, share=False) for number in range(1, nodes + 1)], pods=pods)
    return taken(found)
