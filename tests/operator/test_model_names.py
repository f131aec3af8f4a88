"""Which model predicts, and which one waits beside it, stands in the PackingPolicy's status."""

import dataclasses
from pathlib import Path
from typing import Any

from cotenant_operator.loop.model_names import Names
from cotenant_predictor.models import store
from operator_kit.cluster import Cluster


def told(cluster: Cluster) -> dict[str, Any]:
    policy = cluster.server.find("packingpolicies", "default", namespace="") or {}
    found: dict[str, Any] = (policy.get("status") or {}).get("model") or {}
    return found


def write(folder: Path, name: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return store.write(folder / store.FILE, dataclasses.replace(store.load(), name=name)).reference


async def test_the_active_model_is_named_once(cluster: Cluster) -> None:
    names = Names(cluster.client, active="default-1@sha256:a", folder=None)
    await names.tell()
    assert told(cluster) == {"active": "default-1@sha256:a"}
    cluster.server.requests.clear()
    await names.tell()
    assert [request.method for request in cluster.server.requests] == ["GET"]


async def test_a_candidate_is_named_and_not_used(cluster: Cluster, tmp_path: Path) -> None:
    active = write(tmp_path / "active", "active-1")
    names = Names(cluster.client, active=active, folder=tmp_path / "active")
    await names.tell()
    assert told(cluster) == {"active": active}
    candidate = write(tmp_path / "candidate", "better-1")
    await names.tell()
    assert told(cluster) == {"active": active, "candidate": candidate}


async def test_a_candidate_that_was_taken_or_is_broken_is_not_named(cluster: Cluster, tmp_path: Path) -> None:
    active = write(tmp_path / "active", "active-1")
    write(tmp_path / "candidate", "active-1")
    names = Names(cluster.client, active=active, folder=tmp_path / "active")
    await names.tell()
    assert told(cluster) == {"active": active}
    (tmp_path / "candidate" / store.FILE).write_text("{}")
    await names.tell()
    assert told(cluster) == {"active": active}


async def test_without_a_policy_nothing_is_told(cluster: Cluster) -> None:
    cluster.server.delete("packingpolicies", "default", namespace="")
    await Names(cluster.client, active="a", folder=None).tell()
    assert told(cluster) == {}
