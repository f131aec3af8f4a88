"""Which GPUs are in MIG mode: they are left alone. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_api import findings, gpunode
from cotenant_cli.reading import kinds, objects
from cotenant_cli.reading.installation import Installation

READS: Final = (kinds.GPUNODES,)


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each node that has such GPUs."""
    for node in map(objects.node_of, seen.of(kinds.GPUNODES)):
        found = [gpu for gpu in node.status.gpus if gpu.mode is gpunode.Mode.MIG]
        if not found:
            continue
        what = f"GPUs {', '.join(str(gpu.index) for gpu in found)} are in MIG mode and give no shares"
        if len(found) == len(node.status.gpus):
            remedy = f"leave MIG mode (nvidia-smi -mig 0, then reset the GPUs), or kubectl label node {node.name} "
            yield findings.warning(f"Node/{node.name}", what, f"{remedy}cotenant.dev/gpu-")
        else:
            yield findings.ok(f"Node/{node.name}", what)
