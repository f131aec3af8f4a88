"""The objects that a benchmark creates: namespaces, pods, and what node agents would have written. Pure."""

from collections.abc import Sequence
from typing import Final

from cotenant_api import documents, names, rootless
from cotenant_api.names import GPUModel, NodeName
from cotenant_deviceplugin.simulated import gpus as simulated
from cotenant_deviceplugin.simulated import models
from cotenant_e2e import nodes
from cotenant_e2e.client import Json

OURS: Final = "bench"
PLAIN: Final = "bench-plain"
"""A namespace for which Cotenant's admission policies do not exist."""
EXEMPT_LABEL: Final = "cotenant-bench-exempt"
GPUS_PER_NODE: Final = 8
MODEL: Final = GPUModel("NVIDIA-H200")
SHARE: Final = 25
MODELS_TRAINED: Final = 8
"""How many different jobs the pods are replicas of."""


def namespaces() -> list[Json]:
    """One with Cotenant's admission, one without."""
    return [{"metadata": {"name": OURS}}, {"metadata": {"name": PLAIN, "labels": {EXEMPT_LABEL: "true"}}}]


def exempting_patch(binding: Json) -> Json:
    """Return a merge patch of a policy binding: not for the namespace that is without Cotenant, either."""
    selector = binding["spec"].get("matchResources", {}).get("namespaceSelector", {})
    without = {"key": EXEMPT_LABEL, "operator": "DoesNotExist"}
    where = {"matchExpressions": [*selector.get("matchExpressions", ()), without]}
    return {"spec": {"matchResources": {"namespaceSelector": where}}}


def node_list(count: int) -> list[Json]:
    """Nodes of eight simulated GPUs."""
    return nodes.uniform(count, model=MODEL, gpus=GPUS_PER_NODE)


def pod(number: int, *, namespace: str, scheduler: str, gated: bool) -> Json:
    """Return a pod that asks for a share, CPU and memory, and has a prediction. The same whoever schedules it."""
    size = {"cpu": "1", "memory": "1Gi"}
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": size, "limits": {names.GPU_SHARE: str(SHARE)}},
        "securityContext": rootless.PROVEN,
    }
    spec: Json = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
    if gated:
        spec["schedulingGates"] = [{"name": names.PACKING_GATE}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number:05}",
            "namespace": namespace,
            "labels": {"app": f"train-{number % MODELS_TRAINED}"},
            "annotations": {names.PREDICTION: _prediction(number % MODELS_TRAINED)},
        },
        "spec": spec,
    }


def gpunode(name: NodeName, *, now: str) -> Json:
    """Return the GPUNode that an agent of simulated GPUs would write."""
    model = models.MODELS[MODEL]
    gpus = [
        {
            "uuid": device.uuid,
            "index": device.index,
            "model": device.model,
            "memoryMiB": device.memory_mib,
            "smCount": device.sm_count,
            "health": "Healthy",
            "mps": "Active",
            "tenants": [],
        }
        for device in simulated.devices(name, model=model, count=GPUS_PER_NODE)
    ]
    ready = {"type": "Ready", "status": "True", "reason": "AgentReady", "message": "", "lastTransitionTime": now}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": name},
        "status": {"simulated": True, "conditions": [ready], "gpus": gpus},
    }


def lease(node: NodeName, *, now: str) -> Json:
    """Return the Lease that an agent would keep."""
    spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"{names.AGENT_LEASE_PREFIX}{node}", "namespace": names.RELEASE_NAMESPACE},
        "spec": spec,
    }


def scheduler_configuration(kubeconfig: str, *, profiles: Sequence[str] = ("plain-100", "plain-default")) -> Json:
    """kube-scheduler as it comes, with two profiles: of all nodes, and of its default sample."""
    every = {"schedulerName": profiles[0], "percentageOfNodesToScore": 100}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000},
        "profiles": [every, {"schedulerName": profiles[1]}],
    }


def _prediction(number: int) -> str:
    """Return what the operator would write; replicas of one job have the same."""
    share, small = {"q50": 20.0, "upper": float(SHARE)}, {"q50": 9.0, "upper": 12.0}
    on_gpu = {
        "utilization": share,
        "smActivity": small,
        "dramActivity": small,
        "memoryMiB": {"q50": 7900, "upper": 9000 + number},
        "stepMilliseconds": 38.2,
        "threadPercentage": 45,
        "regime": "Compute",
        "outOfDomain": False,
    }
    value = {
        "v": 1,
        "graph": f"sha256:{number:064x}",
        "source": "Formula",
        "model": "formula-1",
        "byGPU": {MODEL: on_gpu},
    }
    return documents.canonical(value)
