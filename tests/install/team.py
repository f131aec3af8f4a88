"""What a team runs on shared GPUs: a DLJob, a batch/v1 Job, a Deployment, each in real containers."""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cluster import workloads
from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.installation import Installation
from install import site as sites
from install.site import Site
from node import tenants as kit
from node.tenants import Tenants

JOB, SERVICE, DLJOB = "batch", "serve", "train"
KINDS: Final = (JOB, SERVICE, DLJOB)
SECONDS: Final = 90


class Team:
    """A namespace in which one workload of each kind may run. At its end everything in it is gone, and no container in
    it may ever have had other limits than its pod's.
    """

    def __init__(self, site: Site, namespace: str) -> None:
        self.site = site
        # There is no extender on a port of this machine: it is in a pod.
        installation = Installation(site.cluster, extender_port=0)
        self.tenants = Tenants(installation, site.gpus, namespace)
        self.space = Workspace(installation, namespace)

    def __enter__(self) -> Self:
        self.tenants.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client = self.site.cluster.client
        if kind is not None:
            print(self.explained())
        controllers = (self.space.dljobs(), self.space.deployments())
        for path in controllers:
            client.delete(path, propagationPolicy="Foreground")
        waiting.wait_until(lambda: not any(map(client.items, controllers)), "no DLJobs, no Deployments", SECONDS)
        self.tenants.__exit__(kind, error, trace)

    def submit(self, name: str, *, script: str = kit.HOLD, until: Path | None = None) -> None:
        """Create the workload of this kind.

        Args:
            name: one of `KINDS`.
            script: what its container runs once it has shown itself.
            until: instead, it holds its GPU until this file of the node is there, and then succeeds.
        """
        more: dict[str, Any] = {"script": script, "annotations": {names.GPU_MEMORY: "3Gi"}}
        if until:
            more |= _until(until)
        template = self.tenants.template(30, **more)
        if name == JOB:
            self.tenants.create_job(name, **more)
        elif name == SERVICE:
            labels = {"app": name}
            template["metadata"]["labels"] = labels
            template["spec"]["restartPolicy"] = "Always"
            spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
            body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
            self.site.cluster.client.create(self.space.deployments(), body)
        else:
            # The operator chooses the share and books the memory; a DLJob's template names neither.
            del template["spec"]["containers"][0]["resources"]
            del template["metadata"]["annotations"]
            model = self.space.graph("graph", workloads.graph_document(flops=10**8, repeat=20))
            self.space.dljob(name, model=model, gpuMemory="3Gi", template=template)

    def pod(self, name: str) -> Json:
        """The pod of a workload, running and having shown what limits it has.

        Raises:
            NotReadyError: it does not come to run in time; the message says how it and the release stand.
        """
        selector = {JOB: f"job-name={JOB}", SERVICE: f"app={SERVICE}", DLJOB: f"{names.DLJOB_LABEL}={DLJOB}"}[name]

        def shown() -> Json | None:
            found = self.site.cluster.client.items(self.space.pods(), labelSelector=selector)
            return next((pod for pod in found if self.tenants.shown(pod) and _reported(pod)), None)

        try:
            return waiting.wait_until(shown, f"{name} running", SECONDS) or {}
        except waiting.NotReadyError as error:
            raise waiting.NotReadyError(f"{error}; {self.explained()}") from error

    def delete(self, name: str) -> None:
        """Delete a pod; returns when it is gone."""
        self.tenants.delete(name)

    def running(self) -> dict[str, tuple[object, ...]]:
        """Container IDs and restarts of all its pods."""
        return sites.containers(self.site.cluster.client.items(self.space.pods()))

    def succeeded(self, name: str) -> bool:
        """Whether a Job or DLJob has."""
        if name == DLJOB:
            return self.space.phase(name) == Phase.SUCCEEDED
        status = self.site.cluster.client.get(f"{self.space.jobs()}/{name}").get("status", {})
        return int(status.get("succeeded", 0)) == 1

    def explained(self) -> str:
        """How its pods and the release stand."""
        pods = self.site.cluster.client.items(self.space.pods())
        events = self.site.cluster.client.items(clients.path_of("events", namespace=self.tenants.namespace))
        told = [f"{event['involvedObject']['name']}: {event['reason']} {event.get('message')}" for event in events]
        mine = "; ".join(f"{pod['metadata']['name']}: {kit.summary(pod)}" for pod in pods)
        return f"pods: {mine}\nevents: {told[-12:]}\nrelease: {self.site.summary()}"


def _reported(pod: Json) -> bool:
    """Return whether kubelet has reported every container: a container may run before the API server knows its ID."""
    statuses = pod["status"].get("containerStatuses") or ()
    return bool(statuses) and all(status.get("containerID") for status in statuses)


def _until(file: Path) -> dict[str, Any]:
    """Arguments of a template whose container ends well when the file is there."""
    script = f"cuda-client --hold 100000 & client=$!; while [ ! -e {file} ]; do sleep 0.2; done; kill $client; exit 0"
    return {
        "script": script,
        "mounts": [{"name": "until", "mountPath": str(file.parent)}],
        "volumes": [{"name": "until", "hostPath": {"path": str(file.parent), "type": "Directory"}}],
    }
