"""What the cluster tests submit and ask: a namespace with DLJobs, pods and graphs in it."""

import functools
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from cotenant_api import errors, graph, names, rootless
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.background import Background
from cotenant_e2e.client import Client, Json
from cotenant_e2e.demo.follow import PODS, Run
from cotenant_e2e.installation import Installation
from cotenant_e2e.watching import Follower

SECONDS = 180
RUN_FOR = "demo.cotenant.dev/run-for"
CONTAINER: Json = {"name": "main", "image": "registry.example/train:1", "securityContext": rootless.PROVEN}
"""A container that may share a GPU."""


def graph_document(name: str = "small", *, flops: int = 10**9, repeat: int = 100) -> graph.Graph:
    """A training step that keeps a GPU partly busy."""
    operator = {
        "class": "matmul",
        "name": "aten::mm",
        "phase": "Forward",
        "repeat": repeat,
        "flops": flops,
        "bytesRead": 10**6,
        "bytesWritten": 10**6,
        "outputElements": 10**6,
        "dims": {"m": 1024, "n": 1024, "k": 512},
    }
    document = {
        "name": name,
        "mode": "Training",
        "batchSize": 32,
        "parameters": 10**7,
        "parameterBytes": 4 * 10**7,
        "savedActivationBytes": 10**8,
        "inputBytesPerStep": 10**6,
        "criticalPathOperators": repeat,
        "optimizer": "adamw",
        "operators": [operator],
    }
    return graph.Graph.from_object(document, source="test").sealed()


def template(*, run_for: str = "1s", **spec: Any) -> Json:
    """A pod template that kwok runs for so long."""
    annotations = {RUN_FOR: run_for} if run_for else {}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [CONTAINER], **spec}}


