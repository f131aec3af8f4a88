"""The DLJobs of the benchmark, their namespaces and graphs. Pure, but for the graphs, which the examples hold."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import configuration
from cotenant_e2e.client import Json

NAMESPACES: Final = tuple(f"bench-{letter}" for letter in "abcde")
GRAPHS: Final = (
    "bert-base-16",
    "densenet121-32",
    "dcgan-128",
    "efficientnet-b0-64",
    "lstm-32",
    "resnet18-32",
    "resnet50-64",
    "t5-small-16",
)
"""Training jobs among the examples' graphs."""
RAN_AT: Final = "2026-01-01T00:00:00Z"


def namespaces() -> list[Json]:
    """All of them."""
    return [{"metadata": {"name": name}} for name in NAMESPACES]


def graphs(namespace: str) -> list[Json]:
    """Return a ConfigMap for each graph."""
    folder = configuration.REPOSITORY / "manifests" / "examples" / "graphs"
    return [
        {
            "metadata": {"name": graph, "namespace": namespace},
            "data": {"graph.json": (folder / f"{graph}.json").read_text()},
        }
        for graph in GRAPHS
    ]


def dljobs(count: int) -> Iterator[tuple[str, Json]]:
    """Path of the collection and body of each, spread over namespaces and graphs. Their pods run until told to end."""
    for number in range(count):
        namespace = NAMESPACES[number % len(NAMESPACES)]
        graph = GRAPHS[number // len(NAMESPACES) % len(GRAPHS)]
        yield path(namespace), dljob(f"job-{number:05}", graph)


def dljob(name: str, graph: str) -> Json:
    """One, of the size that people write: some environment, some volumes."""
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "command": ["python", "train.py", "--model", graph],
        "env": [{"name": "DATA", "value": "/data"}, {"name": "EPOCHS", "value": "90"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "securityContext": rootless.PROVEN,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    template = {"spec": {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "metadata": {"name": name},
        "spec": {"model": {"configMapRef": {"name": graph, "key": "graph.json"}}, "template": template},
    }


def path(namespace: str, name: str = "") -> str:
    """Of the DLJobs, or of one."""
    return clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=namespace, name=name)


def finished_status(status: dict[str, Any]) -> Json:
    """Return a merge patch that makes a DLJob one that is over, with the status that a real one had at its end."""
    return {"status": status}


def ended_pod() -> Json:
    """Return a merge patch of a pod's status: what kubelet says when its container has done its work."""
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": RAN_AT, "finishedAt": RAN_AT}
    container = {"name": "main", "image": "registry.example/train:1", "imageID": "", "ready": False, "restartCount": 0}
    return {"status": {"phase": "Succeeded", "containerStatuses": [container | {"state": {"terminated": ended}}]}}


def all_true(items: Sequence[Json], condition_type: str) -> bool:
    """Return whether a condition holds for every one."""
    return all(clients.is_true(item, condition_type) for item in items)
