"""What the pods' events say of every GPU: who held it when, and whether the promises were kept. Pure.

A pod holds its GPUs from the event that carries its placement to the event that it has finished or is gone.
Events come in the API server's own order, so a promise that was broken for a moment is seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant_api import names, placement, prediction
from cotenant_api.names import GPUUID, HUNDREDTHS, GPUModel, Namespace, PodUID

Json = Mapping[str, Any]
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Limits:
    """What a GPU may hold, and what it is."""

    max_tenants: int
    bookable_mib: Mapping[GPUUID, int]
    models: Mapping[GPUUID, GPUModel]


@dataclass
class Use:
    """What a GPU was used for, over time."""

    busy_seconds: float = 0
    tenant_seconds: float = 0
    utilization_seconds: float = 0
    """Seconds times predicted utilization, in percent, of all tenants together."""


@dataclass(frozen=True)
class Tenant:
    """A pod on a GPU, as booked. `utilization_percent`: the predicted median; 0 without a prediction."""

    uid: PodUID
    namespace: Namespace
    pod: str
    share: int
    memory_mib: int
    whole: bool
    utilization_percent: float


@dataclass
class Timeline:
    """A pod's times, in seconds since the demo began; None: not yet."""

    created: float
    lifted: float | None = None
    bound: float | None = None
    finished: float | None = None


@dataclass
class Occupancy:
    """The state of every GPU, folded from events; `violations` must stay empty."""

    limits: Limits
    tenants: dict[GPUUID, dict[PodUID, Tenant]] = field(default_factory=dict)
    timelines: dict[PodUID, Timeline] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    use: dict[GPUUID, Use] = field(default_factory=dict)
    peak_gpus: int = 0
    peak_jobs: int = 0
    _bound: dict[PodUID, str] = field(default_factory=dict)
    _now: float = 0

    def apply(self, event_type: str, pod: Json, *, now: float) -> None:
        """Take in one event of a pod, `now` seconds after the demo began."""
        self._pass_time(now)
        metadata, uid = pod["metadata"], PodUID(pod["metadata"]["uid"])
        timeline = self.timelines.setdefault(uid, Timeline(now))
        gated = any(gate["name"] == names.PACKING_GATE for gate in pod["spec"].get("schedulingGates") or ())
        if timeline.lifted is None and not gated and event_type != "DELETED":
            timeline.lifted = now
        text = metadata.get("annotations", {}).get(names.PLACEMENT)
        if text is not None:
            self._placed(pod, text, now=now)
        elif pod["spec"].get("nodeName") and event_type != "DELETED":
            self.violations.append(f"{_name(pod)} is bound to {pod['spec']['nodeName']} without a placement")
        if event_type == "DELETED" or pod.get("status", {}).get("phase") in FINISHED:
            self._ended(uid, now=now)

    def gpus_in_use(self) -> int:
        """How many GPUs have a tenant."""
        return sum(1 for tenants in self.tenants.values() if tenants)

    def _pass_time(self, now: float) -> None:
        elapsed, self._now = now - self._now, now
        for uuid, tenants in self.tenants.items():
            if tenants:
                use = self.use.setdefault(uuid, Use())
                use.busy_seconds += elapsed
                use.tenant_seconds += elapsed * len(tenants)
                use.utilization_seconds += elapsed * sum(one.utilization_percent for one in tenants.values())
        self.peak_gpus = max(self.peak_gpus, self.gpus_in_use())
        self.peak_jobs = max(self.peak_jobs, len({uid for tenants in self.tenants.values() for uid in tenants}))

    def _placed(self, pod: Json, text: str, *, now: float) -> None:
        uid = PodUID(pod["metadata"]["uid"])
        if uid in self._bound:
            if self._bound[uid] != text:
                self.violations.append(f"the placement of {_name(pod)} changed")
            return
        self._bound[uid] = text
        document = placement.Placement.from_json(text, source=f"placement of {_name(pod)}")
        self.timelines[uid].bound = now
        if document.node != pod["spec"].get("nodeName") or document.pod_uid != uid:
            self.violations.append(f"the placement of {_name(pod)} is for another node or pod")
        for gpu in document.gpus:
            tenant = Tenant(
                uid,
                Namespace(pod["metadata"]["namespace"]),
                pod["metadata"]["name"],
                gpu.share,
                gpu.memory_mib,
                document.backend is placement.Backend.WHOLE,
                _predicted_percent(pod, self.limits.models.get(gpu.uuid)),
            )
            self.tenants.setdefault(gpu.uuid, {})[uid] = tenant
            self._check(gpu.uuid)

    def _ended(self, uid: PodUID, *, now: float) -> None:
        timeline = self.timelines[uid]
        if timeline.finished is None:
            timeline.finished = now
        for tenants in self.tenants.values():
            tenants.pop(uid, None)

    def _check(self, uuid: GPUUID) -> None:
        """The promises, each with what broke it."""
        tenants = list(self.tenants[uuid].values())
        bookable = self.limits.bookable_mib.get(uuid, 0)
        broken = {
            f"{len(tenants)} tenants": len(tenants) > self.limits.max_tenants,
            f"{sum(one.share for one in tenants)} hundredths": sum(one.share for one in tenants) > HUNDREDTHS,
            f"{sum(one.memory_mib for one in tenants)} MiB of {bookable}": _memory(tenants) > bookable,
            "two namespaces": len({one.namespace for one in tenants}) > 1,
        }
        who = ", ".join(f"{one.namespace}/{one.pod}" for one in tenants)
        self.violations += [f"{uuid} holds {what}: {who}" for what, is_broken in broken.items() if is_broken]


def _memory(tenants: list[Tenant]) -> int:
    """What is booked beside others: a whole GPU's memory is its tenant's to use."""
    return sum(one.memory_mib for one in tenants if not one.whole)


def _predicted_percent(pod: Json, model: GPUModel | None) -> float:
    """The predicted median utilization on this GPU model."""
    text = pod["metadata"].get("annotations", {}).get(names.PREDICTION)
    if text is None or model is None:
        return 0
    by_gpu = prediction.Prediction.from_json(text, source=f"prediction of {_name(pod)}").by_gpu
    return by_gpu[model].utilization.q50 if model in by_gpu else 0


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
