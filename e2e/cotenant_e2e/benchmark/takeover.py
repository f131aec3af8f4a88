"""A leader that takes over: what it costs to fence the pods that a former leader may be binding.

The former leader lifts every gate and is killed; no kube-scheduler runs, so every pod stays unbound. The next leader
writes to each of them before it serves.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.benchmark import metrics, objects
from cotenant_e2e.benchmark.field import Field

SECONDS: Final = 180


@dataclass(frozen=True, kw_only=True)
class TakeOver:
    """One take-over.

    Attributes:
        pods: unbound pods without a gate.
        seconds: from the start of the process until it serves.
        fences: writes to pods before it serves.
    """

    pods: int
    seconds: float
    fences: int

    def to_object(self) -> Mapping[str, Any]:
        """Return it as JSON object."""
        return asdict(self)


def measure(field: Field, *, pods: int) -> TakeOver:
    """Measure one take-over; leaves nothing behind."""
    try:
        with field.agents():
            if pods:
                _lift(field, pods)
            began = time.monotonic()
            field.start_extender()
            seconds = time.monotonic() - began
            fences = metrics.fences(field.metrics())
    finally:
        field.stop_all()
        field.clear(objects.OURS)
    return TakeOver(pods=pods, seconds=seconds, fences=fences)


def _lift(field: Field, pods: int) -> None:
    """Let a leader lift the gates of so many pods, and kill it."""
    field.start_extender()
    created = (
        objects.pod(number, namespace=objects.OURS, scheduler=names.SCHEDULER_NAME, gated=True)
        for number in range(pods)
    )
    field.traffic.create(clients.path_of("pods", namespace=objects.OURS), created)
    waiting.wait_until(lambda: metrics.lifted(field.metrics()) >= pods, f"{pods} lifted gates", SECONDS)
    field.cluster.kill(installation.EXTENDER)
    field.settle()


def lines(measured: list[TakeOver], *, cores: int) -> list[str]:
    """Return the table."""
    rows = [f"| {one.pods} | {one.fences} | {one.seconds:.1f} |" for one in measured]
    return [
        "",
        "| unbound pods without a gate | writes before it serves | seconds until it serves |",
        "|---:|---:|---:|",
        *rows,
        "",
        f"One real kube-apiserver and etcd, {cores} cores for everything; nodes and GPUs are simulated.",
    ]
