"""Installs Cotenant on a cluster from `manifests/` and starts its processes, each with its own account's token.

Images and the chart's Deployments come later in the way of a release; here the same programs run as processes.
"""

import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import components, configuration, nodes, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

MANIFESTS: Final = configuration.REPOSITORY / "manifests"
COTENANT: Final = Path(sys.executable).with_name("cotenant")
EXTENDER: Final = "cotenant-extender"
OPERATOR: Final = "cotenant-operator"
AGENTS: Final = "cotenant-simulated-agents"
DASHBOARD: Final = "cotenant-dashboard"
READY_SECONDS: Final = 60
_NOT_YET_SERVED: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_PLURALS: Final[Sequence[str]] = ("dljobs", "gpunodes", "packingpolicies")


@dataclass(frozen=True)
class Installation:
    """Cotenant on a cluster. `extender_port`: on loopback."""

    cluster: Cluster
    extender_port: int

    def extender_url(self, path: str) -> str:
        """Return an address of the extender: `readyz`, `metrics`, `scheduler/filter`."""
        return f"http://127.0.0.1:{self.extender_port}/{path}"

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum over the samples of one of the extender's metrics that carry these labels.

        Raises:
            OSError: the extender does not answer.
        """
        with urllib.request.urlopen(self.extender_url("metrics"), timeout=10) as answer:  # noqa: S310 - loopback
            lines = answer.read().decode().splitlines()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        found = [
            line for line in lines if line.startswith((f"{name} ", f"{name}{{")) and all(w in line for w in wanted)
        ]
        return sum(float(line.rpartition(" ")[2]) for line in found)


def install(cluster: Cluster) -> Installation:
    """CRDs, RBAC, admission policies, the default policy, then every process; returns when all are ready."""
    apply_manifests(cluster)
    return start_processes(cluster)


def apply_manifests(cluster: Cluster) -> None:
    """Apply what the API server must know first.

    Returns when the CRDs are served and the admission policies in force.
    """
    cluster.kubectl("apply", "--server-side", "--kustomize", str(MANIFESTS))
    waiting.wait_until(lambda: _crds_are_established(cluster), "CRDs of cotenant.dev", READY_SECONDS)
    waiting.wait_until(lambda: _kinds_are_served(cluster), "kinds of cotenant.dev", READY_SECONDS)
    cluster.kubectl("apply", "--server-side", "--filename", str(MANIFESTS / "policy.yaml"))
    waiting.wait_until(lambda: _admission_is_in_force(cluster), "admission policies", READY_SECONDS)


def start_processes(cluster: Cluster) -> Installation:
    """Start extender, our kube-scheduler, operator and agents, at the same time."""
    port = cluster.free_port(EXTENDER)
    installation = Installation(cluster, port)
    with ThreadPoolExecutor(4) as pool:
        steps: list[Callable[[], object]] = [
            lambda: _start_extender(cluster, port),
            lambda: start_operator(cluster),
            lambda: start_agents(cluster),
            lambda: cluster.start_scheduler(extender_port=port),
        ]
        for started in [pool.submit(step) for step in steps]:
            started.result()
    waiting.wait_until(lambda: clients.answers(installation.extender_url("readyz")), "ready extender", READY_SECONDS)
    return installation


def choose_by(installation: Installation, *, weight: int | None) -> None:
    """Start extender and kube-scheduler again so that the latter chooses among all nodes that take a pod.

    `weight`: of the extender's scores in that choice; None: as shipped, the extender chooses. Returns when it serves.
    """
    cluster, port = installation.cluster, installation.extender_port
    # kube-scheduler gives its Lease back when it is stopped, so the next one leads at once.
    for name in (components.COTENANT_SCHEDULER, EXTENDER):
        cluster.stop_process(name)
    _start_extender(cluster, port, *(() if weight is None else ("--filter", "All")))
    cluster.start_scheduler(extender_port=port, weight=weight)
    waiting.wait_until(lambda: installation.metric("cotenant_extender_leading") == 1, "serving extender", READY_SECONDS)


def _start_extender(cluster: Cluster, port: int, *more: str) -> None:
    kubeconfig = kubeconfig_of(cluster, EXTENDER, names.SCHEDULER_ACCOUNT)
    flags = ("--kubeconfig", kubeconfig, "--port", str(port), "--namespace", names.RELEASE_NAMESPACE)
    cluster.start_process(EXTENDER, (COTENANT, "extender", *flags, *more), ready=f"http://127.0.0.1:{port}/healthz")


def start_operator(cluster: Cluster) -> None:
    """Start the operator; return when it answers, while it goes on reading what is there."""
    port = cluster.free_port(OPERATOR)
    kubeconfig = kubeconfig_of(cluster, OPERATOR, names.OPERATOR_ACCOUNT)
    # By one name: one that is killed is gone, and the next need not wait for its Lease to run out.
    flags = ("--kubeconfig", kubeconfig, "--liveness-port", str(port), "--identity", OPERATOR)
    cluster.start_process(OPERATOR, (COTENANT, "operator", *flags), ready=f"http://127.0.0.1:{port}/healthz")


def start_agents(cluster: Cluster) -> None:
    """One process runs the agents of all simulated nodes, each with a token that is bound to its Node."""
    simulated = cluster.client.items(clients.path_of("nodes"), labelSelector=nodes.SELECTOR)
    if not simulated:
        return
    agents = [_agent(cluster, node["metadata"]) for node in simulated]
    config = cluster.directory / "config" / "simulated-agents.yaml"
    config.write_text(yaml.safe_dump({"namespace": names.RELEASE_NAMESPACE, "agents": agents}))
    cluster.start_process(AGENTS, [COTENANT, "simulated-agents", "--config", config])
    wanted = {node["metadata"]["name"] for node in simulated}
    waiting.wait_until(lambda: _ready_gpu_nodes(cluster) >= wanted, f"{len(wanted)} GPUNodes", READY_SECONDS)


def start_dashboard(cluster: Cluster) -> str:
    """Where the administrator of this cluster finds it; returns before it answers."""
    port = cluster.free_port(DASHBOARD)
    flags = ("--kubeconfig", cluster.kubeconfig(), "--port", str(port))
    cluster.start_process(DASHBOARD, (COTENANT, "dashboard", *flags))
    return f"http://127.0.0.1:{port}/"


def _agent(cluster: Cluster, metadata: Mapping[str, Any]) -> Json:
    node = str(metadata["name"])
    kubeconfig = kubeconfig_of(cluster, f"node-agent-{node}", names.NODE_AGENT_ACCOUNT, bound_node=node)
    model = metadata["labels"][nodes.PRODUCT_LABEL]
    count = int(metadata["labels"][nodes.COUNT_LABEL])
    return {"node": node, "gpuModel": model, "gpus": count, "kubeconfig": str(kubeconfig)}


def kubeconfig_of(cluster: Cluster, name: str, account: str, *, bound_node: str | None = None) -> Path:
    """Write a kubeconfig with a token of one of our accounts; `bound_node`: see `Cluster.token`."""
    token = cluster.token(names.RELEASE_NAMESPACE, account, bound_node=bound_node)
    return cluster.kubeconfig_for_token(name, token, namespace=names.RELEASE_NAMESPACE)


def _crds_are_established(cluster: Cluster) -> bool:
    path = clients.path_of("customresourcedefinitions", group="apiextensions.k8s.io")
    ours = [crd for crd in cluster.client.items(path) if crd["spec"]["group"] == names.GROUP]
    return len(ours) == len(_PLURALS) and all(clients.is_true(crd, "Established") for crd in ours)


def _kinds_are_served(cluster: Cluster) -> bool:
    """Return whether the kinds are served.

    A moment after their CRDs say so, until when storage is "(re)initializing".
    """
    for plural in _PLURALS:
        try:
            cluster.client.get(clients.path_of(plural, group=names.GROUP, version=names.VERSION))
        except clients.APIError as error:
            if error.code in _NOT_YET_SERVED:
                return False
            raise
    return True


def _ready_gpu_nodes(cluster: Cluster) -> set[str]:
    path = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION)
    return {item["metadata"]["name"] for item in cluster.client.items(path) if clients.is_true(item, "Ready")}


def _admission_is_in_force(cluster: Cluster) -> bool:
    """Policies act a moment after they are stored: a pod that must be refused and one that must be changed tell.

    They come into force in the order of their names: that of users is the last one for pods.
    """
    path = f"{clients.path_of('pods', namespace='default')}?dryRun=All"
    try:
        changed = cluster.client.create(path, _probe(rootless.PROVEN))
    except clients.APIError as error:
        if "cotenant-pods" in error.message:
            # The validating policy is in force, the mutating one is not yet.
            return False
        raise
    if changed["spec"].get("schedulerName") != names.SCHEDULER_NAME:
        return False
    try:
        cluster.client.create(path, _probe({"runAsUser": 0}))
    except clients.APIError as error:
        return "cotenant-tenant-users" in error.message
    return False


def _probe(user: Json) -> Json:
    resources = {"limits": {names.GPU_SHARE: "1"}}
    container = {"name": "main", "image": "none", "resources": resources, "securityContext": user}
    metadata = {"name": "admission-probe"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
