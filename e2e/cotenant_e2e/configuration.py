"""Writes what the components read: certificates, kubeconfigs, configuration files."""

import datetime as dt
import functools
import shutil
import ssl
import string
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml

from cotenant_api import errors
from cotenant_e2e import certificates, components, files, kubeconfigs
from cotenant_e2e import client as clients
from cotenant_e2e.components import Settings

REPOSITORY = Path(__file__).resolve().parents[2]
KUBERNETES = REPOSITORY / "e2e" / "kubernetes"
SCHEDULER_MANIFEST = REPOSITORY / "manifests" / "scheduler" / "kube-scheduler.yaml"
DATA = ("etcd", "pki", "config", "kubeconfigs", "kubectl-cache", "node")
"""The folders of a cluster that `down` removes."""


class Probe:
    """Whether a URL answers with 200; servers of this cluster are asked as administrator."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __call__(self, url: str) -> bool:
        """Within five seconds."""
        return clients.answers(url, self._tls if url.startswith("https:") else None)

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        return client_tls(self._settings, user="admin")


def locked(directory: Path) -> AbstractContextManager[None]:
    """Nobody else starts or stops the cluster in this folder during the block."""
    return files.locked(directory / "lock")


def prepare(directory: Path) -> None:
    """Empty folders for a new cluster."""
    for name in (*DATA, "logs"):
        shutil.rmtree(directory / name, ignore_errors=True)
        (directory / name).mkdir(mode=0o700)


def write(settings: Settings, *, now: dt.datetime) -> None:
    """Everything that the components of the control plane read."""
    node = certificates.Node(settings.node, components.NODE_ADDRESS) if settings.node else None
    certificates.write(settings.pki, addresses=sorted({components.SERVICE_IP, settings.host}), now=now, node=node)
    server = server_of(settings)
    for user in (*certificates.USERS, *(node.users if node else ())):
        certificate, key = ((settings.pki / f"{user}.{kind}").read_bytes() for kind in ("crt", "key"))
        kubeconfig = kubeconfigs.with_certificate(server, user=user, certificate=certificate, key=key)
        kubeconfigs.write(settings.kubeconfig(user), kubeconfig)
    _render("default-scheduler.yaml", settings, kubeconfig=settings.kubeconfig("scheduler"))
    shutil.copyfile(KUBERNETES / "config" / "kwok.yaml", settings.configuration("kwok.yaml"))
    if settings.audited:
        settings.configuration("audit.yaml").write_text(yaml.safe_dump(audit_policy(settings.audited)))


def audit_policy(user: str) -> dict[str, Any]:
    """Who asked for what, without bodies, of one user or one group of users: it costs the API server little."""
    kept = {"level": "Metadata", "omitStages": ["RequestReceived"]}
    rules = [{**kept, "users": [user]}, {**kept, "userGroups": [user]}, {"level": "None"}]
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}


def write_scheduler(settings: Settings, *, name: str, extender_port: int, weight: int | None = None) -> None:
    """Write the configuration of our kube-scheduler, from its manifest.

    `weight`: of the extender's scores, where kube-scheduler chooses among all nodes that the extender leaves; None: as
    shipped, where it leaves one.

    Raises:
        PermanentError: the manifest is not there, or has another variable than `extender_port` and `kubeconfig`.
    """
    values = {"extender_port": extender_port, "kubeconfig": settings.kubeconfig(name)}
    try:
        text = string.Template(SCHEDULER_MANIFEST.read_text()).substitute(values)
    except (OSError, KeyError, ValueError) as error:
        raise errors.PermanentError(f"{SCHEDULER_MANIFEST} cannot be used as template: {error}") from error
    if weight is not None:
        document = yaml.safe_load(text)
        document["extenders"][0] |= {"prioritizeVerb": "prioritize", "weight": weight}
        text = yaml.safe_dump(document)
    settings.configuration(f"{name}.yaml").write_text(text)


def server_of(settings: Settings) -> kubeconfigs.Server:
    """Return the API server as kubeconfigs name it."""
    return kubeconfigs.Server(settings.server, (settings.pki / "ca.crt").read_bytes())


def client_tls(settings: Settings, *, user: str | None) -> ssl.SSLContext:
    """Trusts this cluster alone. `user`: whose client certificate to show; None: nobody's."""
    tls = ssl.create_default_context(cafile=str(settings.pki / "ca.crt"))
    if user:
        tls.load_cert_chain(settings.pki / f"{user}.crt", settings.pki / f"{user}.key")
    return tls


def _render(name: str, settings: Settings, **values: object) -> None:
    template = string.Template((KUBERNETES / "config" / name).read_text())
    settings.configuration(name).write_text(template.substitute(values))
