"""Kueue on a cluster: built from its Go module, with its own CRDs and webhooks, as a process on loopback.

It runs as administrator: its own rights are not what is tested here.
"""

import base64
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from cotenant_api import errors
from cotenant_e2e import binaries, commandline, progress, recipes, toolchain, versions, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

NAME: Final = "kueue"
NAMESPACE: Final = "kueue-system"
GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
CERTIFICATE: Final = "kueue-webhook-server-cert"
HOST: Final = "127.0.0.1"
READY_SECONDS: Final = 60
_PREFIX: Final = "loopback-"
"""Not the names under which Kueue looks for webhooks to write its own authority into."""
_PORTS: Final = ("webhooks", "health")
_KINDS: Final = ("job", "deployment", "pod", "workload", "clusterqueue", "resourceflavor", "cohort")
"""Of the other kinds that Kueue manages there are none here."""
_MANAGED: Final = {"kueue": "managed"}
"""Label of the namespaces in which Kueue manages all Jobs, those that name no queue included."""
_CRDS: Final = Path("components/crd")
_WEBHOOKS: Final = Path("components/webhook/manifests.yaml")


def start(cluster: Cluster) -> None:
    """Install Kueue and start it; returns when it answers and its webhooks are in force.

    Raises:
        PermanentError: it cannot be built, or its manifests cannot be downloaded.
        NotReadyError: it is not ready in time.
    """
    shown = progress.PlainProgress(sys.stderr)
    found = binaries.find(environment=os.environ, progress=shown, programs=(versions.KUEUE,))
    manifests = _manifests(found[NAME], shown)
    ports = {name: cluster.free_port(f"{NAME}-{name}") for name in _PORTS}
    cluster.client.create(clients.path_of("namespaces"), {"metadata": {"name": NAMESPACE}})
    secret = {"metadata": {"name": CERTIFICATE}}
    cluster.client.create(clients.path_of("secrets", namespace=NAMESPACE), secret)
    for crd in crds(manifests / _CRDS):
        cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=crd)
    waiting.wait_until(lambda: _crds_are_established(cluster), "CRDs of Kueue", READY_SECONDS)
    config = cluster.directory / "config" / "kueue.yaml"
    config.write_text(yaml.safe_dump(configuration(ports, certificates=_certificates(cluster))))
    argv = (found[NAME], "--config", config, "--kubeconfig", cluster.kubeconfig())
    cluster.start_process(NAME, argv, ready=f"http://{HOST}:{ports['health']}/readyz", seconds=READY_SECONDS)
    authority = (cluster.settings.pki / "ca.crt").read_bytes()
    for webhook in webhooks((manifests / _WEBHOOKS).read_text(), port=ports["webhooks"], authority=authority):
        cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=webhook)


def stop(cluster: Cluster) -> None:
    """Stop Kueue and take its webhooks away: nothing answers them any more."""
    for kind in ("mutating", "validating"):
        name = f"{_PREFIX}{kind}-webhook-configuration"
        cluster.kubectl("delete", f"{kind}webhookconfigurations", name, "--ignore-not-found")
    cluster.stop_process(NAME)


