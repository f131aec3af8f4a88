"""The pods of the benchmark, and when their containers began by what they print. Pure."""

from datetime import datetime
from typing import Final

from cotenant_api import names
from cotenant_e2e.client import Json
from cotenant_e2e.node import agents

SHARE: Final = 7
"""Hundredths of each: 14 pods fill a GPU."""
MEMORY: Final = "1Gi"
BEGIN: Final = "echo began"
HOLD: Final = 'if [ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ]; then exec cuda-client --memory 64 --hold 100000; fi; '
STAY: Final = "exec sleep 100000"


def pod(number: int, *, shared: bool, stays: bool) -> Json:
    """One pod; with a share, or the same without.

    Args:
        number: names it.
        shared: whether it asks for a share; else the default scheduler binds it.
        stays: whether it goes on (with a share: as an MPS client) until it is deleted, or ends at once.
    """
    script = f"{BEGIN}; {HOLD}{STAY}" if stays else BEGIN
    container: Json = {
        "name": "main",
        "image": agents.CLIENT_IMAGE,
        "securityContext": agents.CLIENT_USER,
        "command": ["sh", "-c", script],
    }
    metadata: Json = {"name": f"pod-{number:03}"}
    if shared:
        container["resources"] = {"limits": {names.GPU_SHARE: str(SHARE)}}
        metadata["annotations"] = {names.GPU_MEMORY: MEMORY}
    spec = {
        "containers": [container],
        "dnsPolicy": "Default",
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def began_at(log: str) -> float | None:
    """Unix seconds at which containerd had the first line of a container; None before that.

    `log`: a file as the CRI prescribes it: time (RFC 3339 with nanoseconds), stream, tag and text of each line.
    """
    moment, _, text = log.partition(" ")
    return datetime.fromisoformat(moment).timestamp() if text.endswith("\n") else None
