"""A tenant who wants to end the operator by one object that the API server takes; and another, who runs a job."""

import contextlib
import functools
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from cluster import tenants
from cluster.operators import high_water_mib
from cluster.workloads import CONTAINER, SECONDS, Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.cluster import Cluster
from cotenant_operator import labels

Refused = Callable[[Callable[[], Any]], str]

LEVELS: Final = 1500
MAX_MIB: Final = 240
"""Of the operator's own process: beside it, those that read graphs have 160."""
FAT: Final = 15


def job(limits: dict[str, str], notes: dict[str, str], name: str) -> dict[str, Any]:
    container = {**CONTAINER, "resources": {"limits": limits}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "labels": {names.DLJOB_LABEL: "x"}, "annotations": notes}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def raw(tenant: tenants.Tenant, method: str, path: str, body: str | None = None, *, may_be_gone: bool = False) -> str:
    """The answer's text: Python's decoder cannot read it."""
    client = tenant.client
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {client.token}"}
    with contextlib.closing(
        http.client.HTTPSConnection(urlsplit(client.server).netloc, context=client.tls, timeout=SECONDS)
    ) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status < 300 or (may_be_gone and answer.status == 404), text[:500]
        return text


def submit_deep_dljob(tenant: tenants.Tenant) -> None:
    template = {"spec": {"containers": [CONTAINER]}}
    body = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": "deep"}}
    text = json.dumps(body | {"spec": {"suspend": True, "model": {"features": "deep"}, "template": template}})
    deep = '{"a":' * LEVELS + "1" + "}" * LEVELS
    raw(tenant, "POST", tenant.workspace.dljobs(), text.replace('"deep"}, "template"', f'{deep}}}, "template"'))


def submit_jobs(tenant: tenants.Tenant, refused: Refused) -> None:
    """Four hostile Jobs; those with an operator's annotation are in the cluster from before our admission policies."""
    path = clients.path_of("jobs", group="batch", namespace=tenant.workspace.namespace)
    setback = '{"v":1,"count":1e999,"at":"2026-01-01T00:00:00Z","message":"","left":{}}'
    for name, limits in ("x-0", {"nvidia.com/gpu": "1000"}), ("x-1", {names.GPU_SHARE: "1000"}):
        tenant.client.create(path, job(limits, {}, name))
    for name, note in ("x-2", setback), ("x-3", "[" * 2000):
        hostile = job({}, {labels.QUOTA_SETBACK: note}, name)
        assert labels.QUOTA_SETBACK in refused(functools.partial(tenant.client.create, path, hostile))
        tenant.workspace.client.create(path, hostile)


@contextlib.contextmanager
def fat_dljobs(tenant: tenants.Tenant) -> Iterator[None]:
    """Megabytes of empty lists: as values they are twenty times as much."""
    features: dict[str, Any] = {"a": [[]] * 330_000}
    body: dict[str, Any] = {"apiVersion": names.API_VERSION, "kind": "DLJob"}
    body["spec"] = {"suspend": True, "model": {"features": features}, "template": {"spec": {"containers": [CONTAINER]}}}
    for number in range(FAT):
        text = json.dumps(body | {"metadata": {"name": f"fat-{number}"}}, separators=(",", ":"))
        raw(tenant, "POST", tenant.workspace.dljobs(), text)
    yield
    # One by one: deleting the collection takes longer than a request may.
    for number in range(FAT):
        raw(tenant, "DELETE", tenant.workspace.dljobs(f"fat-{number}"))


@contextlib.contextmanager
def fat_gangs(tenant: tenants.Tenant) -> Iterator[None]:
    """Gangs with a megabyte of affinity."""
    path = clients.path_of("jobs", group="batch", namespace=tenant.workspace.namespace)
    terms = [{"topologyKey": "a"}] * 48_000
    for number in range(2 * FAT):
        body = job({}, {}, f"fat-{number}")
        body["spec"] |= {"completions": 2, "parallelism": 2}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        body["spec"]["template"]["spec"]["affinity"] = affinity
        raw(tenant, "POST", path, json.dumps(body))
    yield
    for number in range(2 * FAT):
        raw(tenant, "DELETE", f"{path}/fat-{number}?propagationPolicy=Background")


def submit_escaped_job(tenant: tenants.Tenant) -> None:
    """A Job that the API server keeps in 1.4 MB and tells in 8.4 MB: each character as six."""
    body = job({}, {}, "escaped")
    body["spec"]["template"]["spec"]["containers"][0]["args"] = ["<" * 1_430_000]
    raw(tenant, "POST", clients.path_of("jobs", group="batch", namespace=tenant.workspace.namespace), json.dumps(body))


def restart(cluster: Cluster) -> None:
    cluster.stop_process(installation.OPERATOR)
    installation.start_operator(cluster)


def wait_for_prediction(space: Workspace, name: str) -> None:
    space.dljob(name, model=space.graph(f"graph-{name}"), suspend=True)
    waiting.wait_until(
        lambda: any(
            one["type"] == "Predicted"
            for one in space.client.get(space.dljobs(name)).get("status", {}).get("conditions", ())
        ),
        f"a verdict on {space.namespace}/{name}",
        SECONDS,
    )


def test_deep_dljob_is_refused_by_name_and_the_operator_goes_on(tenant: tenants.Tenant, honest: Workspace) -> None:
    cluster, space = honest.installation.cluster, tenant.workspace
    before = cluster.process(installation.OPERATOR).pid
    submit_deep_dljob(tenant)
    waiting.wait_until(
        lambda: "spec: nested deeper than 64 levels" in raw(tenant, "GET", space.dljobs("deep")), "a verdict", SECONDS
    )
    wait_for_prediction(honest, "beside")
    assert cluster.process(installation.OPERATOR).pid == before
    restart(cluster)
    wait_for_prediction(honest, "after")
    # Whoever lists DLJobs after this test would have to read it.
    raw(tenant, "DELETE", space.dljobs("deep"))


def test_hostile_jobs_leave_the_operator_running_and_starting(
    tenant: tenants.Tenant, honest: Workspace, refused: Refused
) -> None:
    cluster = honest.installation.cluster
    before = cluster.process(installation.OPERATOR).pid
    submit_jobs(tenant, refused)
    wait_for_prediction(honest, "beside")
    assert cluster.process(installation.OPERATOR).pid == before
    restart(cluster)
    wait_for_prediction(honest, "after")


def test_large_objects_of_a_tenant_do_not_make_the_operator_large(tenant: tenants.Tenant, honest: Workspace) -> None:
    cluster = honest.installation.cluster
    restart(cluster)
    with fat_dljobs(tenant), fat_gangs(tenant):
        wait_for_prediction(honest, "beside")
        assert high_water_mib(cluster) < MAX_MIB
        restart(cluster)
        wait_for_prediction(honest, "after")
        assert high_water_mib(cluster) < MAX_MIB


def test_job_that_is_told_in_more_bytes_than_are_read_is_left_out(tenant: tenants.Tenant, honest: Workspace) -> None:
    cluster = honest.installation.cluster
    submit_escaped_job(tenant)
    wait_for_prediction(honest, "beside")
    restart(cluster)
    wait_for_prediction(honest, "after")
    assert high_water_mib(cluster) < MAX_MIB
