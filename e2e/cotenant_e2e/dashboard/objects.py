"""Raw Kubernetes objects of a cluster that is made up, as an API server would give them. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_api import names, packingpolicy

Object = dict[str, Any]
Said = tuple[str, str]
"""Reason and message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is predicted of a job, and what is booked for it: percent of a GPU, MiB."""

    percent: float
    upper: float
    memory_mib: int

    @property
    def share(self) -> int:
        """What is booked: hundredths of a GPU."""
        return min(max(round(self.upper), 1), names.HUNDREDTHS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A DLJob of one pod; `since`: RFC 3339, when it was made."""

    namespace: str
    name: str
    figures: Figures
    since: str

    @property
    def pod(self) -> str:
        """Name of its pod."""
        return f"{self.name}-0"

    @property
    def uid(self) -> str:
        """Of its pod: the same for the same name."""
        return f"uid-{self.namespace}-{self.pod}"


def gpu(uuid: str, index: int, *, model: str, memory_mib: int, tenants: Iterable[Object], **seen: Any) -> Object:
    """One GPU of a GPUNode."""
    base = {"uuid": uuid, "index": index, "model": model, "memoryMiB": memory_mib, "health": "Healthy", "mps": "Active"}
    return base | {"tenants": list(tenants)} | seen


def tenant(job: Job, *, used_mib: int, **seen: Any) -> Object:
    """One tenant of a GPU."""
    base = {"podUID": job.uid, "namespace": job.namespace, "pod": job.pod}
    return base | {"memoryUsedMiB": used_mib, "memoryPeakMiB": used_mib} | seen


def gpunode(name: str, gpus: Iterable[Object], *, ready: bool = True) -> Object:
    """Return a GPUNode; its GPUs are simulated."""
    reason = ("True", "AgentReady", "") if ready else ("False", "KubeletUnreachable", "kubelet does not answer")
    told = dict(zip(("type", "status", "reason", "message"), ("Ready", *reason), strict=True))
    status = {"simulated": True, "conditions": [told], "gpus": list(gpus)}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def prediction(figures: Figures, models: Iterable[str]) -> str:
    """Return the annotation."""
    busy = {"q50": figures.percent, "upper": figures.upper}
    row = {
        "utilization": busy,
        "smActivity": busy,
        "dramActivity": {"q50": 9.0, "upper": 12.0},
        "memoryMiB": {"q50": figures.memory_mib * 9 // 10, "upper": figures.memory_mib},
        "stepMilliseconds": 42.0,
        "threadPercentage": 50,
        "regime": "Compute",
    }
    document = {"v": 1, "graph": "sha256:" + "0" * 64, "source": "Model", "model": "default-1@sha256:00"}
    return json.dumps(document | {"byGPU": dict.fromkeys(models, row)})


def placement(job: Job, node: str, uuids: Iterable[str]) -> str:
    """Return the annotation."""
    share = job.figures.share
    booked = {"share": share, "activeThreadPercentage": min(share + 5, 100), "memoryMiB": job.figures.memory_mib}
    document = {"v": 1, "podUID": job.uid, "node": node, "container": "main", "policyGeneration": 1}
    return json.dumps(document | {"backend": "MPS", "gpus": [booked | {"uuid": uuid} for uuid in uuids]})


def pod(job: Job, *, annotations: Mapping[str, str], node: str | None = None, waits: Said | None = None) -> Object:
    """Its pod; `waits`: what the extender says."""
    told = ("False", *waits) if waits is not None else ("True", "Placed", "")
    packed = dict(zip(("type", "status", "reason", "message"), (names.PACKED, *told), strict=True))
    return {
        "metadata": {
            "name": job.pod,
            "namespace": job.namespace,
            "uid": job.uid,
            "creationTimestamp": job.since,
            "annotations": dict(annotations),
            "labels": {names.DLJOB_LABEL: job.name},
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": {names.GPU_SHARE: str(job.figures.share)}}}],
            "schedulingGates": [{"name": names.PACKING_GATE}] if node is None else [],
        }
        | ({} if node is None else {"nodeName": node}),
        "status": {"phase": "Pending" if node is None else "Running", "conditions": [packed]},
    }


def dljob(job: Job, *, model: str, waits: Said | None = None) -> Object:
    """Its DLJob, that runs, or waits."""
    reason, message = waits or ("Placed", "")
    queued = {"type": "Queued", "status": "True" if waits else "False", "reason": reason, "message": message}
    status = {
        "observedGeneration": 1,
        "phase": "Queued" if waits else "Running",
        "conditions": [queued | {"lastTransitionTime": job.since}],
        "prediction": {
            "gpuModel": model,
            "utilizationPercent": round(job.figures.percent),
            "upperPercent": round(job.figures.upper),
            "memoryMiB": job.figures.memory_mib,
            "source": "Model",
        },
    }
    metadata = {"name": job.name, "namespace": job.namespace, "creationTimestamp": job.since, "generation": 1}
    return {"metadata": metadata, "spec": {}, "status": status}


def policy(**spec: Any) -> Object:
    """Return the PackingPolicy."""
    return {"metadata": {"name": packingpolicy.NAME, "generation": 1}, "spec": spec}
