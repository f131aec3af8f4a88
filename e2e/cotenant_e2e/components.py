"""Command line and readiness URL of every component. Pure: takes settings, starts nothing."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SERVICE_RANGE: Final = "10.96.0.0/16"
SERVICE_IP: Final = "10.96.0.1"

NODE_ADDRESS: Final = "10.244.0.1"
"""Of the real node: kubelet takes no loopback address."""

ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
DEFAULT_SCHEDULER: Final = "kube-scheduler"
KWOK: Final = "kwok"
COTENANT_SCHEDULER: Final = "cotenant-scheduler"
"""Our kube-scheduler, the one that asks the extender."""
KUBELET: Final = "kubelet"
KUBECTL: Final = "kubectl"
"""A program, not a component."""

PORT_NAMES: Final = ("etcd", "etcd-peer", API_SERVER, CONTROLLER_MANAGER, DEFAULT_SCHEDULER)
SIMULATED_NODE: Final = {"kwok.x-k8s.io/node": "fake"}
"""The annotation by which kwok knows its nodes."""

# No aggregated API server is used, but the other components complain without these.
_REQUEST_HEADERS = (
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
)
_UNLIMITED = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=10000",
    "--max-mutating-requests-inflight=10000",
)


@dataclass(frozen=True)
class Settings:
    """Where one cluster lives.

    Args:
        directory: everything of this cluster, absolute.
        host: IP address on which the API server answers.
        ports: by the names of `PORT_NAMES`, of kubelet where there is a real node, and those of further schedulers.
        programs: path of each Kubernetes program.
        lease_seconds: how long the lease of a simulated node lasts; more for many nodes.
        node: name of the real node; empty where there is none.
        audited: user, or group of users, whose requests the API server writes down; empty: nobody's.
        unlimited: the API server turns no request away, however many come at once.
    """

    directory: Path
    host: str
    ports: Mapping[str, int]
    programs: Mapping[str, Path]
    lease_seconds: int = 40
    node: str = ""
    audited: str = ""
    unlimited: bool = False

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self.host}:{self.ports[API_SERVER]}"

    def with_port(self, name: str, port: int) -> "Settings":
        """With one more port."""
        return dataclasses.replace(self, ports={**self.ports, name: port})

    @property
    def pki(self) -> Path:
        """The folder of certificates and keys."""
        return self.directory / "pki"

    @property
    def audit_log(self) -> Path:
        """What the API server was asked by those who are `audited`: a JSON line for each answer."""
        return self.directory / "logs" / "audit.log"

    def configuration(self, name: str) -> Path:
        """Return a component's configuration file."""
        return self.directory / "config" / name

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of this user."""
        return self.directory / "kubeconfigs" / f"{name}.conf"


@dataclass(frozen=True)
class Component:
    """One process. `ready`: a URL that must answer 200; empty where there is nothing to wait for."""

    name: str
    argv: tuple[str, ...]
    ready: str = ""


def etcd(s: Settings) -> Component:
    """Return etcd, which does not wait for the disk: no data here outlives the machine."""
    client, peer = (f"http://{s.host}:{s.ports[port]}" for port in ("etcd", "etcd-peer"))
    argv = (
        f"{s.programs[ETCD]}",
        "--name=e2e",
        f"--data-dir={s.directory}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=e2e={peer}",
        "--unsafe-no-fsync",
        # The only member waits for an election nobody contests; with the default it takes up to a second.
        "--heartbeat-interval=10",
        "--election-timeout=100",
        "--log-level=warn",
    )
    return Component(ETCD, argv, ready=f"{client}/health")


def api_server(s: Settings) -> Component:
    """MutatingAdmissionPolicy and ValidatingAdmissionPolicy are on by default."""
    argv = (
        f"{s.programs[API_SERVER]}",
        f"--etcd-servers=http://{s.host}:{s.ports['etcd']}",
        f"--advertise-address={s.host}",
        f"--client-ca-file={s.pki}/ca.crt",
        *_serving_flags(s, API_SERVER),
        *_REQUEST_HEADERS,
        f"--requestheader-client-ca-file={s.pki}/ca.crt",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={s.pki}/service-account.pub",
        f"--service-account-signing-key-file={s.pki}/service-account.key",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        # A loopback address is not a valid endpoint of the `kubernetes` Service.
        "--endpoint-reconciler-type=none",
        *(_kubelet_client_flags(s) if s.node else ()),
        *(_audit_flags(s) if s.audited else ()),
        *(_UNLIMITED if s.unlimited else ()),
    )
    return Component(API_SERVER, argv, ready=f"{s.server}/readyz")


def controller_manager(s: Settings) -> Component:
    """Every controller, each with its own account."""
    kubeconfig = s.kubeconfig("controller-manager")
    argv = (
        f"{s.programs[CONTROLLER_MANAGER]}",
        f"--kubeconfig={kubeconfig}",
        *_delegation_flags(kubeconfig),
        *_serving_flags(s, CONTROLLER_MANAGER),
        f"--root-ca-file={s.pki}/ca.crt",
        f"--service-account-private-key-file={s.pki}/service-account.key",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    )
    return Component(CONTROLLER_MANAGER, argv, ready=f"https://{s.host}:{s.ports[CONTROLLER_MANAGER]}/healthz")


def default_scheduler(s: Settings) -> Component:
    """Return the plain scheduler that every cluster has."""
    argv = (
        f"{s.programs[DEFAULT_SCHEDULER]}",
        f"--config={s.configuration('default-scheduler.yaml')}",
        *_delegation_flags(s.kubeconfig("scheduler")),
        *_serving_flags(s, DEFAULT_SCHEDULER),
    )
    return Component(DEFAULT_SCHEDULER, argv, ready=f"https://{s.host}:{s.ports[DEFAULT_SCHEDULER]}/readyz")


def cotenant_scheduler(s: Settings, *, name: str = COTENANT_SCHEDULER) -> Component:
    """Return a kube-scheduler with the rights of its ServiceAccount.

    Kubeconfig and configuration are named as it is.
    """
    argv = (
        f"{s.programs[DEFAULT_SCHEDULER]}",
        f"--config={s.configuration(f'{name}.yaml')}",
        *_delegation_flags(s.kubeconfig(name)),
        *_serving_flags(s, name),
    )
    # A scheduler that waits to be the leader is healthy, but not ready.
    return Component(name, argv, ready=f"https://{s.host}:{s.ports[name]}/healthz")


def kwok(s: Settings) -> Component:
    """Plays kubelet for nodes that carry its annotation."""
    ((annotation, value),) = SIMULATED_NODE.items()
    argv = (
        f"{s.programs[KWOK]}",
        f"--kubeconfig={s.kubeconfig('admin')}",
        f"--config={s.configuration('kwok.yaml')}",
        f"--manage-nodes-with-annotation-selector={annotation}={value}",
        f"--node-lease-duration-seconds={s.lease_seconds}",
        "--v=WARN",
    )
    return Component(KWOK, argv)


def kubectl(s: Settings, *arguments: str, user: str) -> list[str]:
    """Kubectl as this user. Its cache is the cluster's own: another cluster may once have had the same port."""
    return [
        f"{s.programs[KUBECTL]}",
        f"--kubeconfig={s.kubeconfig(user)}",
        f"--cache-dir={s.directory}/kubectl-cache",
        *arguments,
    ]


def _kubelet_client_flags(s: Settings) -> tuple[str, ...]:
    """For `kubectl logs` and `exec`: a node's name resolves nowhere here."""
    return (
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={s.pki}/ca.crt",
        f"--kubelet-client-certificate={s.pki}/apiserver-kubelet.crt",
        f"--kubelet-client-key={s.pki}/apiserver-kubelet.key",
    )


def _audit_flags(s: Settings) -> tuple[str, ...]:
    return (f"--audit-policy-file={s.configuration('audit.yaml')}", f"--audit-log-path={s.audit_log}")


def _serving_flags(s: Settings, name: str) -> tuple[str, ...]:
    certificate = s.pki / "server"
    return (
        f"--bind-address={s.host}",
        f"--secure-port={s.ports[name]}",
        f"--tls-cert-file={certificate}.crt",
        f"--tls-private-key-file={certificate}.key",
    )


def _delegation_flags(kubeconfig: Path) -> tuple[str, ...]:
    return (f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}")
