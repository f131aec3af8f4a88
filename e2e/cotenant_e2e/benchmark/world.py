"""A large cluster as the API server would list it, encoded page by page. Pure; its GPUs are simulated."""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from cotenant_api import names
from cotenant_api.names import NodeName
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_e2e.benchmark import objects
from cotenant_e2e.client import Json

PAGE: Final = 500
VERSION: Final = "1000000"


@dataclass(frozen=True)
class Size:
    """How many nodes of eight GPUs, and pods that are placed on them."""

    nodes: int
    pods: int


def pages(size: Size, *, now: str) -> dict[str, list[bytes]]:
    """Return the pages of each list, by path."""
    nodes = [_node(node) for node in objects.node_list(size.nodes)]
    known = [NodeName(node["metadata"]["name"]) for node in nodes]
    policy = {"metadata": {"name": "default", "generation": 1}, "spec": {}}
    listed: dict[str, Iterator[Json] | Sequence[Json]] = {
        "/api/v1/pods": (placed_pod(number, known) for number in range(size.pods)),
        "/api/v1/nodes": nodes,
        f"/apis/{names.API_VERSION}/gpunodes": (objects.gpunode(node, now=now) for node in known),
        f"/apis/{names.API_VERSION}/packingpolicies": [policy],
        f"/apis/coordination.k8s.io/v1/namespaces/{names.RELEASE_NAMESPACE}/leases": (
            objects.lease(node, now=now) for node in known
        ),
    }
    return {path: list(_pages(items)) for path, items in listed.items()}


def placed_pod(number: int, nodes: Sequence[NodeName], *, version: int = 1) -> Json:
    """Return a running pod, with its placement. Pods go to nodes in turn, and there to GPUs in turn."""
    node = nodes[number % len(nodes)]
    gpu = simulated.gpu_uuid(node, number // len(nodes) % objects.GPUS_PER_NODE)
    found = waiting_pod(number, version=version)
    uid = found["metadata"]["uid"]
    booked = {"uuid": gpu, "share": 25, "activeThreadPercentage": 45, "memoryMiB": 9000, "clientPriority": 0}
    placement = {"v": 1, "podUID": uid, "node": node, "container": "main", "policyGeneration": 1, "backend": "MPS"}
    text = orjson.dumps(placement | {"processesPerGPU": 1, "gpus": [booked]}).decode()
    found["metadata"]["annotations"][names.PLACEMENT] = text
    found["spec"]["nodeName"] = node
    found["status"] = {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:10Z",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": names.PACKED, "status": "True", "reason": "Placed", "message": ""},
        ],
    }
    return found


def waiting_pod(number: int, *, version: int = 1, share: int = objects.SHARE, scheduler: str = "cotenant") -> Json:
    """Return a pod without a gate that is not bound, as the API server gives it."""
    found = objects.pod(number, namespace=objects.OURS, scheduler=scheduler, gated=False)
    found["metadata"] |= {
        "uid": f"{number:08x}-0000-4000-8000-000000000000",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    found["spec"]["containers"][0]["resources"]["limits"][names.GPU_SHARE] = str(share)
    found["status"] = {"phase": "Pending"}
    return found


def gated_pod(number: int, *, share: int) -> Json:
    """Return a pod that waits behind the gate."""
    found = waiting_pod(number, share=share)
    found["spec"]["schedulingGates"] = [{"name": names.PACKING_GATE}]
    return found


def timestamp(when: dt.datetime) -> str:
    """As Kubernetes writes times."""
    return when.isoformat().replace("+00:00", "Z")


def encoded(items: Iterable[Json]) -> list[bytes]:
    """Return the pages of one list."""
    return list(_pages(iter(items)))


def _node(node: Json) -> Json:
    node["metadata"]["resourceVersion"] = "1"
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return node


def _pages(items: Iterator[Json] | Sequence[Json]) -> Iterator[bytes]:
    every = [orjson.dumps(item) for item in items]
    for begin in range(0, max(len(every), 1), PAGE):
        more = str(begin + PAGE) if begin + PAGE < len(every) else ""
        metadata = orjson.dumps({"resourceVersion": VERSION, "continue": more})
        yield b'{"metadata":' + metadata + b',"items":[' + b",".join(every[begin : begin + PAGE]) + b"]}"