def create_queue(cluster: Cluster, namespace: str, *, quota: dict[str, str]) -> None:
    """Create a queue named as its namespace, with a quota of its own.

    `quota`: what of each resource its jobs may hold together.
    """
    flavor = f"{namespace}-flavor"
    cluster.client.create(path("resourceflavors"), _object("ResourceFlavor", flavor, {}))
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    flavors = [{"name": flavor, "resources": resources}]
    groups = [{"coveredResources": list(quota), "flavors": flavors}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    cluster.client.create(path("clusterqueues"), _object("ClusterQueue", namespace, spec))
    cluster.client.patch(clients.path_of("namespaces", name=namespace), {"metadata": {"labels": _MANAGED}})
    queue = _object("LocalQueue", namespace, {"clusterQueue": namespace})
    cluster.client.create(path("localqueues", namespace=namespace), queue)


def path(plural: str, *, namespace: str = "", name: str = "") -> str:
    """Return the path of Kueue's objects."""
    return clients.path_of(plural, group=GROUP, version=VERSION, namespace=namespace, name=name)


def configuration(ports: dict[str, int], *, certificates: Path) -> Json:
    """Kueue's configuration: Jobs, Deployments and pods; no leader, nothing served but webhooks and health."""
    return {
        "apiVersion": f"config.{GROUP}/{VERSION}",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{HOST}:{ports['health']}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": HOST, "port": ports["webhooks"], "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        # Without its own management it reads certificates of the metrics that are not served, from /etc.
        "internalCertManagement": {"enable": True, "webhookSecretName": CERTIFICATE},
        "integrations": {"frameworks": ["batch/job", "deployment", "pod"]},
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": _MANAGED},
        "featureGates": {"VisibilityOnDemand": False},
    }


def crds(folder: Path) -> Iterator[Json]:
    """Its CRDs, with their conversion webhooks: never called, as every object here is of the version that is stored."""
    for path_of_one in sorted((folder / "bases").glob("*.yaml")):
        crd: Json = yaml.safe_load(path_of_one.read_text())
        patch = folder / "patches" / f"webhook_in_{crd['spec']['names']['plural']}.yaml"
        if patch.exists():
            crd["spec"] |= yaml.safe_load(patch.read_text())["spec"]
        yield crd


def webhooks(manifests: str, *, port: int, authority: bytes) -> list[Json]:
    """Its webhook configurations for the kinds that are there, called on loopback."""
    found = []
    for value in yaml.safe_load_all(manifests):
        kept = [one for one in value["webhooks"] if one["name"][1:].removesuffix(".kb.io") in _KINDS]
        for one in kept:
            url = f"https://{HOST}:{port}{one['clientConfig']['service']['path']}"
            one["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority).decode()}
        value["metadata"]["name"] = f"{_PREFIX}{value['metadata']['name']}"
        found.append({**value, "webhooks": kept})
    return found


def _manifests(program: Path, shown: progress.Progress) -> Path:
    """Return the folder `config` of the module that the program was built from, kept beside it."""
    kept = program.parent / "config"
    if not kept.exists():
        go = toolchain.find(
            binaries.TOOLS / "go.txt",
            cache=binaries.cache_directory(os.environ),
            environment=os.environ,
            progress=shown,
        )
        partial = kept.with_name(f".config.{os.getpid()}.partial")
        shutil.copytree(_module(go) / "config", partial, dirs_exist_ok=True)
        # Downloaded files are read-only.
        for folder in (partial, *(one for one in partial.rglob("*") if one.is_dir())):
            folder.chmod(0o755)
        partial.rename(kept)
    return kept


def _module(go: Path) -> Path:
    """Where Go keeps the module."""
    lines: list[str] = []
    argv = [str(go), "mod", "download", "-json", recipes.KUEUE]
    environment = recipes.go_environment(os.environ)
    with Path(os.devnull).open("w") as log:
        code = commandline.follow(
            argv, environment=environment, directory=binaries.TOOLS / NAME, log=log, line=lines.append
        )
    if code:
        raise errors.PermanentError(recipes.explanation(lines, command="mod download", log=Path(os.devnull)))
    answer: dict[str, Any] = json.loads("".join(lines))
    return Path(answer["Dir"])


def _certificates(cluster: Cluster) -> Path:
    """Return the folder of its webhook server's certificate: that of the API server is good for loopback too."""
    folder = cluster.directory / "config" / "kueue-certificates"
    folder.mkdir(exist_ok=True)
    for name in ("crt", "key"):
        shutil.copy(cluster.settings.pki / f"server.{name}", folder / f"tls.{name}")
    return folder


def _crds_are_established(cluster: Cluster) -> bool:
    crds = cluster.client.items(clients.path_of("customresourcedefinitions", group="apiextensions.k8s.io"))
    ours = [crd for crd in crds if crd["spec"]["group"] == GROUP]
    return bool(ours) and all(clients.is_true(crd, "Established") for crd in ours)


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}
