"""Whether anybody else hands out the same GPUs, and which nodes could be handed over. Pure.

NVIDIA's plugin offers `nvidia.com/gpu`, its DRA driver ResourceSlices. Both know nothing of shares, so a GPU is never
handed out twice: the agent offers none while one of them does.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import findings, names
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]
READS: Final = (kinds.NODES, kinds.SLICES)
DRA_DRIVER: Final = "gpu.nvidia.com"
_PRESENT: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
_PRODUCT: Final = "nvidia.com/gpu.product"
_OPERATOR: Final = "nvidia.com/gpu.deploy.device-plugin"
"""Label by which NVIDIA's GPU Operator puts its device plugin on a node; it keeps what an admin has set, once the node
has GPUs (NVIDIA/gpu-operator issue 2288)."""
_MIG: Final = "nvidia.com/mig-"


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Nodes of ours that others serve, and nodes of others that could be ours."""
    slices = {
        (one.get("spec") or {}).get("nodeName")
        for one in seen.of(kinds.SLICES)
        if (one.get("spec") or {}).get("driver") == DRA_DRIVER and (one.get("spec") or {}).get("devices")
    }
    clean = 0
    for node in sorted(seen.of(kinds.NODES), key=lambda one: str(one["metadata"]["name"])):
        name = node["metadata"]["name"]
        offered = _offered(node)
        if kinds.is_labelled(node):
            clean += not offered and name not in slices
            if offered:
                what = f"NVIDIA's device plugin offers {', '.join(offered)} of GPUs that are ours to share"
                yield findings.error(f"Node/{name}", what, f"hand the node over: {_take_over(node)}")
            if name in slices:
                what = f"NVIDIA's DRA driver ({DRA_DRIVER}) offers GPUs that are ours to share"
                remedy = f"keep its kubelet plugin off the node: affinity {_NOT_OURS}; or kubectl label node {name} "
                yield findings.error(f"Node/{name}", what, f"{remedy}{names.GPU_NODE_LABEL}-")
        elif offered or _has_gpus(node) or name in slices:
            yield findings.ok(f"Node/{name}", f"has GPUs that are not shared; to share them: {_hand_over(node)}")
    if clean:
        yield findings.ok("cluster", f"of {clean} GPU nodes nobody else hands out GPUs")


_NOT_OURS: Final = f"{names.GPU_NODE_LABEL} NotIn [true]"


def _offered(node: Object) -> list[str]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    mine = ((key, value) for key, value in allocatable.items() if key.startswith(("nvidia.com/gpu", _MIG)))
    return [f"{key}: {value}" for key, value in sorted(mine) if str(value) != "0"]


def _has_gpus(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return any(labels.get(key) == "true" for key in _PRESENT) or _PRODUCT in labels


def _hand_over(node: Object) -> str:
    """Return the commands, in order: the node is empty before it changes hands."""
    name = node["metadata"]["name"]
    drain = f"kubectl drain {name} --ignore-daemonsets --delete-emptydir-data"
    return (
        f"{drain}; {_take_over(node)}; kubectl label node {name} {names.GPU_NODE_LABEL}=true; kubectl uncordon {name}"
    )


def _take_over(node: Object) -> str:
    """Return what ends the other plugin on the node, by who put it there."""
    name = node["metadata"]["name"]
    if _OPERATOR in (node["metadata"].get("labels") or {}):
        return f"kubectl label node {name} {_OPERATOR}=false --overwrite"
    expression = f"{{key: {names.GPU_NODE_LABEL}, operator: NotIn, values: ['true']}}"
    return f"add {expression} to its DaemonSet's nodeAffinity (chart nvidia-device-plugin: to each term of `affinity`)"
