"""What tests of the chart on a real API server share: helm, and objects of a cluster with GPUs."""

import os
import subprocess
from typing import Final

from chart import rendering
from cotenant_api import names
from cotenant_e2e.cluster import Cluster

SECONDS: Final = 60
RUNTIME_CLASS: Final = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
TENANT: Final = {"podUID": "u", "namespace": "team", "pod": "a"}
GPU: Final = {"uuid": "GPU-0", "index": 0, "model": "NVIDIA-A100-SXM4-40GB", "memoryMiB": 40960, "health": "Healthy"}


def helm(
    cluster: Cluster, *arguments: str, namespace: str = names.RELEASE_NAMESPACE
) -> subprocess.CompletedProcess[str]:
    """Helm on this cluster, whatever it says; what it keeps for itself lies in the cluster's folder."""
    homes = {f"HELM_{kind}_HOME": str(cluster.directory / "helm" / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, **homes, "KUBECONFIG": str(cluster.kubeconfig())}
    command = [str(rendering.helm()), *arguments, "--namespace", namespace]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=2 * SECONDS)
