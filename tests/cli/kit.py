"""Raw objects of a small cluster as the API server gives them, and lists of them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from cotenant_api import errors, names, packingpolicy
from cotenant_cli.reading import cluster
from cotenant_cli.views import explanation, usage

Object = dict[str, Any]
Read = TypeVar("Read")

TEAM = "team"
MODEL = "NVIDIA-A10"
GPU_MIB = 23_028
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
BEFORE = "2026-01-31T10:56:00Z"
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\nrm"
"""Clears a terminal, changes its title, turns the direction of writing, and ends the line."""


def gpu(uuid: str = "GPU-0", *, index: int = 0, tenants: Iterable[Object] = (), **changed: Any) -> Object:
    base = {"uuid": uuid, "index": index, "model": MODEL, "memoryMiB": GPU_MIB, "health": "Healthy", "mps": "Active"}
    return base | {"tenants": list(tenants)} | changed


def tenant(name: str, *, namespace: str = TEAM, **changed: Any) -> Object:
    base = {"podUID": f"uid-{name}", "namespace": namespace, "pod": name, "memoryUsedMiB": 3900, "memoryPeakMiB": 3950}
    return base | changed


def gpunode(*gpus: Object, name: str = "n1", ready: str = "True", **status: Any) -> Object:
    told = {"type": "Ready", "status": ready, "reason": "AgentReady" if ready == "True" else "NoCDI", "message": "told"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [told], "gpus": list(gpus)} | status}


def prediction(percent: float = 40.0, *, upper: float = 55.0, memory_mib: int = 4000) -> str:
    busy = {"q50": percent, "upper": upper}
    row = {
        "utilization": busy,
        "smActivity": busy,
        "dramActivity": {"q50": 5.0, "upper": 5.0},
        "memoryMiB": {"q50": memory_mib - 500, "upper": memory_mib},
        "stepMilliseconds": 100.0,
        "threadPercentage": 50,
        "regime": "Compute",
    }
    by_gpu = {MODEL: row, "NVIDIA-L4": row | {"utilization": {"q50": 70.0, "upper": 90.0}}}
    return json.dumps(
        {"v": 1, "graph": "sha256:" + "a" * 64, "source": "Model", "model": "default-1@sha256:00", "byGPU": by_gpu}
    )


def placement(name: str, *uuids: str, share: int = 55, generation: int = 3) -> str:
    booked = [{"uuid": uuid, "share": share, "activeThreadPercentage": 60, "memoryMiB": 4000} for uuid in uuids]
    document = {"v": 1, "podUID": f"uid-{name}", "node": "n1", "container": "main", "policyGeneration": generation}
    return json.dumps(document | {"backend": "MPS", "gpus": booked})


def packed(reason: str, message: str = "") -> Object:
    status = "True" if reason == "Placed" else "False"
    return {"type": names.PACKED, "status": status, "reason": reason, "message": message}


def pod(
    name: str,
    *,
    namespace: str = TEAM,
    share: int | str | None = 55,
    on: str | None = None,
    conditions: Iterable[Object] = (),
    labels: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    gates: Sequence[str] = (),
    owner: str | None = None,
) -> Object:
    """A pod; `on`: the GPU that it is booked on."""
    annotations = {names.PREDICTION: prediction()} | dict(notes or {})
    if on is not None:
        annotations = {names.PLACEMENT: placement(name, on)} | annotations
    limits = {} if share is None else {names.GPU_SHARE: str(share)}
    phase = "Running" if on is not None else "Pending"
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": BEFORE,
            "annotations": annotations,
            "labels": dict(labels or {}),
            "ownerReferences": [] if owner is None else [{"kind": owner, "controller": True}],
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            "schedulingGates": [{"name": gate} for gate in gates],
        }
        | ({"nodeName": "n1"} if on is not None else {}),
        "status": {"phase": phase, "conditions": list(conditions)} | dict(status or {}),
    }


def dljob(name: str, *conditions: Object, phase: str = "Queued", generation: int = 1, **status: Any) -> Object:
    told = {"observedGeneration": 1, "phase": phase, "conditions": list(conditions)} | status
    metadata = {"name": name, "namespace": TEAM, "creationTimestamp": BEFORE, "generation": generation}
    return {"metadata": metadata, "spec": {}, "status": told}


def condition(kind: str, reason: str, message: str = "", *, status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": BEFORE}


def policy(**spec: Any) -> Object:
    return {"metadata": {"name": packingpolicy.NAME, "generation": 3}, "spec": spec}


def node(name: str = "n1", *, shares: int = 200, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {names.GPU_SHARE: str(shares)}}}


def lists(
    *,
    pods: Iterable[Object] = (),
    gpunodes: Iterable[Object] = (),
    dljobs: Iterable[Object] = (),
    policies: Iterable[Object] = (),
    nodes: Iterable[Object] = (),
    forbidden: Iterable[str] = (),
) -> cluster.Lists:
    """What an API server would list, and would not."""
    every, refused = list(pods), set(forbidden)
    known = {
        cluster.pods_path(None): every,
        cluster.pods_path(TEAM): [one for one in every if one["metadata"]["namespace"] == TEAM],
        cluster.GPUNODES: list(gpunodes),
        cluster.dljobs_path(TEAM): list(dljobs),
        cluster.POLICIES: list(policies),
        cluster.NODES: list(nodes),
    }

    def listed(
        path: str, read: Callable[[cluster.Object], Read | None], /, *, name: str = "", node: str = ""
    ) -> Sequence[Read]:
        if path in refused:
            raise errors.PermanentError(f"GET {path}: 403: forbidden")
        wanted = [raw for raw in known[path] if name in ("", raw["metadata"]["name"])]
        there = [raw for raw in wanted if node in ("", raw.get("spec", {}).get("nodeName"))]
        return [one for raw in there if (one := read(raw)) is not None]

    return listed


def top(*, namespace: str | None = None, **objects: Any) -> usage.Usage:
    return usage.usage(cluster.of_gpus(lists(**objects), namespace=namespace), namespace=namespace, now=NOW)


def why(name: str, **objects: Any) -> explanation.Explanation:
    found = {"policies": [policy()], "gpunodes": [gpunode(gpu())]} | objects
    seen = cluster.of_job(lists(**found), namespace=TEAM, name=name)
    return explanation.explained(seen, namespace=TEAM, name=name, now=NOW)