@dataclass(frozen=True)
class Workspace:
    """One namespace on an installation."""

    installation: Installation
    namespace: str

    @property
    def client(self) -> Client:
        """The administrator's."""
        return self.installation.cluster.client

    # --- submitting

    def create(self) -> None:
        """Make the namespace."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.client.create(clients.path_of("namespaces"), body)

    def remove(self) -> None:
        """Delete everything; returns when no pod is left."""
        for path in (self.dljobs(), self.jobs(), self.deployments()):
            waiting.wait_until(functools.partial(self._emptied, path, propagationPolicy="Foreground"), path, SECONDS)
        waiting.wait_until(functools.partial(self._emptied, self.pods()), self.pods(), SECONDS)
        waiting.wait_until(lambda: not self.client.items(self.pods()), f"no pods in {self.namespace}", SECONDS)
        self.client.delete(clients.path_of("namespaces", name=self.namespace))

    def _emptied(self, path: str, **query: str) -> bool:
        """Return whether a deletion of many was answered in time: they may be large."""
        try:
            self.client.delete(path, **query)
        except errors.TemporaryError:
            return False
        return True

    def dljob(self, name: str, **spec: Any) -> Json:
        """Create a DLJob; without `template` it is one that runs for a second."""
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "DLJob",
            "metadata": {"name": name},
            "spec": {"template": template()} | spec,
        }
        return self.client.create(self.dljobs(), body)

    def graph(self, name: str, document: graph.Graph | None = None, *, data: str | None = None) -> Json:
        """Put a graph document into a ConfigMap; the reference to it, for `model.configMapRef`."""
        text = data if data is not None else (document or graph_document()).to_json()
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"graph.json": text}}
        self.client.create(clients.path_of("configmaps", namespace=self.namespace), body)
        return {"configMapRef": {"name": name, "key": "graph.json"}}

    def pod(self, name: str, share: int | str = 40, **changes: Any) -> Json:
        """Create a pod of nobody's that asks for a share; changes other than `annotations` go into its spec."""
        return self.client.create(self.pods(), pod_object(name, share, **changes))

    def end_pods(self, dljob: str) -> None:
        """Pods of a DLJob that run for ever (`template(run_for="")`) succeed now."""
        notes = {"metadata": {"annotations": {RUN_FOR: "0s"}}}
        for pod in self.client.items(self.pods(), labelSelector=f"{names.DLJOB_LABEL}={dljob}"):
            self.client.patch(self.pods(pod["metadata"]["name"]), notes)

    # --- asking

    def status(self, name: str) -> Json:
        """A DLJob's status."""
        return dict(self.client.get(self.dljobs(name)).get("status") or {})

    def phase(self, name: str) -> str:
        """A DLJob's phase; empty before the operator has seen it."""
        return str(self.status(name).get("phase", ""))

    def condition(self, name: str, kind: str) -> Json:
        """A DLJob's condition; empty before there is one."""
        conditions = self.status(name).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def wait_for_phase(self, name: str, phase: Phase, seconds: float = SECONDS) -> Json:
        """The status when the phase is reached."""

        def reached() -> bool:
            found = self.phase(name)
            if found == Phase.FAILED and phase is not Phase.FAILED:
                raise waiting.NotReadyError(f"{name} has failed: {self.condition(name, 'Failed')}")
            return found == phase

        waiting.wait_until(reached, f"{self.namespace}/{name} {phase}", seconds)
        return self.status(name)

    def wait_for_condition(self, name: str, kind: str, status: str, reason: str = "") -> Json:
        """The condition when it has this status (and reason)."""

        def holds() -> bool:
            found = self.condition(name, kind)
            return found.get("status") == status and (not reason or found.get("reason") == reason)

        waiting.wait_until(holds, f"{kind}={status} {reason} of {self.namespace}/{name}", SECONDS)
        return self.condition(name, kind)

    def wait_for_message(self, name: str, kind: str, words: str) -> None:
        """Until the condition says these words: its message follows the pods, later than its status."""

        def says() -> bool:
            return words in str(self.condition(name, kind).get("message", ""))

        waiting.wait_until(says, f"{words!r} in {kind} of {self.namespace}/{name}", SECONDS)

    def bound_pod(self, name: str) -> Json:
        """A pod when it is bound."""

        def bound() -> bool:
            return bool(self.client.get(self.pods(name))["spec"].get("nodeName"))

        waiting.wait_until(bound, f"{self.namespace}/{name} bound", SECONDS)
        return self.client.get(self.pods(name))

    def packed(self, name: str) -> Json:
        """The extender's condition of a pod; empty before there is one."""
        conditions = self.client.get(self.pods(name)).get("status", {}).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == names.PACKED), {})

    def events(self) -> list[Json]:
        """Events of the namespace."""
        return self.client.items(clients.path_of("events", namespace=self.namespace))

    # --- paths

    def dljobs(self, name: str = "") -> str:
        """Path of the DLJobs, or of one."""
        return clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=self.namespace, name=name)

    def jobs(self) -> str:
        """Path of the Jobs."""
        return clients.path_of("jobs", group="batch", namespace=self.namespace)

    def deployments(self) -> str:
        """Path of the Deployments."""
        return clients.path_of("deployments", group="apps", namespace=self.namespace)

    def pods(self, name: str = "") -> str:
        """Path of the pods, or of one."""
        return clients.path_of("pods", namespace=self.namespace, name=name)


def pod_object(name: str, share: int | str = 40, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A pod that asks for a share."""
    container = CONTAINER | {"resources": {"limits": {names.GPU_SHARE: str(share)}}}
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def placement_of(pod: Json) -> Json:
    """A bound pod's placement document."""
    return dict(json.loads(pod["metadata"]["annotations"][names.PLACEMENT]))


class Watchdog(Background):
    """Follows every pod in the background; at its end no promise may have been broken at any moment."""

    def __init__(self, client: Client) -> None:
        self._run = Run.of(client)
        self._follower = Follower(client, PODS)
        self._stack = ExitStack()
        super().__init__(self._follow, every_seconds=0)

    def __enter__(self) -> Self:
        self._stack.enter_context(self._follower)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            super().__exit__(kind, error, trace)

    @property
    def violations(self) -> list[str]:
        """Broken promises so far."""
        return list(self._run.occupancy.violations)

    def placed(self) -> int:
        """How many pods have been bound so far."""
        return sum(1 for one in list(self._run.occupancy.timelines.values()) if one.bound is not None)

    def pods(self, *namespaces: str) -> list[Json]:
        """The pods of these namespaces that ask for a share, as the last events show them."""
        return [pod for pod in list(self._run.pods.values()) if pod["metadata"]["namespace"] in namespaces]

    def fits(self, pod: Json) -> bool:
        """Whether some GPU would take a pod without prediction now, by the events so far."""
        return bool(self._run.occupancy.invariants.takers(pod))

    def _follow(self) -> None:
        self._run.take((), self._follower.events(seconds=0.1), now=0)
