"""An honest namespace: one small job after the other, and how long each waits until its pod is bound.

DLJobs are what is judged. Plain Jobs of the same namespace take turns with them: they meet no program of ours, so what
they wait beside an attack is the cluster's part. Pods are watched: to list them again and again would be an attack of
its own.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import waiting, watching
from cotenant_e2e.client import Client, Json
from cotenant_e2e.cluster import Cluster

NAMESPACE: Final = "honest"
GRAPH: Final = "graph"
SECONDS: Final = 120
_LOOK_SECONDS: Final = 1.0
_JOB_NAME: Final = "batch.kubernetes.io/job-name"


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Seconds from the request for a job.

    Attributes:
        stored: until the API server answered the request.
        made: until its pod was there.
        free: until no scheduling gate held its pod; of a pod without a gate, the same as `made`.
        bound: until its pod was bound.
    """

    stored: float
    made: float
    free: float
    bound: float


class _Sort(NamedTuple):
    """A sort of job. `path`: of the collection; `label`: of its pods, with its name; `body`: of its request."""

    path: str
    label: str
    body: Json


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

    def wait_of_a_dljob(self, number: int) -> Wait:
        """Return how long a DLJob waited. It is deleted afterwards.

        Raises:
            NotReadyError: not bound within two minutes.
        """
        return self._wait(f"job-{number:05}", _dljob(f"job-{number:05}"))

    def wait_of_a_plain_job(self, number: int) -> Wait:
        """Return how long a Job of Kubernetes waited, which asks for no share. It is deleted afterwards.

        Raises:
            NotReadyError: not bound within two minutes.
        """
        return self._wait(f"plain-{number:05}", _plain(f"plain-{number:05}"))

    def _wait(self, name: str, sort: _Sort) -> Wait:
        began = time.monotonic()
        self._client.create(sort.path, sort.body)
        stored = time.monotonic() - began
        try:
            seen = self._followed(name, sort.label, began=began)
        finally:
            self._client.delete(f"{sort.path}/{name}", propagationPolicy="Background")
        return Wait(stored=stored, made=seen["made"], free=seen["free"], bound=seen["bound"])

    def _followed(self, name: str, label: str, *, began: float) -> Mapping[str, float]:
        """Return when the pod of a job was there, was held by no gate and was bound. Raises NotReadyError."""
        seen: dict[str, float] = {}
        while time.monotonic() - began < SECONDS:
            for event in self.pods.events(seconds=_LOOK_SECONDS):
                if event.object["metadata"].get("labels", {}).get(label) != name:
                    continue
                now = time.monotonic() - began
                seen.setdefault("made", now)
                if not event.object["spec"].get("schedulingGates"):
                    seen.setdefault("free", now)
                if event.object["spec"].get("nodeName"):
                    return {**seen, "bound": now}
        raise waiting.NotReadyError(f"{name} bound: not within {SECONDS} seconds")


def _dljob(name: str) -> _Sort:
    model = {"configMapRef": {"name": GRAPH, "key": "graph.json"}}
    template = {"spec": {"containers": [{"name": "main", "image": "x", "securityContext": rootless.PROVEN}]}}
    body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": name}}
    path = clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=NAMESPACE)
    return _Sort(path, names.DLJOB_LABEL, body | {"spec": {"model": model, "template": template}})


def _plain(name: str) -> _Sort:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}
    return _Sort(clients.path_of("jobs", group="batch", namespace=NAMESPACE), _JOB_NAME, body)
