"""Raw Kubernetes objects of a cluster that is made up, as an API server would give them. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_api import names, packingpolicy

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is predicted of a job, and what is booked for it: percent of a GPU, MiB."""

    percent: float
    upper: float
    memory_mib: int


def gpu(uuid: str, index: int, *, model: str, memory_mib: int, tenants: Iterable[Object], **seen: Any) -> Object:
    """One GPU of a GPUNode."""
    base = {"uuid": uuid, "index": index, "model": model, "memoryMiB": memory_mib, "health": "Healthy", "mps": "Active"}
    return base | {"tenants": list(tenants)} | seen


def tenant(namespace: str, pod: str, *, used_mib: int, **seen: Any) -> Object:
    """One tenant of a GPU."""
    base = {"podUID": uid(namespace, pod), "namespace": namespace, "pod": pod}
    return base | {"memoryUsedMiB": used_mib, "memoryPeakMiB": used_mib} | seen


def gpunode(name: str, gpus: Iterable[Object], *, ready: bool = True) -> Object:
    """A GPUNode; its GPUs are simulated."""
    reason = ("True", "AgentReady", "") if ready else ("False", "KubeletUnreachable", "kubelet does not answer")
    told = dict(zip(("type", "status", "reason", "message"), ("Ready", *reason), strict=True))
    status = {"simulated": True, "conditions": [told], "gpus": list(gpus)}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def prediction(figures: Figures, models: Iterable[str]) -> str:
    """The annotation."""
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


def placement(namespace: str, pod: str, node: str, uuids: Iterable[str], figures: Figures) -> str:
    """The annotation."""
    share = min(max(round(figures.upper), 1), names.HUNDREDTHS)
    booked = {"share": share, "activeThreadPercentage": min(share + 5, 100), "memoryMiB": figures.memory_mib}
    document = {"v": 1, "podUID": uid(namespace, pod), "node": node, "container": "main", "policyGeneration": 1}
    return json.dumps(document | {"backend": "MPS", "gpus": [booked | {"uuid": uuid} for uuid in uuids]})


def pod(
    namespace: str,
    name: str,
    *,
    figures: Figures,
    job: str | None = None,
    since: str,
    annotations: Mapping[str, str],
    node: str | None = None,
    waits: tuple[str, str] | None = None,
) -> Object:
    """A pod that asks for a share; `waits`: reason and message of the extender."""
    share = min(max(round(figures.upper), 1), names.HUNDREDTHS)
    told = ("False", *waits) if waits is not None else ("True", "Placed", "")
    packed = dict(zip(("type", "status", "reason", "message"), (names.PACKED, *told), strict=True))
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid(namespace, name),
            "creationTimestamp": since,
            "annotations": dict(annotations),
            "labels": {} if job is None else {names.DLJOB_LABEL: job},
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": {names.GPU_SHARE: str(share)}}}],
            "schedulingGates": [{"name": names.PACKING_GATE}] if node is None else [],
        }
        | ({} if node is None else {"nodeName": node}),
        "status": {"phase": "Pending" if node is None else "Running", "conditions": [packed]},
    }


def dljob(
    namespace: str, name: str, *, since: str, figures: Figures, model: str, waits: tuple[str, str] | None, **status: Any
) -> Object:
    """A DLJob that runs, or waits."""
    reason, message = waits or ("Placed", "")
    queued = {"type": "Queued", "status": "True" if waits else "False", "reason": reason, "message": message}
    told = {
        "observedGeneration": 1,
        "phase": "Queued" if waits else "Running",
        "conditions": [queued | {"lastTransitionTime": since}],
        "prediction": {
            "gpuModel": model,
            "utilizationPercent": round(figures.percent),
            "upperPercent": round(figures.upper),
            "memoryMiB": figures.memory_mib,
            "source": "Model",
        },
    }
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": since, "generation": 1}
    return {"metadata": metadata, "spec": {}, "status": told | status}


def policy(**spec: Any) -> Object:
    """The PackingPolicy."""
    return {"metadata": {"name": packingpolicy.NAME, "generation": 1}, "spec": spec}


def uid(namespace: str, name: str) -> str:
    """Of a pod: the same for the same name."""
    return f"uid-{namespace}-{name}"
