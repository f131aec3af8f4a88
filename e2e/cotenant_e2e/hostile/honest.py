"""An honest namespace: one small DLJob after the other, and how long each waits until its pod is bound."""

import time
from dataclasses import dataclass
from typing import Final

from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Client, Json
from cotenant_e2e.cluster import Cluster

NAMESPACE: Final = "honest"
GRAPH: Final = "graph"
SECONDS: Final = 120
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Namespace:
    """It submits as administrator, and is served by the same operator and extender."""

    cluster: Cluster

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
        selector = f"{names.DLJOB_LABEL}={name}"
        pods = clients.path_of("pods", namespace=NAMESPACE)

        def bound() -> bool:
            return any(pod["spec"].get("nodeName") for pod in self._client.items(pods, labelSelector=selector))

        waiting.wait_until(bound, f"DLJob {name} bound", SECONDS, every_seconds=_LOOK_SECONDS)
        took = time.monotonic() - began
        self._client.delete(_dljobs(name))
        return took


def _dljobs(name: str = "") -> str:
    return clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=NAMESPACE, name=name)


def _job(name: str) -> Json:
    model = {"configMapRef": {"name": GRAPH, "key": "graph.json"}}
    template = {"spec": {"containers": [{"name": "main", "image": "x", "securityContext": rootless.PROVEN}]}}
    spec = {"model": model, "template": template}
    return {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": name}, "spec": spec}
