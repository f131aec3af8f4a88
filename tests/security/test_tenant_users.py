"""A tenant shares no GPU as root, unless the PackingPolicy lets anybody in: what the API server says to his token."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, SECONDS, Workspace, pod_object
from cotenant_api import names, packingpolicy, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster

Refused = Callable[[Callable[[], Any]], str]

STRATEGIC = "application/strategic-merge-patch+json"
PLACEHOLDER: Json = {"name": "other", "image": "x"}


def pod(context: Json | None = None, share: int = 40, **spec: Any) -> Json:
    """A pod that asks for a share; `context` is its container's."""
    made = pod_object("p", share, **spec)
    made["spec"]["containers"][0]["securityContext"] = context
    return made


def secured(**context: Any) -> Json:
    return {"securityContext": context}


def is_refused(workspace: Workspace, made: Json) -> bool:
    """Whether admission says no; it knows of a change a moment after the API server has stored it."""
    try:
        workspace.client.create(f"{workspace.pods()}?dryRun=All", made)
    except clients.APIError as error:
        return "cotenant-tenant-users" in error.message
    return False


def becomes(workspace: Workspace, *, refused: bool) -> None:
    waiting.wait_until(lambda: is_refused(workspace, pod()) is refused, f"root is refused: {refused}", SECONDS)


@contextmanager
def changed(cluster: Cluster, **spec: Any) -> Iterator[None]:
    """The PackingPolicy with other fields, for a while."""
    path = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name=packingpolicy.NAME)
    cluster.client.patch(path, {"spec": spec})
    try:
        yield
    finally:
        cluster.client.patch(path, {"spec": dict.fromkeys(spec)})


@pytest.fixture(autouse=True)
def strict(workspace: Workspace) -> None:
    """The default policy is in force."""
    becomes(workspace, refused=True)


BOUND: Json = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
UNPROVEN: dict[str, Json] = {
    "nothing": pod(),
    "no privilege escalation alone": pod({"allowPrivilegeEscalation": False}),
    "not root, and sudo": pod({"runAsNonRoot": True}),
    "a user, and sudo": pod({"runAsUser": 1000, "allowPrivilegeEscalation": True}),
    "a user, and file capabilities": pod({"runAsUser": 1000, "allowPrivilegeEscalation": False}),
    "a user, and SETUID again": pod({"runAsUser": 1000, **BOUND, "capabilities": {"drop": ["ALL"], "add": ["SETUID"]}}),
    "another capability dropped": pod({"runAsUser": 1000, **BOUND, "capabilities": {"drop": ["NET_RAW"]}}),
    "root": pod({"runAsUser": 0, **BOUND}),
    "root, who must not be root": pod({"runAsUser": 0, **rootless.PROVEN}),
    "root over the pod's user": pod({"runAsUser": 0}, **secured(runAsUser=1000)),
    "root of the pod": pod(dict(rootless.PROVEN), **secured(runAsUser=0)),
    "anybody over the pod's not root": pod({"runAsNonRoot": False}, **secured(runAsNonRoot=True)),
    "the node's users": pod(hostUsers=True),
    "a second container": pod_object("p", containers=[*pod_object("p")["spec"]["containers"], PLACEHOLDER]),
    "a sidecar": pod(dict(rootless.PROVEN), initContainers=[{**PLACEHOLDER, "restartPolicy": "Always"}]),
    "nearly a whole GPU": pod(share=99),
}


@pytest.mark.parametrize("made", UNPROVEN.values(), ids=list(UNPROVEN))
def test_a_tenant_shares_no_gpu_as_root_and_is_told_the_line_to_add(
    tenant: Tenant, refused: Refused, made: Json
) -> None:
    told = rootless.fault(made["spec"])
    assert told is not None
    assert told in refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", made))


PROVEN: dict[str, Json] = {
    "not root": pod(dict(rootless.PROVEN)),
    "a user": pod({"runAsUser": 1000, **BOUND}),
    "a user without SETUID": pod({"runAsUser": 1000, **BOUND, "capabilities": {"drop": ["SETUID"]}}),
    "the pod's user": pod(BOUND, **secured(runAsUser=1000)),
    "the pod's not root": pod(BOUND, **secured(runAsNonRoot=True)),
    "a user over the pod's root": pod({"runAsUser": 1000, **BOUND}, **secured(runAsUser=0)),
    "root of its own users": pod({"runAsUser": 0}, hostUsers=False),
    "an init container is root": pod(dict(rootless.PROVEN), initContainers=[{**PLACEHOLDER, **secured(runAsUser=0)}]),
    "a whole GPU": pod(share=100),
    "two whole GPUs": pod(share=200),
    "no share": {"metadata": {"name": "p"}, "spec": {"containers": [PLACEHOLDER]}},
}


@pytest.mark.parametrize("made", PROVEN.values(), ids=list(PROVEN))
def test_who_cannot_be_root_to_a_shared_gpu_is_let_in(tenant: Tenant, made: Json) -> None:
    tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", made)


def test_no_debugger_is_root_beside_a_share(tenant: Tenant, refused: Refused) -> None:
    tenant.grant("pods/ephemeralcontainers", "patch")
    held = pod_object("p", schedulingGates=[{"name": "example.org/hold"}])
    tenant.client.create(tenant.workspace.pods(), held)
    path = f"{tenant.workspace.pods('p')}/ephemeralcontainers"

    def attach(name: str, **more: Any) -> Any:
        body = {"spec": {"ephemeralContainers": [{**CONTAINER, "name": name, **more}]}}
        return tenant.client.patch(path, body, content_type=STRATEGIC)

    attach("user")
    message = refused(lambda: attach("shell", **secured(runAsUser=0)))
    assert "spec.ephemeralContainers[shell].securityContext: may run as root" in message
    attach("second")


@pytest.mark.parametrize("policy", [{"tenantUser": "Any"}, {"placement": "Exclusive"}], ids=["Any", "whole GPUs"])
def test_root_is_let_in_where_the_policy_says_so_and_until_it_does_not(
    cluster: Cluster, tenant: Tenant, policy: Json
) -> None:
    with changed(cluster, **policy):
        becomes(tenant.workspace, refused=False)
        tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod())
    becomes(tenant.workspace, refused=True)


def test_what_a_controller_makes_is_let_through_to_wait_in_the_queue(tenant: Tenant) -> None:
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    path = clients.path_of("jobs", group="batch", namespace=tenant.workspace.namespace)
    tenant.client.create(path, {"metadata": {"name": "j"}, "spec": {"template": template}})
    made = waiting.wait_until(lambda: tenant.client.items(tenant.workspace.pods()), "the Job's pod", SECONDS)
    assert rootless.fault(made[0]["spec"]) is not None
    assert made[0]["spec"]["schedulingGates"] == [{"name": names.PACKING_GATE}]
