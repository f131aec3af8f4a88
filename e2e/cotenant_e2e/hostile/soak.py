"""The soak: some minutes of honest jobs alone, then as many beside a hostile namespace."""

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import configuration, installation, nodes, waiting
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.hostile import attacks, honest, weights
from cotenant_e2e.hostile.attacker import Attacker

HOSTILE: Final = "hostile"
OURS: Final = (installation.OPERATOR, installation.EXTENDER)
BESIDE: Final = "kube-apiserver"
GPUS_PER_NAMESPACE: Final = 8
"""`maxGPUsPerNamespace` of the PackingPolicy: the hostile namespace may fill so many of the twenty."""
_RBAC: Final = "rbac.authorization.k8s.io"
_GRAPH: Final = Path("manifests/examples/graphs/resnet50-64.json")
_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """What was measured.

    Attributes:
        minutes: of the hostile part; the honest part alone took a tenth of it. `rate`: attacks a second, at most.
        alone, beside: seconds that honest DLJobs took from the request until their pod was bound, in order.
        failed: honest DLJobs that were not bound within two minutes.
        peaks_mib: by process, the most that it held with its descendants.
        ends: by process, how often it ended, and was started again.
        taken, refused: what the hostile namespace sent, by kind. `unanswered`, `halves`: see `Attacker`.
        dljobs: of the hostile namespace, at the end.
    """

    minutes: float
    rate: float
    alone: tuple[float, ...]
    beside: tuple[float, ...]
    failed: int
    peaks_mib: Mapping[str, float]
    ends: Mapping[str, int]
    taken: Mapping[str, int]
    refused: Mapping[str, int]
    unanswered: int
    halves: int
    dljobs: int

    @property
    def ratio(self) -> float:
        """How much longer the median honest job waited."""
        return statistics.median(self.beside) / statistics.median(self.alone)

    def to_object(self) -> Mapping[str, Any]:
        """Return it as JSON object."""
        return {"v": 1, **asdict(self)}


def soak(
    installed: installation.Installation, *, minutes: float, rate: float, seed: int, report: Callable[[str], None]
) -> Soaked:
    """Run it on a cluster of the demo's nodes with everything of ours."""
    cluster = installed.cluster
    cluster.client.patch(_policy(), {"spec": {"maxGPUsPerNamespace": GPUS_PER_NAMESPACE}})
    with honest.Namespace.of(cluster) as space:
        space.prepare((configuration.REPOSITORY / _GRAPH).read_text())
        numbers = itertools.count()
        alone, lost = _submit(space, numbers, seconds=max(minutes * 6, 10))
        report(f"alone: {len(alone)} honest jobs, median {statistics.median(alone):.2f} s")
        token = _tenant(cluster)
        ports = (installed.extender_port, cluster.free_port(installation.OPERATOR))
        with (
            weights.Weights(cluster, (*OURS, BESIDE)) as weighed,
            Attacker(
                cluster.client_for_token(token), attacks.endless(HOSTILE, seed=seed), rate=rate, ports=ports
            ) as attacker,
        ):
            beside: list[float] = []
            for minute in range(max(int(minutes), 1)):
                found, failed = _submit(space, numbers, seconds=60)
                beside += found
                lost += failed
                told = ", ".join(f"{name} {peak:.0f} MiB" for name, peak in weighed.peaks_mib.items())
                report(f"minute {minute + 1}: {len(found)} honest jobs; {attacker.taken.total()} attacks taken; {told}")
    return Soaked(
        minutes=minutes,
        rate=rate,
        alone=tuple(alone),
        beside=tuple(beside),
        failed=lost,
        peaks_mib=dict(weighed.peaks_mib),
        ends=dict(weighed.ends),
        taken=dict(attacker.taken),
        refused=dict(attacker.refused),
        unanswered=attacker.unanswered,
        halves=attacker.halves,
        dljobs=attacker.taken["DLJob"]
        + attacker.taken["large DLJob"]
        + attacker.taken["deep DLJob"]
        - attacker.taken["DLJob deleted"],
    )


def node_list() -> list[dict[str, Any]]:
    """Return the demo's nodes."""
    return nodes.demo()


def _submit(space: honest.Namespace, numbers: "itertools.count[int]", *, seconds: float) -> tuple[list[float], int]:
    """Honest jobs, one after the other, for so long: what each waited, and how many were not bound."""
    waited, failed, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            waited.append(space.wait_of_a_job(next(numbers)))
        except waiting.NotReadyError:
            failed += 1
        time.sleep(_PAUSE_SECONDS)
    return waited, failed


def _tenant(cluster: Cluster) -> str:
    """Return the token of somebody who may edit the hostile namespace."""
    client = cluster.client
    client.create(clients.path_of("namespaces"), {"metadata": {"name": HOSTILE}})
    client.create(clients.path_of("serviceaccounts", namespace=HOSTILE), {"metadata": {"name": "tenant"}})
    binding = {
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": HOSTILE}],
    }
    client.create(clients.path_of("rolebindings", group=_RBAC, namespace=HOSTILE), binding)
    return cluster.token(HOSTILE, "tenant")


def _policy() -> str:
    return clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
