"""One row for each job: what the table shows, from objects as the API server has them. Pure."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_api import dljob, names
from cotenant_api.dljob import Phase
from cotenant_api.names import GPUUID
from cotenant_e2e.invariants import FINISHED

Json = Mapping[str, Any]
_ORDER = {
    phase: place for place, phase in enumerate(("Failed", "Running", "Queued", "Pending", "Suspended", "Succeeded"))
}


@dataclass(frozen=True)
class Row:
    """One job, or one pod of somebody else's Job or Deployment that asked for a share.

    Attributes:
        utilization_percent: predicted median and upper bound; None without a prediction.
        memory_mib: predicted or booked.
        gpus: as `node/index`.
        serves: whether it runs until it is deleted.
        reason: why it waits, or what failed.
        unpredicted: why there is no prediction, where there should be one.
    """

    namespace: str
    name: str
    kind: str
    phase: str
    utilization_percent: tuple[int, int] | None = None
    memory_mib: int | None = None
    share: int | None = None
    gpus: tuple[str, ...] = ()
    co_tenants: tuple[str, ...] = ()
    serves: bool = False
    reason: str = ""
    unpredicted: str = ""

    @property
    def done(self) -> bool:
        """Whether all that the demo waits for has happened: trained to the end, or serving."""
        return self.phase == Phase.SUCCEEDED or (self.serves and self.phase == Phase.RUNNING)

    @property
    def order(self) -> tuple[int, str, str]:
        """What runs comes first, what has succeeded last."""
        return (_ORDER.get(self.phase, 0), self.namespace, self.name)


def of_all(dljobs: Iterable[Json], pods: Iterable[Json], gpu_names: Mapping[GPUUID, str]) -> list[Row]:
    """Every row. `gpu_names`: UUID -> `node/index`."""
    known = list(pods)
    others = [pod for pod in known if _dljob_of(pod) is None]
    rows = [_of_dljob(job, gpu_names) for job in dljobs] + [_of_pod(pod, gpu_names) for pod in others]
    neighbours = _neighbours(known)
    return sorted((_beside(row, neighbours) for row in rows), key=lambda row: row.order)


def _of_dljob(job: Json, gpu_names: Mapping[GPUUID, str]) -> Row:
    status: Json = job.get("status") or {}
    predicted: Json = status.get("prediction") or {}
    gpus = [gpu for replica in status.get("replicas", []) for gpu in replica.get("gpus", [])]
    median, upper = predicted.get("utilizationPercent"), predicted.get("upperPercent")
    return Row(
        namespace=job["metadata"]["namespace"],
        name=job["metadata"]["name"],
        kind=job["spec"].get("workloadType", "Training"),
        phase=status.get("phase", Phase.PENDING),
        utilization_percent=None if median is None or upper is None else (median, upper),
        memory_mib=predicted.get("memoryMiB"),
        share=gpus[0]["share"] if gpus else None,
        gpus=tuple(dict.fromkeys(gpu_names.get(gpu["uuid"], gpu["uuid"]) for gpu in gpus)),
        serves=job["spec"].get("workloadType") == "Inference",
        reason=_reason(status),
        unpredicted=_stated(status, dljob.PREDICTED, "False"),
    )


def _of_pod(pod: Json, gpu_names: Mapping[GPUUID, str]) -> Row:
    metadata = pod["metadata"]
    text = (metadata.get("annotations") or {}).get(names.PLACEMENT)
    gpus = json.loads(text)["gpus"] if text else []
    phase = str((pod.get("status") or {}).get("phase", "Pending"))
    waiting = phase == "Pending" and not text
    owner = (metadata.get("ownerReferences") or [{}])[0].get("kind", "Pod")
    return Row(
        namespace=metadata["namespace"],
        name=metadata["name"],
        kind={"ReplicaSet": "Deployment"}.get(owner, owner),
        phase=Phase.QUEUED if waiting else (Phase.RUNNING if phase == "Pending" else phase),
        memory_mib=gpus[0]["memoryMiB"] if gpus else None,
        share=gpus[0]["share"] if gpus else None,
        gpus=tuple(gpu_names.get(gpu["uuid"], gpu["uuid"]) for gpu in gpus),
        serves=owner == "ReplicaSet",
        reason=packed_reason(pod) if waiting else "",
    )


def packed_reason(pod: Json) -> str:
    """Return what the extender says of a pod that waits; empty where it says nothing."""
    return _stated(pod.get("status") or {}, names.PACKED, "False")


def _reason(status: Json) -> str:
    """Why a job is not where it should be: the first condition that says so."""
    wrong = ((dljob.FAILED, "True"), (dljob.QUEUED, "True"), (dljob.PREDICTED, "False"))
    return next((text for kind, value in wrong if (text := _stated(status, kind, value))), "")


def _stated(status: Json, condition_type: str, value: str) -> str:
    """Reason and message of a condition, if it has this status; else empty."""
    for condition in status.get("conditions") or []:
        if condition["type"] == condition_type and condition["status"] == value:
            return f"{condition['reason']}: {condition.get('message', '')}"
    return ""


def _dljob_of(pod: Json) -> str | None:
    """Return the DLJob that a pod belongs to."""
    name: str | None = (pod["metadata"].get("labels") or {}).get(names.DLJOB_LABEL)
    return name


def _neighbours(pods: Iterable[Json]) -> dict[tuple[str, str], set[str]]:
    """Which jobs share a GPU now: by namespace and name, as everywhere in the table."""
    by_gpu: dict[str, set[tuple[str, str]]] = {}
    for pod in pods:
        text = (pod["metadata"].get("annotations") or {}).get(names.PLACEMENT)
        if text and (pod.get("status") or {}).get("phase") not in FINISHED:
            job = (pod["metadata"]["namespace"], _dljob_of(pod) or pod["metadata"]["name"])
            for gpu in json.loads(text)["gpus"]:
                by_gpu.setdefault(gpu["uuid"], set()).add(job)
    found: dict[tuple[str, str], set[str]] = {}
    for jobs in by_gpu.values():
        for job in jobs:
            found.setdefault(job, set()).update(name for _, name in jobs - {job})
    return found


def _beside(row: Row, neighbours: Mapping[tuple[str, str], set[str]]) -> Row:
    return dataclasses.replace(row, co_tenants=tuple(sorted(neighbours.get((row.namespace, row.name), ()))))
