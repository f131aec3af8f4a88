"""The soak: some minutes of honest jobs alone, then as many beside a hostile namespace."""

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import components, configuration, installation, nodes, waiting
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.hostile import honest, limits, measured, weights
from cotenant_e2e.hostile.attacker import Attacker, Order

HOSTILE: Final = "hostile"
OURS: Final = (installation.OPERATOR, installation.EXTENDER, components.COTENANT_SCHEDULER)
BESIDE: Final = (components.API_SERVER, components.DEFAULT_SCHEDULER)
"""Programs of the cluster that are weighed for comparison; no bar is set for them."""
GPUS_PER_NAMESPACE: Final = 8
"""`maxGPUsPerNamespace` of the PackingPolicy: the hostile namespace may fill so many of the twenty."""
_RBAC: Final = "rbac.authorization.k8s.io"
_GRAPH: Final = Path("manifests/examples/graphs/resnet50-64.json")
_PAUSE_SECONDS: Final = 0.5


def soak(
    installed: installation.Installation, *, minutes: float, rate: float, seed: int, report: Callable[[str], None]
) -> measured.Soaked:
    """Run it on a cluster of the demo's nodes with everything of ours."""
    cluster = installed.cluster
    cluster.client.patch(_policy(), {"spec": {"maxGPUsPerNamespace": GPUS_PER_NAMESPACE}})
    with honest.Namespace.of(cluster) as space:
        space.prepare((configuration.REPOSITORY / _GRAPH).read_text())
        numbers = itertools.count()
        alone = _submit(space, numbers, seconds=max(minutes * 6, 10))
        if not alone.dljobs:
            raise waiting.NotReadyError("honest DLJobs: none was bound before the first attack: see the logs")
        report(f"alone: {len(alone.dljobs)} honest DLJobs, median {measured.median(alone.dljobs):.2f} s")
        order = Order(
            settings=cluster.settings,
            token=_tenant(cluster),
            namespace=HOSTILE,
            seed=seed,
            rate=rate,
            ports=(installed.extender_port, cluster.free_port(installation.OPERATOR)),
        )
        parts = []
        with weights.Weights(cluster, (*OURS, *BESIDE)) as weighed, Attacker(order) as attacker:
            for minute in range(max(int(minutes), 1)):
                parts.append(_submit(space, numbers, seconds=60))
                report(f"minute {minute + 1}: {_told(parts[-1], attacker.sent(), weighed.peaks_mib)}")
    return measured.Soaked(
        minutes=minutes,
        rate=rate,
        alone=alone,
        beside=measured.together(parts),
        sent=attacker.sent(),
        peaks_mib=dict(weighed.peaks_mib),
        limits_mib=limits.of_chart(),
        ends=dict(weighed.ends),
    )


def _told(waits: measured.Waits, sent: measured.Sent, peaks_mib: Mapping[str, float]) -> str:
    weights_told = ", ".join(f"{name} {peak:.0f} MiB" for name, peak in peaks_mib.items())
    return f"{len(waits.dljobs)} honest DLJobs; {sum(sent.taken.values())} attacks taken; {weights_told}"


def node_list() -> list[dict[str, Any]]:
    """Return the demo's nodes."""
    return nodes.demo()


def _submit(space: honest.Namespace, numbers: "itertools.count[int]", *, seconds: float) -> measured.Waits:
    """Submit honest jobs, a DLJob and a plain Job in turns, for so long; return how long they waited."""
    dljobs, plain = _Tally(space.wait_of_a_dljob), _Tally(space.wait_of_a_plain_job)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for tally in (dljobs, plain):
            tally.add(next(numbers))
            time.sleep(_PAUSE_SECONDS)
    return measured.Waits(
        dljobs=tuple(dljobs.waits), plain=tuple(plain.waits), failed=dljobs.failed, plain_failed=plain.failed
    )


class _Tally:
    """Waits of one sort of job, and how many of them were not bound."""

    def __init__(self, wait: Callable[[int], honest.Wait]) -> None:
        self._wait = wait
        self.waits: list[honest.Wait] = []
        self.failed = 0

    def add(self, number: int) -> None:
        """Submit one more."""
        try:
            self.waits.append(self._wait(number))
        except waiting.NotReadyError:
            self.failed += 1


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
