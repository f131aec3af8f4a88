"""What the pods' events say of every GPU over time: how long it was used, and how long pods waited. Pure.

Whether the promises were kept is judged by `invariants`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant_api import names, prediction
from cotenant_api.names import GPUUID, GPUModel, PodUID
from cotenant_e2e import invariants
from cotenant_e2e.invariants import Invariants, Limits, Tenant

Json = Mapping[str, Any]


@dataclass
class Use:
    """What a GPU was used for, over time."""

    busy_seconds: float = 0
    tenant_seconds: float = 0
    utilization_seconds: float = 0
    """Seconds times predicted utilization, in percent, of all tenants together."""


@dataclass
class Timeline:
    """A pod's times, in seconds since the demo began; None: not yet."""

    created: float
    lifted: float | None = None
    bound: float | None = None
    finished: float | None = None


class Occupancy:
    """The state of every GPU, folded from events."""

    def __init__(self, limits: Limits) -> None:
        self.invariants = Invariants(limits)
        self.timelines: dict[PodUID, Timeline] = {}
        self.use: dict[GPUUID, Use] = {}
        self.peak_gpus = self.peak_jobs = 0
        self._percents: dict[tuple[PodUID, GPUUID], float] = {}
        self._now = 0.0

    @property
    def tenants(self) -> Mapping[GPUUID, Mapping[PodUID, Tenant]]:
        """Who is on each GPU now."""
        return self.invariants.tenants

    @property
    def violations(self) -> list[str]:
        """Broken promises; must stay empty."""
        return self.invariants.violations

    def apply(self, event_type: str, pod: Json, *, now: float) -> None:
        """Take in one event of a pod, `now` seconds after the demo began."""
        self._pass_time(now)
        uid = PodUID(pod["metadata"]["uid"])
        timeline = self.timelines.setdefault(uid, Timeline(now))
        gated = any(gate["name"] == names.PACKING_GATE for gate in pod["spec"].get("schedulingGates") or ())
        if timeline.lifted is None and not gated and event_type != invariants.DELETED:
            timeline.lifted = now
        placed = self.invariants.apply(event_type, pod)
        if placed is not None:
            timeline.bound = now
            for gpu in placed.gpus:
                model = self._model(gpu.uuid)
                self._percents[uid, gpu.uuid] = 0 if model is None else _predicted_percent(pod, model)
        ended = event_type == invariants.DELETED or pod.get("status", {}).get("phase") in invariants.FINISHED
        if ended and timeline.finished is None:
            timeline.finished = now

    def gpus_in_use(self) -> int:
        """Return how many GPUs have a tenant."""
        return sum(1 for tenants in self.tenants.values() if tenants)

    def _pass_time(self, now: float) -> None:
        elapsed, self._now = now - self._now, now
        for uuid, tenants in self.tenants.items():
            if tenants:
                use = self.use.setdefault(uuid, Use())
                use.busy_seconds += elapsed
                use.tenant_seconds += elapsed * len(tenants)
                use.utilization_seconds += elapsed * sum(self._percents.get((uid, uuid), 0) for uid in tenants)
        self.peak_gpus = max(self.peak_gpus, self.gpus_in_use())
        self.peak_jobs = max(self.peak_jobs, len({uid for tenants in self.tenants.values() for uid in tenants}))

    def _model(self, uuid: GPUUID) -> GPUModel | None:
        gpu = self.invariants.limits.gpus.get(uuid)
        return None if gpu is None else gpu.model


def _predicted_percent(pod: Json, model: GPUModel) -> float:
    """Return the predicted median utilization on this GPU model; 0 without a prediction."""
    text = pod["metadata"].get("annotations", {}).get(names.PREDICTION)
    if text is None:
        return 0
    by_gpu = prediction.Prediction.from_json(text, source=f"prediction of {invariants.name_of(pod)}").by_gpu
    return by_gpu[model].utilization.q50 if model in by_gpu else 0
