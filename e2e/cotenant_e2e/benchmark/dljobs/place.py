"""Where the operator is measured: a control plane that writes down what the operator asks of it."""

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_api import names
from cotenant_e2e import audit, binaries, components, installation, progress, startup, waiting
from cotenant_e2e import client as clients
from cotenant_e2e import cluster as clusters
from cotenant_e2e.audit import Request
from cotenant_e2e.benchmark import objects as common
from cotenant_e2e.benchmark import traffic, usage
from cotenant_e2e.benchmark.dljobs import objects
from cotenant_e2e.benchmark.node import weight
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

USER: Final = f"system:serviceaccount:{names.RELEASE_NAMESPACE}:{names.OPERATOR_ACCOUNT}"
SECONDS: Final = 600
_AT_REST: Final = (installation.OPERATOR, components.CONTROLLER_MANAGER)
QUIET_SECONDS: Final = 2.0
"""When the operator has asked nothing for so long, it may be done: that is looked at."""


@dataclass(frozen=True)
class Place:
    """A cluster."""

    cluster: Cluster

    @property
    def traffic(self) -> traffic.Traffic:
        """Many requests at once, as administrator."""
        return traffic.Traffic(self.cluster.kubeconfig())

    @property
    def log(self) -> Path:
        """What the operator asked."""
        return self.cluster.settings.audit_log

    def prepare(self) -> None:
        """Namespaces and graphs."""
        self.traffic.create(clients.path_of("namespaces"), objects.namespaces())
        for namespace in objects.NAMESPACES:
            account = clients.path_of("serviceaccounts", namespace=namespace, name="default")
            waiting.wait_until(functools.partial(self.cluster.client.find, account), f"account of {namespace}")
            self.traffic.create(clients.path_of("configmaps", namespace=namespace), objects.graphs(namespace))

    def dljobs(self) -> list[Json]:
        """All of the benchmark."""
        return [item for namespace in objects.NAMESPACES for item in self.cluster.client.items(objects.path(namespace))]

    def cpu_seconds(self) -> dict[str, float]:
        """Of every process until now."""
        return usage.cpu_seconds({status.name: status.pid for status in self.cluster.status() if status.alive})

    def settle(self) -> None:
        """Wait until the operator, and what makes its pods, are at rest; agents and schedulers never are."""
        pids = {s.name: s.pid for s in self.cluster.status() if s.alive and s.name in _AT_REST}
        usage.settle(pids, seconds=SECONDS)

    def weigh(self) -> weight.Weight:
        """Return what the operator takes."""
        return weight.of(self.cluster.process(installation.OPERATOR).pid)

    def asked(self, since: int) -> list[Request]:
        """Return what the operator has asked from a place in the log on."""
        return audit.of(self.log, since_bytes=since)

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Return when it is done; looked at when the operator is quiet, and now and then, as looking is costly."""
        size, changed, looked = audit.size(self.log), time.monotonic(), time.monotonic()

        def really() -> bool:
            nonlocal size, changed, looked
            now = time.monotonic()
            if audit.size(self.log) != size:
                size, changed = audit.size(self.log), now
            if now - max(changed, looked) < QUIET_SECONDS and now - looked < 10 * QUIET_SECONDS:
                return False
            looked = now
            return done()

        waiting.wait_until(really, what, SECONDS, every_seconds=0.1)


@contextmanager
def started(directory: Path, *, nodes: int) -> Iterator[Place]:
    """Yield a new control plane with everything of ours and so many nodes of eight simulated GPUs, for the block."""
    programs = binaries.find(environment=os.environ, progress=progress.of_terminal())
    clusters.down(directory)
    options = startup.Options(nodes=common.node_list(nodes), audited=USER)
    with startup.start(directory, programs, options) as cluster:
        installation.install(cluster)
        where = Place(cluster)
        where.prepare()
        yield where
