"""Objects that etcd takes, and that are much larger as the API server writes them: '<' is one byte, or six."""

import asyncio
import json
import time
from typing import Any, Final

import pytest

from cluster.tenants import Tenant
from cluster.test_hostile_objects import raw
from cluster.workloads import CONTAINER, Workspace
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json
from cotenant_extender import steps
from cotenant_extender.kube import client, http, watches

STORED_BYTES: Final = 1_300_000
LEVELS: Final = 5000
"""The API server takes twice as many; decoders of Python take 1,000."""
OTHERS_GATE: Final = "example.org/waits"


def submit(tenant: Tenant, name: str) -> str:
    """A pod without a share that never starts; its path."""
    container = {**CONTAINER, "args": ["<" * STORED_BYTES]}
    spec = {"schedulingGates": [{"name": OTHERS_GATE}], "containers": [container]}
    path = clients.path_of("pods", namespace=tenant.workspace.namespace)
    tenant.client.create(path, {"metadata": {"name": name}, "spec": spec})
    return f"{path}/{name}"


def test_pods_that_are_large_as_json_hide_nobody_elses(tenant: Tenant, honest: Workspace) -> None:
    large = [submit(tenant, f"large-{number}") for number in range(3)]
    for number, path in enumerate(large):
        honest.pod(f"before-{number}", 5)
        tenant.client.patch(path, {"metadata": {"labels": {"n": str(number)}}})
        honest.pod(f"after-{number}", 5)
        honest.bound_pod(f"before-{number}")
        honest.bound_pod(f"after-{number}")


def test_a_pod_of_deep_managed_fields_hides_nobody_elses(tenant: Tenant, honest: Workspace) -> None:
    path = clients.path_of("pods", namespace=tenant.workspace.namespace)
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "deep"}
    spec = {"schedulingGates": [{"name": OTHERS_GATE}], "containers": [CONTAINER]}
    honest.pod("before", 5)
    for number in range(2):
        metadata = {"name": f"deep-{number}", "managedFields": [entry]}
        body = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        raw(tenant, "POST", path, body.replace('"deep"', '{"f:a":' * LEVELS + "{}" + "}" * LEVELS))
        honest.pod(f"after-{number}", 5)
    for name in ("before", "after-0", "after-1"):
        honest.bound_pod(name)


class _Names:
    """Names of the pods that were listed."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def take(self, items: list[Any], _version: int) -> steps.Steps[None]:
        yield
        self.known = {item["metadata"]["name"] for item in items}

    def changed(self, item: Json) -> None:
        self.known.add(item["metadata"]["name"])

    def gone(self, item: Json) -> None:
        self.known.discard(item["metadata"]["name"])


@pytest.mark.parametrize(("most", "is_left_out"), [(http.ANSWER_BYTES, False), (2**20, True)], ids=["read", "left out"])
def test_a_list_has_all_that_can_be_read(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, most: int, *, is_left_out: bool
) -> None:
    """The API server goes on with a list by pages of other sizes, and tells the metadata of what is too large."""
    monkeypatch.setattr(http, "ANSWER_BYTES", most)
    monkeypatch.setattr(watches, "PAGE", 4)
    submit(tenant, "large")
    for number in range(9):
        tenant.workspace.pod(f"small-{number}", 1, schedulingGates=[{"name": OTHERS_GATE}])
    kubeconfig = str(tenant.workspace.installation.cluster.kubeconfig())

    async def listed() -> set[str]:
        sink = _Names()
        path = clients.path_of("pods", namespace=tenant.workspace.namespace)
        async with http.HTTP(kubeconfig, clock=time.monotonic) as carrier:
            watch = watches.Watch(client.Client(carrier), path, sink)
            task = asyncio.create_task(watch.run())
            async with asyncio.timeout(60):
                await watch.listed()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return sink.known

    assert asyncio.run(listed()) == {f"small-{number}" for number in range(9)} | (set() if is_left_out else {"large"})
