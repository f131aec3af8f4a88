"""Whether there is the RuntimeClass by which NVIDIA's toolkit gives driver and devices to the node agent. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_api import findings
from cotenant_cli.reading import kinds, objects
from cotenant_cli.reading.installation import Installation

READS: Final = (kinds.RUNTIME_CLASSES, kinds.GPUNODES)
NAME: Final = "nvidia"


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield the one that the DaemonSets name by default."""
    found = {one["metadata"]["name"]: one.get("handler") for one in seen.of(kinds.RUNTIME_CLASSES)}
    if NAME in found:
        yield findings.ok(f"RuntimeClass/{NAME}", f"is handled by {found[NAME]}")
        return
    nodes = [objects.node_of(one) for one in seen.of(kinds.GPUNODES)]
    if nodes and all(node.status.simulated for node in nodes):
        yield findings.ok(f"RuntimeClass/{NAME}", "is missing, and not needed: all GPUs are simulated")
        return
    others = f" (there are {', '.join(sorted(found))}: helm --set node.runtimeClassName=NAME)" if found else ""
    remedy = "NVIDIA's GPU Operator makes it; else kubectl apply a RuntimeClass `nvidia` with handler `nvidia`"
    yield findings.error(f"RuntimeClass/{NAME}", "is missing: node agents cannot start", f"{remedy}{others}")
