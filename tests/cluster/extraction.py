"""Plays the pod that extracts a graph: a simulated container has no program, so the test writes what it would have."""

import base64
import gzip
from typing import Any

from cluster.workloads import SECONDS, Workspace, graph_document
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_predictor.extraction import onnx_strip
from predictor_kit import onnx_models as onnx


def play(workspace: Workspace, name: str) -> None:
    """Write the result of a DLJob's extraction and let its pod succeed."""
    waiting.wait_until(lambda: pods(workspace, name), f"a pod that extracts for {name}", SECONDS)
    (pod,) = pods(workspace, name)
    command = pod["spec"]["containers"][0]["command"]
    config_map, key = command[command.index("--config-map") + 1], command[command.index("--key") + 1]
    content = onnx_model() if key.startswith("model.onnx") else graph_document().to_json().encode()
    data = base64.b64encode(gzip.compress(content)).decode()
    path = clients.path_of("configmaps", namespace=workspace.namespace, name=config_map)
    workspace.client.patch(path, {"binaryData": {key: data}})
    fate = {"metadata": {"annotations": {"demo.cotenant.dev/run-for": "100ms"}}}
    workspace.client.patch(workspace.pods(pod["metadata"]["name"]), fate)


def pods(workspace: Workspace, name: str) -> list[dict[str, Any]]:
    """Pods that extract the graph of a DLJob."""
    found = workspace.client.items(workspace.pods())
    return [pod for pod in found if pod["metadata"]["name"].startswith(f"{name}-extract-")]


def onnx_model() -> bytes:
    """A convolution over images, without its weights, as the pod leaves it."""
    made = onnx.model(
        [onnx.node("Conv", "input w", "y")], {"input": ["batch", 3, 224, 224]}, [onnx.weight("w", [64, 3, 7, 7])]
    )
    return onnx_strip.stripped(made.SerializeToString())
