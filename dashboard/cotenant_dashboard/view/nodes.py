"""One node with its GPUs, as `cotenant top` would show it, and what the sums are made of. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cotenant_api import conditions, gpunode
from cotenant_cli.reading import cluster, objects
from cotenant_cli.views import usage
from cotenant_dashboard.view import accuracy, metering

_OF_THE_NODE: Final = {"node", "ready", "simulated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A node.

    Attributes:
        part: of the page.
        gpus: as `cotenant top -o json` gives them.
        rates: what each namespace has of it.
        measured: predictions that can be held against an observation.
        notes: what is wrong, for people.
    """

    part: Mapping[str, Any]
    gpus: tuple[usage.GPU, ...]
    rates: Mapping[str, metering.Rates]
    measured: tuple[accuracy.Measured, ...]
    notes: tuple[str, ...]


def view(node: objects.Node, pods: Sequence[objects.Pod], *, now: datetime) -> View:
    """Return a node, and the pods that are bound to it."""
    ordered = tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))
    found = usage.usage(cluster.Seen(pods=ordered, nodes=(node,)), namespace=None, now=now)
    ready = node.ready
    up = ready is not None and ready.status is conditions.Status.TRUE
    part = {
        "name": node.name,
        "ready": up,
        "reason": None if up else _reason(node),
        "simulated": node.status.simulated,
        "gpus": [
            gpu.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_OF_THE_NODE) for gpu in found.gpus
        ],
    }
    return View(
        part=part,
        gpus=found.gpus,
        rates=metering.rates(ordered, found.gpus),
        measured=tuple(accuracy.of_tenants(found.gpus)),
        # That its GPUs are simulated is a badge of the node and of the page.
        notes=tuple(note for note in found.notes if not (node.status.simulated and "are simulated" in note)),
    )


def totals(views: Sequence[View]) -> dict[str, Any]:
    """Return the sums over nodes."""
    gpus = [gpu for view in views for gpu in view.gpus]
    told = [gpu.utilization_percent for gpu in gpus if gpu.utilization_percent is not None]
    return {
        "nodes": len(views),
        "simulatedNodes": sum(bool(view.part["simulated"]) for view in views),
        "gpus": len(gpus),
        "usableGPUs": sum(gpu.ready and gpu.health is gpunode.Health.HEALTHY for gpu in gpus),
        "sharedGPUs": sum(gpu.tenant_count > 1 for gpu in gpus),
        "freeGPUs": sum(gpu.tenant_count == 0 for gpu in gpus),
        "tenants": sum(gpu.tenant_count for gpu in gpus),
        "bookedShare": sum(gpu.booked_share for gpu in gpus),
        "predictedPercent": round(sum(gpu.predicted_percent for gpu in gpus)),
        "observedPercent": sum(told) if told else None,
        "observedGPUs": len(told),
    }


def _reason(node: objects.Node) -> str:
    if node.unread is not None:
        return node.unread
    ready = node.ready
    return "its agent has not told of itself" if ready is None else f"{ready.reason}: {ready.message}"
