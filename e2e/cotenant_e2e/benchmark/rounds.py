"""One round: a full queue, worked off by one of the contenders, and what that took of each process.

All pods are created first, and everything is at rest; then the contender is let loose. Where kube-scheduler is started
for that, the clock runs from the first pod that is bound to the last, so that its start does not count; where gates
are lifted, it runs from the moment from which they may be.
"""

import contextlib
import enum
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.benchmark import bindings, metrics, objects, usage
from cotenant_e2e.benchmark.field import Field

SECONDS: Final = 180


class Contender(enum.StrEnum):
    """Who works the queue off.

    `GATED_OURS`: gated pods, lifted by our queue, filtered and bound by our extender. `GATED_PLAIN`: the same pods,
    lifted by a client and bound by kube-scheduler with `percentageOfNodesToScore: 100`. `LIFTED_OURS`: pods whose gates
    our queue has lifted already, filtered and bound by our extender. `PLAIN`, `SAMPLED`: the same pods without a gate,
    through kube-scheduler with `percentageOfNodesToScore: 100`, and with its default sample of the nodes.
    """

    GATED_OURS = "gated-ours"
    GATED_PLAIN = "gated-plain"
    LIFTED_OURS = "lifted-ours"
    PLAIN = "plain"
    SAMPLED = "plain-sampled"

    @property
    def ours(self) -> bool:
        """Whether the pods go through Cotenant."""
        return self in (Contender.GATED_OURS, Contender.LIFTED_OURS)

    @property
    def gated(self) -> bool:
        """Whether the time of lifting gates counts."""
        return self in (Contender.GATED_OURS, Contender.GATED_PLAIN)


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one contender did.

    Attributes:
        pods_per_second: see the module.
        cpu_milliseconds_per_pod: of each process, while the clock ran.
        writes_per_pod: through the API server, by verb and resource, from before the clock ran until all was told.
        told_seconds: from the last binding until every pod's condition `Packed` said so; None without us.
        requests: the extender's answers by verb and result, and binds by result.
        timeouts: requests to the extender that kube-scheduler gave up, by its log.
        turned_away: requests that the API server turned away, while the clock ran and until all was told.
    """

    contender: Contender
    pods: int
    pods_per_second: float
    cpu_milliseconds_per_pod: Mapping[str, float]
    writes_per_pod: Mapping[str, float]
    told_seconds: float | None = None
    requests: Mapping[str, int]
    timeouts: int = 0
    turned_away: int = 0


def measure(field: Field, contender: Contender, *, pods: int) -> Round:
    """One round; leaves nothing behind."""
    namespace = objects.OURS if contender.ours else objects.PLAIN
    try:
        with field.agents() if contender.ours else contextlib.nullcontext() as agents:
            _fill(field, contender, namespace, pods)
            if agents is not None:
                agents.renew()
            field.settle()
            found = _run(field, contender, namespace, pods)
    finally:
        field.stop_all()
        field.clear(namespace)
    return found


def _fill(field: Field, contender: Contender, namespace: str, pods: int) -> None:
    """Fill the queue as it is before the contender is let loose."""
    if contender.ours:
        field.pause(paused=True)
        field.start_extender()
    if contender is Contender.GATED_OURS:
        field.start_our_scheduler()
    elif contender is Contender.GATED_PLAIN:
        field.start_plain_scheduler()
    path = clients.path_of("pods", namespace=namespace)
    scheduler = {Contender.SAMPLED: "plain-default"}.get(
        contender, names.SCHEDULER_NAME if contender.ours else "plain-100"
    )
    created = (
        objects.pod(number, namespace=namespace, scheduler=scheduler, gated=contender.ours or contender.gated)
        for number in range(pods)
    )
    field.traffic.create(path, created)
    if contender is Contender.LIFTED_OURS:
        field.pause(paused=False)
        waiting.wait_until(lambda: metrics.lifted(field.metrics()) >= pods, f"{pods} lifted gates", SECONDS)
    field.settle()


def _run(field: Field, contender: Contender, namespace: str, pods: int) -> Round:
    """Let it loose, and wait until the last pod is bound."""
    written, turned_away = field.writes(), field.turned_away()
    with bindings.Bindings(field.client, namespace) as bound:
        before = usage.cpu_seconds(field.pids())
        began = time.monotonic()
        _let_loose(field, contender, namespace, pods)
        bound.wait(1, SECONDS)
        if not contender.gated:
            before, began = usage.cpu_seconds(field.pids()), bound.times[0]
        bound.wait(pods, SECONDS)
        after = usage.cpu_seconds(field.pids())
        ended = bound.times[pods - 1]
    count = pods if contender.gated else pods - 1
    spent = usage.spent(before, after)
    told = _wait_until_told(field, namespace, since=ended) if contender.ours else None
    written = metrics.difference(written, field.writes())
    return Round(
        contender=contender,
        pods=pods,
        pods_per_second=count / (ended - began),
        cpu_milliseconds_per_pod={name: 1e3 * seconds / count for name, seconds in spent.items()},
        writes_per_pod={what: n / pods for what, n in written.items()},
        told_seconds=told,
        requests=metrics.results(field.metrics()) if contender.ours else {},
        timeouts=field.timeouts() if contender.ours else 0,
        turned_away=field.turned_away() - turned_away,
    )


def _let_loose(field: Field, contender: Contender, namespace: str, pods: int) -> None:
    match contender:
        case Contender.GATED_OURS:
            field.pause(paused=False)
        case Contender.GATED_PLAIN:
            path = clients.path_of("pods", namespace=namespace)
            change = {"spec": {"schedulingGates": None}}
            field.traffic.merge((f"{path}/pod-{number:05}", change) for number in range(pods))
        case Contender.LIFTED_OURS:
            field.start_our_scheduler()
        case _:
            field.start_plain_scheduler()


def _wait_until_told(field: Field, namespace: str, *, since: float) -> float:
    """Seconds until no pod's condition is missing."""
    path = clients.path_of("pods", namespace=namespace)

    def untold() -> bool:
        return any(not clients.is_true(pod, names.PACKED) for pod in field.client.items(path, resourceVersion="0"))

    waiting.wait_until(lambda: not untold(), "conditions of all pods", SECONDS, every_seconds=0.5)
    return time.monotonic() - since
