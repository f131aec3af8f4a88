"""What becomes of extractions in a cluster in memory: what Job controller, kubelet and the pods' program do."""

import base64
from typing import Any, Final

from cotenant_operator import labels
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

ENTRYPOINT: Final = {"entrypoint": {"callable": "models:build", "args": {"depth": "50"}}}
NOTHING: Final = {"jobs": 0, "results": 0, "serviceaccounts": 0, "roles": 0, "rolebindings": 0}
ONNX: Final = {"onnx": {"path": "/models/m.onnx"}}


def dljob(name: str = "train", **spec: Any) -> Json:
    """A DLJob whose graph has to be extracted by an entrypoint, unless `model` says otherwise."""
    return objects.dljob(name, **{"model": ENTRYPOINT, "batchSize": 64, **spec})


def jobs(cluster: Cluster) -> list[Json]:
    """The Jobs of extractions."""
    return [job for job in cluster.server.all("jobs") if labels.EXTRACTION in job["metadata"]["labels"]]


def results(cluster: Cluster) -> list[Json]:
    """The ConfigMaps into which they write."""
    return [found for found in cluster.server.all("configmaps") if "-graph-" in found["metadata"]["name"]]


def left(cluster: Cluster) -> dict[str, int]:
    """What there still is of extractions."""
    kinds = ("serviceaccounts", "roles", "rolebindings")
    counts = {kind: len(cluster.server.all(kind)) for kind in kinds}
    return {"jobs": len(jobs(cluster)), "results": len(results(cluster)), **counts}


def start(cluster: Cluster) -> None:
    """Job controller and kubelet start the pods of what is not suspended; all that they mount is there."""
    for job in jobs(cluster):
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        if job["spec"]["suspend"] or job.get("status") or _pods(cluster, uid):
            continue
        for plural in ("serviceaccounts", "roles", "rolebindings", "configmaps"):
            assert cluster.server.find(plural, name), plural
        template = job["spec"]["template"]
        metadata = {
            "name": f"{name}-pod-{len(cluster.server.watched)}",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{"uid": uid, "controller": True}],
        }
        pod = {"metadata": metadata, "spec": template["spec"]}
        running = [{"name": "extract", "state": {"running": {}}}]
        cluster.server.put("pods", pod, phase="Running", containerStatuses=running)


def write(cluster: Cluster, content: bytes | None = None, *, key: str = "graph.json.gz") -> None:
    """The pods write their results."""
    text = base64.b64encode(objects.toy_graph().packed() if content is None else content).decode()
    for job in jobs(cluster):
        command = job["spec"]["template"]["spec"]["containers"][0]["command"]
        name = command[command.index("--config-map") + 1]
        if _pods(cluster, job["metadata"]["uid"]) and cluster.server.find("configmaps", name):
            cluster.server.change("configmaps", name, lambda value: value.update(binaryData={key: text}))


def succeed(cluster: Cluster) -> None:
    """The pods that run end well, and their Jobs are complete."""
    _end(cluster, {"exitCode": 0, "reason": "Completed", "startedAt": cluster.time.text()}, "Complete", "Completed")


def fail(
    cluster: Cluster, words: str = "cotenant: no such thing", *, exit_code: int = 1, reason: str = "Error"
) -> None:
    """The pods that run fail with these words."""
    state = {"exitCode": exit_code, "reason": reason, "message": words, "startedAt": cluster.time.text()}
    _end(cluster, state, "Failed", "BackoffLimitExceeded")


def lose(cluster: Cluster) -> None:
    """The pods are gone before their containers have run."""
    for job in jobs(cluster):
        pods = _pods(cluster, job["metadata"]["uid"])
        for pod in pods:
            cluster.server.change(
                "pods", pod["metadata"]["name"], lambda value: value.update(status={"phase": "Failed"})
            )
            cluster.server.delete("pods", pod["metadata"]["name"])
        if pods:
            cluster.end_job(job["metadata"]["name"], "Failed", reason="BackoffLimitExceeded")


async def go_on(cluster: Cluster) -> None:
    """An extraction from its beginning to its result."""
    await cluster.settle()
    for program in (start, write, succeed):
        program(cluster)
        await cluster.settle()


def _end(cluster: Cluster, state: Json, condition: str, reason: str) -> None:
    phase = "Succeeded" if condition == "Complete" else "Failed"
    status = {"phase": phase, "containerStatuses": [{"name": "extract", "state": {"terminated": state}}]}
    for job in jobs(cluster):
        running = [pod for pod in _pods(cluster, job["metadata"]["uid"]) if pod["status"]["phase"] == "Running"]
        for pod in running:
            cluster.server.change("pods", pod["metadata"]["name"], lambda value: value.update(status=status))
        if running:
            cluster.end_job(job["metadata"]["name"], condition, reason=reason)


def _pods(cluster: Cluster, uid: str) -> list[Json]:
    return [pod for pod in cluster.server.all("pods") if pod["metadata"]["ownerReferences"][0]["uid"] == uid]
