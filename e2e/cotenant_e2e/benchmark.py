"""How fast pods are placed through Cotenant, against the same pods through plain kube-scheduler.

Both run on one control plane, in turn, so that what disturbs one disturbs the other. Only the ratio says something
of the software; pods per second say as much of the machine.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Client, Json

NAMESPACE = "bench"
CREATORS = 8
SECONDS = 300
PODS = clients.path_of("pods", namespace=NAMESPACE)


@dataclass(frozen=True)
class Round:
    """Pods per second from the first creation to the last binding: through Cotenant, and without it."""

    through: float
    plain: float

    @property
    def ratio(self) -> float:
        """Through Cotenant as a part of plain."""
        return self.through / self.plain


def rounds(client: Client, *, pods: int, repeats: int, report: Callable[[str], object]) -> list[Round]:
    """Measure so many rounds; `report` gets a line for each."""
    client.create(clients.path_of("namespaces"), {"metadata": {"name": NAMESPACE}})
    found = []
    for number in range(1, repeats + 1):
        measured = Round(through=_rate(client, pods, share=25), plain=_rate(client, pods, share=0))
        report(
            f"round {number} of {repeats}: {measured.through:.0f} pods/s through Cotenant, "
            f"{measured.plain:.0f} without, ratio {measured.ratio:.2f}"
        )
        found.append(measured)
    return found


def median_ratio(found: Sequence[Round]) -> float:
    """The ratio of the middle round."""
    return statistics.median(one.ratio for one in found)


def _rate(client: Client, count: int, *, share: int) -> float:
    """Create the pods, wait until all are bound, delete them; pods per second."""
    began = time.monotonic()
    with ThreadPoolExecutor(CREATORS) as pool:
        list(pool.map(lambda number: client.create(PODS, _pod(number, share)), range(count)))
    waiting.wait_until(lambda: not _any(client, "spec.nodeName="), f"{count} bound pods", SECONDS)
    seconds = time.monotonic() - began
    client.delete(PODS, gracePeriodSeconds="0")
    waiting.wait_until(lambda: not _any(client, ""), "deleted pods", SECONDS)
    return count / seconds


def _any(client: Client, selector: str) -> bool:
    """Whether there is such a pod, without reading them all."""
    return bool(client.items(PODS, limit="1", fieldSelector=selector))


def _pod(number: int, share: int) -> Json:
    limits = {names.GPU_SHARE: str(share)} if share else {"cpu": "100m"}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {"metadata": {"name": f"pod-{number:05}"}, "spec": {"containers": [container]}}
