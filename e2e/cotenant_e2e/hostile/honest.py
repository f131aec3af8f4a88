"""An honest namespace: one small DLJob after the other, and how long each waits until its pod is bound.

Its pods are watched: to list them again and again would be an attack of its own.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import waiting, watching
from cotenant_e2e.client import Client, Json
from cotenant_e2e.cluster import Cluster

NAMESPACE: Final = "honest"
GRAPH: Final = "graph"
SECONDS: Final = 120
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Namespace:
    """It submits as administrator, and is served by the same operator and extender. `pods`: follows its pods."""

    cluster: Cluster
    pods: watching.Follower

    @classmethod
    @contextmanager
    def of(cls, cluster: Cluster) -> "Iterator[Namespace]":
        """Follow its pods for the block."""
        with watching.Follower(cluster.client, clients.path_of("pods", namespace=NAMESPACE)) as pods:
            yield cls(cluster, pods)

    @property
    def _client(self) -> Client:
        return self.cluster.client

    def prepare(self, graph: str) -> None:
        """Make the namespace and the graph of its jobs."""
        self._client.create(clients.path_of("namespaces"), {"metadata": {"name": NAMESPACE}})
        account = clients.path_of("serviceaccounts", namespace=NAMESPACE, name="default")
        waiting.wait_until(lambda: self._client.find(account), f"account of {NAMESPACE}")
        body = {"metadata": {"name": GRAPH}, "data": {"graph.json": graph}}
        self._client.create(clients.path_of("configmaps", namespace=NAMESPACE), body)

    def wait_of_a_job(self, number: int) -> float:
        """Seconds from the request for a DLJob until its pod is bound. The job is deleted afterwards.

        Raises:
            NotReadyError: not within two minutes.
        """
        name = f"job-{number:05}"
        began = time.monotonic()
        self._client.create(_dljobs(), _job(name))
        try:
            while not any(_is_bound(event.object, name) for event in self.pods.events(seconds=_LOOK_SECONDS)):
                if time.monotonic() - began > SECONDS:
                    raise waiting.NotReadyError(f"DLJob {name} bound: not within {SECONDS} seconds")
            return time.monotonic() - began
        finally:
            self._client.delete(_dljobs(name))


def _is_bound(pod: Json, dljob: str) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["metadata"].get("labels", {}).get(names.DLJOB_LABEL) == dljob


def _dljobs(name: str = "") -> str:
    return clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=NAMESPACE, name=name)


def _job(name: str) -> Json:
    model = {"configMapRef": {"name": GRAPH, "key": "graph.json"}}
    template = {"spec": {"containers": [{"name": "main", "image": "x", "securityContext": rootless.PROVEN}]}}
    spec = {"model": model, "template": template}
    return {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": name}, "spec": spec}
