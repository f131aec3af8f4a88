"""Gangs in quotas, and what is asked of them, for tests."""

from typing import Any

from operator_kit import objects, quotas
from operator_kit.cluster import Cluster

Json = dict[str, Any]

SHARE = "requests.cotenant.dev/gpu-share"
WHOLE: Json = {"sharing": "Exclusive", "model": None}


def gang(name: str = "train", *, replicas: int = 4, **spec: Any) -> Json:
    """A gang of which each pod asks for 100."""
    return objects.dljob(name, replicas=replicas, **WHOLE, **spec)


def limit(cluster: Cluster, **hard: str) -> None:
    """A ResourceQuota of the namespace."""
    cluster.apply(quotas.quota(**hard), plural="resourcequotas")


def suspended(cluster: Cluster, name: str = "train-1") -> bool:
    """Whether a Job is suspended."""
    job = cluster.server.find("jobs", name)
    assert job is not None
    return bool(job["spec"]["suspend"])


def alive(cluster: Cluster, name: str) -> int:
    """How many pods of a DLJob have not ended."""
    pods = [pod for pod in cluster.server.all("pods") if pod["metadata"]["name"].startswith(f"{name}-")]
    return sum(pod["status"]["phase"] in ("Pending", "Running") for pod in pods)


def queued(cluster: Cluster, name: str = "train") -> tuple[str, str]:
    """Status and reason of the condition Queued."""
    found = cluster.condition("Queued", name=name)
    return found["status"], found["reason"]


def set_spec(cluster: Cluster, name: str = "train", **fields: Any) -> None:
    """Edit a DLJob as a user does."""
    cluster.server.change("dljobs", name, lambda value: value.update(spec={**value["spec"], **fields}))


async def occupy(cluster: Cluster, *, name: str = "other") -> None:
    """A single replica that holds 100."""
    cluster.apply(objects.dljob(name, **WHOLE))
    await cluster.run("create_pods", "place", "run_pods")
