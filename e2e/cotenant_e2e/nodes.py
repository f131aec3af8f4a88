"""Simulated nodes: Node objects that kwok keeps alive. Pure; the GPUs' UUIDs come from the simulated agents."""

from dataclasses import dataclass
from typing import Any

from cotenant_api import names
from cotenant_api.names import GPUModel
from cotenant_e2e import components

CPUS_PER_GPU = 16
MEMORY_GIB_PER_GPU = 128
PODS = 110
PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
SELECTOR = "type=simulated"
"""Label selector of every simulated node."""

H200 = GPUModel("NVIDIA-H200")


@dataclass(frozen=True)
class NodeType:
    """Nodes of one kind: so many, named `PREFIX-0` and so on, each with `gpus` GPUs of one model."""

    prefix: str
    model: GPUModel
    gpus: int
    nodes: int


DEMO = (
    NodeType("h200", H200, gpus=4, nodes=2),
    NodeType("a100", GPUModel("NVIDIA-A100-80GB-PCIe"), gpus=4, nodes=1),
    NodeType("l4", GPUModel("NVIDIA-L4"), gpus=2, nodes=2),
    NodeType("t4", GPUModel("Tesla-T4"), gpus=4, nodes=1),
)
"""Six nodes with 20 GPUs of four models."""


def demo() -> list[dict[str, Any]]:
    """Return the Node objects of the demo."""
    return [node for kind in DEMO for node in of_type(kind)]


def of_type(kind: NodeType) -> list[dict[str, Any]]:
    """Return the Node objects of one kind."""
    width = len(str(kind.nodes - 1))
    return [node(f"{kind.prefix}-{number:0{width}}", kind.model, gpus=kind.gpus) for number in range(kind.nodes)]


def uniform(count: int, *, model: GPUModel = H200, gpus: int = 4) -> list[dict[str, Any]]:
    """So many equal nodes, for benchmarks."""
    return of_type(NodeType("node", model, gpus=gpus, nodes=count))


def node(name: str, model: GPUModel, *, gpus: int) -> dict[str, Any]:
    """One Node object with 100 gpu-share for each GPU."""
    size = {
        "cpu": str(CPUS_PER_GPU * gpus),
        "memory": f"{MEMORY_GIB_PER_GPU * gpus}Gi",
        "pods": str(PODS),
        names.GPU_SHARE: str(names.HUNDREDTHS * gpus),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(name, model, gpus), "annotations": components.SIMULATED_NODE},
        "status": {"capacity": size, "allocatable": size, "nodeInfo": _NODE_INFO},
    }


# `kubectl get nodes` shows the kubelet's version: whoever looks there sees what these nodes are.
_NODE_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "simulated://",
    "kernelVersion": "simulated",
    "kubeProxyVersion": "",
    "kubeletVersion": "simulated",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "simulated",
    "systemUUID": "",
}


def _labels(name: str, model: GPUModel, gpus: int) -> dict[str, str]:
    key, value = SELECTOR.split("=")
    return {
        key: value,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        names.GPU_NODE_LABEL: "true",
        PRODUCT_LABEL: model,
        COUNT_LABEL: str(gpus),
    }
