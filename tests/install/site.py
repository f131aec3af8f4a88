"""A real node on which the chart is installed by helm: everything of ours runs in containers of our images.

Only what a machine without GPUs lacks is a stand-in: driver and MPS, and NVIDIA's container runtime, which puts them
into the containers that ask for them.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from cotenant_api import names
from cotenant_e2e import charts, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.helm import Helm
from cotenant_e2e.node import images, service
from cotenant_e2e.node.agents import GPUs
from cotenant_standin import building, container_runtime
from install import releases
from install.releases import Releases

SECONDS: Final = 120
NAMESPACE: Final = names.RELEASE_NAMESPACE
RUNTIME_CLASS: Final = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
SECRETS: Final = f"global.imagePullSecrets[0].name={releases.PULL_SECRET}"
"""The only value that an installation from the registry needs."""
HOOKS: Final = ("cotenant-uninstall", "cotenant-test")


@dataclass(frozen=True)
class Site:
    """The node with its stand-in GPUs, helm, and the releases in the registry."""

    gpus: GPUs
    helm: Helm
    releases: Releases

    @property
    def cluster(self) -> Cluster:
        """Its control plane."""
        return self.gpus.node.cluster

    def prepare(self) -> None:
        """What an admin does before the installation, and what NVIDIA's packages bring."""
        node, client = self.gpus.node, self.cluster.client
        service.start(self.cluster)
        container_runtime.install(node.layout.nvidia_runtime.parent, nvml=building.nvml(), cuda=building.cuda())
        self.gpus.start_driver()
        client.create(clients.path_of("runtimeclasses", group="node.k8s.io"), RUNTIME_CLASS)
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        client.create(clients.path_of("namespaces"), namespace)
        self._import_scheduler()
        registry = self.releases.registry
        node.trust(registry.host, registry.ca)
        login = base64.b64encode(registry.logins.read_bytes()).decode()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": releases.PULL_SECRET},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": login},
        }
        client.create(clients.path_of("secrets", namespace=NAMESPACE), secret)

    def _import_scheduler(self) -> None:
        """Kubernetes' own image, made of the program that this kit builds."""
        values = yaml.safe_load((charts.CHART / "values.yaml").read_text())
        image = values["scheduler"]["kubeScheduler"]["image"]
        reference = f"{image['registry']}/{image['repository']}:{image['tag']}"
        archive = self.gpus.node.layout.folder / "kube-scheduler.tar"
        program = self.cluster.settings.programs["kube-scheduler"]
        config = {"Env": ["PATH=/usr/local/bin"]}
        images.write(archive, reference, files={"usr/local/bin/kube-scheduler": str(program)}, config=config)
        self.gpus.node.ctr("images", "import", str(archive))
        archive.unlink()

    # --- asking

    def pods(self, component: str = "") -> list[Json]:
        """The pods of the release, or of one workload of it; what helm's hooks leave for an hour to be read is none."""
        path = clients.path_of("pods", namespace=NAMESPACE)
        label = "app.kubernetes.io/name"
        selector = f"{label}={component}" if component else f"{label} notin ({','.join(HOOKS)})"
        return self.cluster.client.items(path, labelSelector=selector)

    def pod(self, component: str) -> Json:
        """The one pod of a workload that has one."""
        (found,) = self.pods(component)
        return found

    def execute(self, pod: Json, container: str, *command: str) -> str:
        """What a command prints in a container."""
        name = pod["metadata"]["name"]
        return self.cluster.kubectl("exec", "--namespace", NAMESPACE, name, "--container", container, "--", *command)

    def wait_until_offered(self, shares: int) -> None:
        """Return when the scheduler may give away so many hundredths, and the agent says that it is ready."""

        def offered() -> bool:
            return self.gpus.node.allocatable(names.GPU_SHARE) == shares and self.gpus.ready()[0] == "True"

        try:
            waiting.wait_until(offered, f"{shares} hundredths at {self.gpus.node.name}", SECONDS)
        except waiting.NotReadyError as error:
            raise waiting.NotReadyError(f"{error}; {self.gpus.ready()}; {self.summary()}") from error

    def summary(self) -> str:
        """How the pods of the release stand, for whoever waits in vain."""
        found = []
        for pod in self.pods():
            states = {each["name"]: each["state"] for each in pod["status"].get("containerStatuses") or ()}
            found.append(f"{pod['metadata']['name']}: {pod['status'].get('phase')} {json.dumps(states)}")
        return "; ".join(found)

    # --- the release

    def have(self, version: str) -> None:
        """Have this version installed from the registry; returns when the node's GPUs are offered.

        What is there already stays as it is.
        """
        (there,) = json.loads(self.helm.run("list", "--output", "json")) or [{}]
        if (there.get("app_version"), there.get("status")) != (version, "deployed"):
            self.remove()
            self._install(version)
        # What is there already may be on its way.
        waiting.wait_until(self.ready, "every container of the release ready", SECONDS)
        self.wait_until_offered(names.HUNDREDTHS * len(self.gpus.state.gpus()))

    def ready(self) -> bool:
        """Whether every container of the release is."""
        pods = self.pods()
        told = [pod["status"].get("containerStatuses") or [] for pod in pods]
        return bool(pods) and all(each and all(status["ready"] for status in each) for each in told)

    def _install(self, version: str) -> None:
        """Hand the node's GPUs over, and install."""
        self.cluster.client.patch(self.gpus.node.path, {"metadata": {"labels": {names.GPU_NODE_LABEL: "true"}}})
        self.helm.install(self.releases.chart(version), SECRETS)

    def remove(self) -> None:
        """Take the release away, if it is there; returns when no pod of it is left."""
        if self.helm.run("list", "--short").split():
            self.helm.run("uninstall", "cotenant", "--wait")
        waiting.wait_until(lambda: not self.pods(), "no pods of the release", SECONDS)


def containers(pods: Sequence[Json]) -> dict[str, tuple[Any, ...]]:
    """Pod/container -> ID and restarts of its container: what changes when it is disturbed."""
    return {
        f"{pod['metadata']['name']}/{status['name']}": (status.get("containerID"), status["restartCount"])
        for pod in pods
        for status in pod["status"].get("containerStatuses") or ()
    }
