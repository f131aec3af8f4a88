"""A tenant who wants to end the operator by what it has to read; and another one, who only wants a prediction."""

import base64
import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cluster import tenants
from cluster.operators import high_water_mib
from cluster.workloads import CONTAINER, SECONDS, Workspace, graph_document
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.cluster import Cluster
from operator_kit import hostile

MAX_MIB: Final = 400
"""Of the operator with all its processes."""
BOMBS: Final = ("blanks", "lists", "valid, of 72 MB", "wrong operators", "deep")
CROWD: Final = 20
_READ: Final = re.compile(
    r"logger=operator\.parsing\.process message=\"(\S+): (read|refused|not read) ConfigMap (\S+),"
)


@dataclass(frozen=True)
class Log:
    """What an operator says from now on."""

    path: Path
    begin: int

    @classmethod
    def of(cls, cluster: Cluster) -> "Log":
        """From now on."""
        path = cluster.log(installation.OPERATOR)
        return cls(path, path.stat().st_size)

    def read(self) -> list[tuple[str, str]]:
        """Namespace and ConfigMap of what was read, in order."""
        text = self.path.read_bytes()[self.begin :].decode()
        return [(found[1], found[3]) for found in _READ.finditer(text)]

    def peak_mib(self) -> int:
        """Of the largest process that read."""
        text = self.path.read_bytes()[self.begin :].decode()
        return max((int(found) for found in re.findall(r"s of CPU, (\d+) MiB", text)), default=0)


def submit(tenant: tenants.Tenant, name: str, data: bytes, **spec: Any) -> None:
    """A DLJob and its graph, as the tenant; it waits, so that it is predicted again by whoever starts."""
    space = tenant.workspace
    content = {"metadata": {"name": name}, "binaryData": {"graph.json.gz": base64.b64encode(data).decode()}}
    tenant.client.create(clients.path_of("configmaps", namespace=space.namespace), content)
    template = {"spec": {"containers": [CONTAINER]}}
    model = {"configMapRef": {"name": name}}
    body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": name}}
    body["spec"] = {"template": template, "model": model, "suspend": True} | spec
    tenant.client.create(space.dljobs(), body)


def verdicts(space: Workspace) -> dict[str, str]:
    """Reason of the condition Predicted by DLJob."""
    found = {}
    for job in space.client.items(space.dljobs()):
        for one in job.get("status", {}).get("conditions", ()):
            if one["type"] == "Predicted":
                found[job["metadata"]["name"]] = one["reason"]
    return found


def wait_for_verdicts(space: Workspace, count: int) -> dict[str, str]:
    waiting.wait_until(lambda: len(verdicts(space)) >= count, f"{count} verdicts in {space.namespace}", SECONDS)
    return verdicts(space)


def bombs() -> dict[str, bytes]:
    return {name: data for name, _, data in hostile.graphs() if name in BOMBS}


def heavy(number: int) -> bytes:
    """A graph that is as large as it may be: it takes the reader a while."""
    rows = [
        {"class": "matmul", "name": "a", "phase": "Forward", "flops": index + number, "dims": {"m": index}}
        for index in range(10_000)
    ]
    return hostile.document(rows)


def test_bombs_are_refused_with_field_value_and_remedy_and_the_operator_stays_small(
    tenant: tenants.Tenant, honest: Workspace
) -> None:
    cluster, space = honest.installation.cluster, tenant.workspace
    log = Log.of(cluster)
    for number, data in enumerate(bombs().values()):
        submit(tenant, f"bomb-{number}", data)
    for number in range(3):
        submit(tenant, f"heavy-{number}", heavy(number))
    honest.dljob("job", model=honest.graph("graph"), suspend=True)
    assert wait_for_verdicts(honest, 1) == {"job": "Predicted"}
    found = wait_for_verdicts(space, len(BOMBS) + 3)
    assert {name: found[name] for name in found if name.startswith("bomb")} == {
        f"bomb-{number}": "GraphUnreadable" for number in range(len(BOMBS))
    }
    messages = [space.condition(f"bomb-{number}", "Predicted")["message"] for number in range(len(BOMBS))]
    assert all("ConfigMap bomb-" in message and "cotenant extract" in message for message in messages)
    assert high_water_mib(cluster) + log.peak_mib() < MAX_MIB


def test_bombs_are_not_read_again_by_an_operator_that_starts(tenant: tenants.Tenant) -> None:
    cluster, space = tenant.workspace.installation.cluster, tenant.workspace
    for number, data in enumerate(bombs().values()):
        submit(tenant, f"bomb-{number}", data)
    wait_for_verdicts(space, len(BOMBS))
    remembered = {job["metadata"]["name"] for job in space.client.items(space.dljobs()) if refusal(job)}
    log = Log.of(cluster)
    cluster.stop_process(installation.OPERATOR)
    installation.start_operator(cluster)
    # What comes after them is read: they were looked at before.
    submit(tenant, "last", gzip.compress(graph_document("last").to_json().encode(), mtime=0))
    wait_for_verdicts(space, len(BOMBS) + 1)
    names_read = {name for namespace, name in log.read() if namespace == space.namespace}
    assert names_read == {"last"}
    assert remembered <= {f"bomb-{number}" for number in range(len(BOMBS))}
    assert len(remembered) >= len(BOMBS) - 1


def refusal(job: dict[str, Any]) -> Any:
    return job.get("status", {}).get("refusedGraph")


def test_tenant_cannot_write_what_is_remembered(tenant: tenants.Tenant) -> None:
    submit(tenant, "job", heavy(0))
    path = f"{tenant.workspace.dljobs('job')}/status"
    with pytest.raises(clients.APIError) as raised:
        tenant.client.patch(path, {"status": {"refusedGraph": {"digest": "sha256:0", "message": "x"}}})
    assert raised.value.code == 403


def test_honest_namespace_does_not_wait_behind_a_crowd_of_another(tenant: tenants.Tenant, honest: Workspace) -> None:
    cluster, space = honest.installation.cluster, tenant.workspace
    cluster.stop_process(installation.OPERATOR)
    for number in range(CROWD):
        submit(tenant, f"heavy-{number:02}", heavy(number))
    honest.dljob("job", model=honest.graph("graph"), suspend=True)
    log = Log.of(cluster)
    installation.start_operator(cluster)
    wait_for_verdicts(space, CROWD)
    order = [namespace for namespace, _ in log.read() if namespace in (space.namespace, honest.namespace)]
    assert order.count(honest.namespace) == 1
    # In the order of their coming it would be the last one: it came last, and is read by the time they have all come.
    assert order.index(honest.namespace) <= CROWD // 2


def test_sixty_large_dljobs_do_not_make_the_operator_large(tenant: tenants.Tenant) -> None:
    cluster, space = tenant.workspace.installation.cluster, tenant.workspace
    for number in range(60):
        container = {**CONTAINER, "args": ["a" * 900_000]}
        body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": f"large-{number}"}}
        body["spec"] = {"template": {"spec": {"containers": [container]}}}
        tenant.client.create(space.dljobs(), body)
    condition = space.wait_for_condition("large-59", "Queued", "False", "InvalidSpec")
    assert "may have 131072: put a graph into a ConfigMap" in condition["message"]
    cluster.stop_process(installation.OPERATOR)
    installation.start_operator(cluster)
    submit(tenant, "last", gzip.compress(json.dumps(graph_document().to_object()).encode(), mtime=0))
    waiting.wait_until(lambda: "last" in verdicts(space), "a verdict after the start", SECONDS)
    assert high_water_mib(cluster) < MAX_MIB // 2
