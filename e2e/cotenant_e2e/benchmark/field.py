"""The control plane on which everything is measured: API server and etcd, and only what a round starts beside them.

No kubelets, no controllers, no agents: whatever would do the same work with and without Cotenant would make their
ratio look better. GPUNodes and Leases are written once as agents would have written them.
"""

import contextlib
import datetime as dt
import functools
import http
import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

import yaml

from cotenant_api import conditions, names
from cotenant_api.names import NodeName
from cotenant_e2e import client as clients
from cotenant_e2e import components, installation, waiting
from cotenant_e2e.benchmark import metrics, objects, traffic, usage
from cotenant_e2e.cluster import Cluster

POLICY: Final = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
GPUNODES: Final = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION)
LEASES: Final = clients.path_of("leases", group="coordination.k8s.io", namespace=names.RELEASE_NAMESPACE)
PLAIN_SCHEDULER: Final = "plain-scheduler"
ALWAYS: Final = (components.ETCD, components.API_SERVER)
READY_SECONDS: Final = 120
LEASES_SECONDS: Final = 20
TIMED_OUT: Final = re.compile(r"Client\.Timeout|context deadline exceeded|request timed out", re.IGNORECASE)


class Field:
    """A cluster at rest, and what a round starts and stops on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.client = cluster, cluster.client
        self.traffic = traffic.Traffic(cluster.kubeconfig())
        self._nodes = [NodeName(item["metadata"]["name"]) for item in self.client.items(clients.path_of("nodes"))]
        self._port = cluster.free_port(installation.EXTENDER)

    def prepare(self) -> None:
        """Install Cotenant's objects, write what agents would, and stop everything that is not measured."""
        installation.apply_manifests(self.cluster)
        for kind in ("validatingadmissionpolicybindings", "mutatingadmissionpolicybindings"):
            path = clients.path_of(kind, group="admissionregistration.k8s.io")
            for item in self.client.items(path):
                self.client.patch(f"{path}/{item['metadata']['name']}", objects.exempting_patch(item))
        for namespace in objects.namespaces():
            self.client.create(clients.path_of("namespaces"), namespace)
            name = namespace["metadata"]["name"]
            account = clients.path_of("serviceaccounts", namespace=name, name="default")
            waiting.wait_until(functools.partial(self.client.find, account), f"default ServiceAccount of {name}")
        waiting.wait_until(self._exempt, "a namespace without Cotenant's admission")
        for name in (components.CONTROLLER_MANAGER, components.KWOK, components.DEFAULT_SCHEDULER):
            self.cluster.stop_process(name)
        gpunodes = [objects.gpunode(node, now=_now()) for node in self._nodes]
        self.traffic.create(GPUNODES, gpunodes)
        self.traffic.merge(
            (f"{GPUNODES}/{node}/status", {"status": body["status"]})
            for node, body in zip(self._nodes, gpunodes, strict=True)
        )
        self.traffic.create(LEASES, [objects.lease(node, now=_now()) for node in self._nodes])

    def _exempt(self) -> bool:
        """Return whether the API server judges by the changed bindings: some time passes before it does."""
        pod = objects.pod(0, namespace=objects.PLAIN, scheduler="none", gated=False)
        try:
            self.client.create(f"{clients.path_of('pods', namespace=objects.PLAIN)}?dryRun=All", pod)
        except clients.APIError as error:
            if error.code != http.HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            return False
        return True

    @contextlib.contextmanager
    def agents(self) -> Iterator["Agents"]:
        """Keep the agents' Leases for the block."""
        beating = Agents(self.renew_leases)
        beating.renew()
        beating.start()
        try:
            yield beating
        finally:
            beating.stop()

    def renew_leases(self) -> None:
        """Once."""
        change = {"spec": {"renewTime": _now()}}
        self.traffic.merge((f"{LEASES}/{names.AGENT_LEASE_PREFIX}{node}", change) for node in self._nodes)

    def pause(self, *, paused: bool) -> None:
        """Whether our queue lifts nothing."""
        self.client.patch(POLICY, {"spec": {"paused": paused}})

    def start_extender(self) -> None:
        """Start the extender; return when it serves."""
        token = self.cluster.token(names.RELEASE_NAMESPACE, names.SCHEDULER_ACCOUNT)
        kubeconfig = self.cluster.kubeconfig_for_token(installation.EXTENDER, token, namespace=names.RELEASE_NAMESPACE)
        self.cluster.log(installation.EXTENDER).unlink(missing_ok=True)
        argv = (installation.COTENANT, "extender", "--assume-leader", "--kubeconfig", kubeconfig)
        self.cluster.start_process(
            installation.EXTENDER, (*argv, "--port", str(self._port)), ready=self._url("healthz")
        )
        waiting.wait_until(lambda: b'"serving":true' in self._answer("readyz"), "serving extender", READY_SECONDS)

    def start_our_scheduler(self) -> None:
        """kube-scheduler as `manifests/scheduler` has it."""
        if self.client.find(f"{LEASES}/{names.SCHEDULER_LEASE}"):
            self.client.delete(f"{LEASES}/{names.SCHEDULER_LEASE}")
        self.cluster.log(components.COTENANT_SCHEDULER).unlink(missing_ok=True)
        self.cluster.start_scheduler(extender_port=self._port)

    def start_plain_scheduler(self) -> None:
        """kube-scheduler without us."""
        settings = self.cluster.settings
        port = self.cluster.free_port(PLAIN_SCHEDULER)
        settings = settings.with_port(PLAIN_SCHEDULER, port)
        configuration = objects.scheduler_configuration(str(settings.kubeconfig("scheduler")))
        settings.configuration(f"{PLAIN_SCHEDULER}.yaml").write_text(yaml.safe_dump(configuration))
        settings.kubeconfig(PLAIN_SCHEDULER).write_bytes(settings.kubeconfig("scheduler").read_bytes())
        component = components.cotenant_scheduler(settings, name=PLAIN_SCHEDULER)
        self.cluster.start_process(component.name, component.argv, ready=component.ready)

    def stop_all(self) -> None:
        """Everything that a round started."""
        running = {status.name for status in self.cluster.status()}
        for name in (components.COTENANT_SCHEDULER, PLAIN_SCHEDULER, installation.EXTENDER):
            if name in running:
                self.cluster.stop_process(name)

    def pids(self) -> dict[str, int]:
        """Of every process that is measured."""
        return {status.name: status.pid for status in self.cluster.status() if status.alive}

    def settle(self) -> None:
        """Wait until nothing of what went before is still being worked off."""
        usage.settle(self.pids())

    def clear(self, namespace: str) -> None:
        """Delete the pods of a namespace; returns when they are gone."""
        path = clients.path_of("pods", namespace=namespace)
        self.client.delete(path, gracePeriodSeconds="0")
        waiting.wait_until(lambda: not self.client.items(path, limit="1"), f"no pods in {namespace}", READY_SECONDS)

    def metrics(self) -> str:
        """Return the extender's, as text."""
        return self._answer("metrics").decode()

    def writes(self) -> dict[str, int]:
        """Return what was written through the API server since it was started."""
        return metrics.writes(self._counted())

    def turned_away(self) -> int:
        """Return how many requests the API server turned away since it was started."""
        return metrics.turned_away(self._counted())

    def _counted(self) -> str:
        """Return the API server's metrics, as text."""
        connection = http.client.HTTPSConnection(
            urlsplit(self.cluster.server).netloc, context=self.client.tls, timeout=READY_SECONDS
        )
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()

    def timeouts(self) -> int:
        """Lines of our kube-scheduler's log that tell of a request that timed out."""
        return len(TIMED_OUT.findall(self.cluster.log(components.COTENANT_SCHEDULER).read_text(errors="replace")))

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}/{path}"

    def _answer(self, path: str) -> bytes:
        """Return what the extender answers, whatever the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request("GET", f"/{path}")
            return connection.getresponse().read()
        finally:
            connection.close()


class Agents(threading.Thread):
    """Renews Leases, twice as seldom as agents do, so as to be seen as little as possible while the clock runs."""

    def __init__(self, renew: Callable[[], None]) -> None:
        super().__init__(name="leases", daemon=True)
        self._renew, self._stopped = renew, threading.Event()
        self._lock = threading.Lock()
        self._renewed = 0.0

    def renew(self) -> None:
        """Now; the next time is `LEASES_SECONDS` later."""
        with self._lock:
            self._renew()
            self._renewed = time.monotonic()

    def run(self) -> None:
        """Until stopped."""
        while not self._stopped.wait(1):
            if time.monotonic() - self._renewed >= LEASES_SECONDS:
                self.renew()

    def stop(self) -> None:
        """Stop it; return when it has ended."""
        self._stopped.set()
        self.join()


def _now() -> str:
    return conditions.micro_timestamp(dt.datetime.now(dt.UTC))
