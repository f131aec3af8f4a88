"""The real node of the benchmark: pods come, begin and go; the agent is read."""

import time
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.benchmark import traffic
from cotenant_e2e.benchmark.node import calls, pods, weight
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.node import agents, real
from cotenant_e2e.node.agents import GPUs
from cotenant_standin import state

NODE: Final = "gpu-0"
NAMESPACE: Final = "bench-node"
GPUS: Final = 8
TENANTS: Final = 16
"""More than PackingPolicy allows by default: 110 pods are to fit eight GPUs."""
SECONDS: Final = 180
LOOK_SECONDS: Final = 0.1
"""When a container has begun, its log tells exactly, however late that is read."""


@dataclass(frozen=True)
class Place:
    """One namespace of a cluster with a real node."""

    gpus: GPUs

    @property
    def cluster(self) -> Cluster:
        """The control plane."""
        return self.gpus.node.cluster

    @property
    def path(self) -> str:
        """Of the pods."""
        return clients.path_of("pods", namespace=NAMESPACE)

    def create(self, bodies: Iterable[Json]) -> list[Json]:
        """Create all, many at a time; as they are then."""
        traffic.Traffic(self.cluster.kubeconfig()).create(self.path, bodies)
        return self.cluster.client.items(self.path)

    def wait_until_begun(self, created: Sequence[Json]) -> float:
        """Unix seconds at which the last of these had printed something."""
        began: dict[str, float] = {}

        def all_have() -> bool:
            for pod in created:
                if pod["metadata"]["uid"] not in began and (moment := self._began_at(pod)):
                    began[pod["metadata"]["uid"]] = moment
            return len(began) == len(created)

        try:
            waiting.wait_until(all_have, f"{len(created)} containers", SECONDS, every_seconds=LOOK_SECONDS)
        except waiting.NotReadyError as error:
            raise waiting.NotReadyError(f"{error}; {len(began)} have begun") from error
        return max(began.values())

    def _began_at(self, pod: Json) -> float | None:
        metadata = pod["metadata"]
        folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        try:
            return pods.began_at((self.gpus.node.layout.folder / "pod-logs" / folder / "main" / "0.log").read_text())
        except FileNotFoundError:
            return None

    def wait_until_told(self, count: int) -> None:
        """Return when the GPUNode lists so many tenants, each with the memory that it holds."""

        def told() -> bool:
            tenants = [tenant for gpu in self.gpus.status()["gpus"] for tenant in gpu["tenants"]]
            return sum(int(tenant["memoryUsedMiB"]) > 0 for tenant in tenants) == count

        waiting.wait_until(told, f"{count} tenants with their memory in the GPUNode", SECONDS, every_seconds=0.5)

    def clear(self) -> None:
        """Delete all pods; returns when nothing of them runs on the node. kubelet removes what has ended at leisure."""
        self.cluster.client.delete(self.path, gracePeriodSeconds="0")

        def gone() -> bool:
            running = self.gpus.node.ctr("tasks", "list", "--quiet").split()
            return not running and not self.cluster.client.items(self.path)

        waiting.wait_until(gone, "end of all containers", SECONDS, every_seconds=LOOK_SECONDS)

    def wait_until_forgotten(self) -> None:
        """Return when no GPU has a tenant any more."""

        def forgotten() -> bool:
            return not any(gpu["tenants"] for gpu in self.gpus.status()["gpus"])

        waiting.wait_until(forgotten, "GPUNode without tenants", SECONDS, every_seconds=0.5)

    # --- the agent

    def read_calls(self) -> dict[calls.Key, calls.Calls]:
        """All calls of kubelet that the agent has answered."""
        url = f"http://127.0.0.1:{self.gpus.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return calls.read(answer.read().decode())

    def weigh(self) -> weight.Weight:
        """Return what the agent takes."""
        return weight.of(self.cluster.process(agents.AGENT).pid)


def prepare(cluster: Cluster) -> Place:
    """Put node, GPUs and Cotenant into a cluster that has neither."""
    real.create(cluster)
    installation.install(cluster)
    gpus = agents.add_to(real.of(cluster), (state.H200,) * GPUS)
    policy = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
    cluster.client.patch(policy, {"spec": {"maxTenantsPerGPU": TENANTS}})
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    cluster.client.create(clients.path_of("namespaces"), body)
    account = clients.path_of("serviceaccounts", namespace=NAMESPACE, name="default")
    waiting.wait_until(lambda: cluster.client.find(account), f"account of {NAMESPACE}", SECONDS)
    return Place(gpus)


def unix_seconds(monotonic: float) -> float:
    """Return the time of day of a moment of the monotonic clock."""
    return time.time() - time.monotonic() + monotonic
