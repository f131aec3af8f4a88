"""What the author of a pod cannot grant himself: tried by a tenant with the role `edit`, on a real API server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cluster import tenants
from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, SECONDS, pod_object, template
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from extender import builders

Refused = Callable[[Callable[[], Any]], str]

LONG_AGO = {names.QUEUED_SINCE: "2001-01-01T00:00:00Z"}
FORGED = {names.PREDICTION: builders.prediction(h200=(0.5, 100, 100))}
FOR_EVER = {names.MINIMUM_RUN_SECONDS: "999999999"}
SUSPECT = {names.SUSPECT_SECONDS: "600"}
HUGE = {names.GANG: json.dumps({"v": 1, "name": "colleagues", "size": 1024})}
HELD = "example.org/hold"
KINDS = (
    ("jobs", "batch", "Job"),
    ("cronjobs", "batch", "CronJob"),
    ("deployments", "apps", "Deployment"),
    ("replicasets", "apps", "ReplicaSet"),
    ("statefulsets", "apps", "StatefulSet"),
    ("daemonsets", "apps", "DaemonSet"),
    ("replicationcontrollers", "", "ReplicationController"),
)


def of_kind(kind: str, group: str, annotations: Json) -> Json:
    """An object of a kind whose pods carry these annotations."""
    labels = {"app": "forged"}
    pod = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [CONTAINER], "restartPolicy": "Never" if group == "batch" else "Always"},
    }
    selector: Json = labels if kind == "ReplicationController" else {"matchLabels": labels}
    job = {"template": pod}
    spec: Json = {"selector": selector, "template": pod} | ({"serviceName": "none"} if kind == "StatefulSet" else {})
    if group == "batch":
        spec = {"schedule": "@yearly", "jobTemplate": {"spec": job}} if kind == "CronJob" else job
    version = f"{group}/v1" if group else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "forged"}, "spec": spec}


@pytest.mark.parametrize(
    ("annotations", "field", "value", "remedy"),
    [
        (LONG_AGO, names.QUEUED_SINCE, "2001-01-01T00:00:00Z", "remove it"),
        (FORGED, names.PREDICTION, '{"v": 1, "graph": ', "remove it"),
        (FOR_EVER, names.MINIMUM_RUN_SECONDS, "999999999", "at most 3600"),
        (HUGE, names.GANG, "1024", "at most 256"),
    ],
)
def test_a_tenants_pod_grants_itself_nothing(
    tenant: Tenant, refused: Refused, annotations: Json, field: str, value: str, remedy: str
) -> None:
    pods = f"{tenant.workspace.pods()}?dryRun=All"
    message = refused(lambda: tenant.client.create(pods, pod_object("p", annotations=annotations)))
    assert f"metadata.annotations[{field}]: " in message
    assert value in message
    assert remedy in message


def test_nobody_makes_a_pod_a_suspect_that_others_keep_off(tenant: Tenant, refused: Refused) -> None:
    message = refused(lambda: tenant.client.create(tenant.workspace.pods(), pod_object("p", annotations=SUSPECT)))
    assert f"metadata.annotations[{names.SUSPECT_SECONDS}]: only the operator may change it" in message


def test_no_suspect_clears_itself(tenant: Tenant, refused: Refused) -> None:
    space = tenant.workspace
    space.client.create(space.pods(), pod_object("p", annotations=SUSPECT, schedulingGates=[{"name": HELD}]))
    for value in (None, "1"):
        patch = {"metadata": {"annotations": {names.SUSPECT_SECONDS: value}}}
        assert names.SUSPECT_SECONDS in refused(lambda patch=patch: tenant.client.patch(space.pods("p"), patch))  # type: ignore[misc]


@pytest.mark.parametrize("plural", ["jobs", "deployments"])
def test_no_template_of_a_suspect_clears_it(tenant: Tenant, refused: Refused, plural: str) -> None:
    space = tenant.workspace
    path = clients.path_of(plural, group={"jobs": "batch", "deployments": "apps"}[plural], namespace=space.namespace)
    found = {"app": "a"}
    restart = "Never" if plural == "jobs" else "Always"
    template = {
        "metadata": {"labels": found, "annotations": SUSPECT},
        "spec": {"containers": [CONTAINER], "restartPolicy": restart},
    }
    held: Json = {"suspend": True} if plural == "jobs" else {"replicas": 0, "selector": {"matchLabels": found}}
    space.client.create(path, {"metadata": {"name": "s"}, "spec": {**held, "template": template}})
    for change in ({names.SUSPECT_SECONDS: None}, {names.SUSPECT_SECONDS: "1"}):
        patch = {"spec": {"template": {"metadata": {"annotations": change}}}}
        message = refused(lambda patch=patch: tenant.client.patch(f"{path}/s", patch))  # type: ignore[misc]
        assert "only the operator may set or remove it" in message


HIDDEN = {
    "escaped": '{"v":1,"name":"a","si\\u007ae":1000000}',
    "twice": '{"v":1,"name":"a","size":1,"size":1000000}',
    "not at all": '{"v":1,"name":"a"}',
    "with an exponent": '{"v":1,"name":"a","size":1e6}',
    "as text": '{"v":1,"name":"a","size":"1000000"}',
    "with a fraction": '{"v":1,"name":"a","size":1000000.0}',
}


@pytest.mark.parametrize("gang", HIDDEN.values(), ids=list(HIDDEN))
def test_a_gangs_size_is_said_once_and_plainly(tenant: Tenant, refused: Refused, gang: str) -> None:
    pod = pod_object("p", annotations={names.GANG: gang})
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod))
    assert f"metadata.annotations[{names.GANG}]: {gang}: " in message
    assert 'must hold the key "size" once' in message


@pytest.mark.parametrize("kind", ["ConfigMap", "Job"])
def test_a_made_up_controller_lifts_no_bound(tenant: Tenant, refused: Refused, kind: str) -> None:
    pod = pod_object("p", annotations=FOR_EVER)
    owner = {"apiVersion": "batch/v1" if kind == "Job" else "v1", "kind": kind, "name": "mine", "uid": "u"}
    pod["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod))
    assert f"metadata.annotations[{names.MINIMUM_RUN_SECONDS}]: 999999999 is above" in message


@pytest.mark.parametrize("annotations", [LONG_AGO, FORGED, SUSPECT], ids=lambda notes: next(iter(notes)))
@pytest.mark.parametrize(("plural", "group", "kind"), KINDS, ids=[kind for _, _, kind in KINDS])
def test_no_template_of_a_tenant_grants_its_pods_anything(
    tenant: Tenant, refused: Refused, plural: str, group: str, kind: str, annotations: Json
) -> None:
    field = next(iter(annotations))
    path = clients.path_of(plural, group=group, namespace=tenant.workspace.namespace)
    where = "spec.jobTemplate.spec.template" if kind == "CronJob" else "spec.template"
    tenant.client.create(f"{path}?dryRun=All", of_kind(kind, group, {"example.org/mine": "kept"}))
    message = refused(lambda: tenant.client.create(f"{path}?dryRun=All", of_kind(kind, group, annotations)))
    assert f"{where}.metadata.annotations[{field}]: " in message


@pytest.mark.parametrize("annotations", [LONG_AGO, FORGED, SUSPECT], ids=lambda notes: next(iter(notes)))
def test_what_only_the_operator_writes_is_refused_on_every_later_way_in(
    tenant: Tenant, refused: Refused, annotations: Json
) -> None:
    space, field = tenant.workspace, next(iter(annotations))
    tenant.client.create(space.pods(), pod_object("p", schedulingGates=[{"name": HELD}]))
    patch = {"metadata": {"annotations": annotations}}
    assert field in refused(lambda: tenant.client.patch(space.pods("p"), patch))
    deployment = of_kind("Deployment", "apps", {})
    deployment["spec"]["replicas"] = 0
    tenant.client.create(space.deployments(), deployment)
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    assert field in refused(lambda: tenant.client.patch(f"{space.deployments()}/forged", patch))
    tenant.client.patch(f"{space.deployments()}/forged", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})


def test_a_template_of_a_dljob_grants_its_pods_nothing(tenant: Tenant, refused: Refused) -> None:
    for annotations in (LONG_AGO, FORGED, SUSPECT):
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "DLJob",
            "metadata": {"name": "forged"},
            "spec": {"template": {**template(), "metadata": {"annotations": annotations}}},
        }
        message = refused(lambda body=body: tenant.client.create(tenant.workspace.dljobs(), body))  # type: ignore[misc]
        assert "spec.template.metadata.annotations" in message
        assert "remove it" in message


@pytest.mark.parametrize(
    ("spec", "field", "remedy"),
    [
        ({"minimumRunSeconds": 7200}, "spec.minimumRunSeconds: 7200 is above", "at most 3600"),
        ({"replicas": 300}, "spec.replicas: 300 is above", "at most 256"),
    ],
)
def test_a_dljob_above_the_policys_bounds_is_refused_with_field_value_and_remedy(
    tenant: Tenant, refused: Refused, spec: Json, field: str, remedy: str
) -> None:
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "metadata": {"name": "greedy"},
        "spec": {"template": template(), **spec},
    }
    message = refused(lambda: tenant.client.create(tenant.workspace.dljobs(), body))
    assert field in message
    assert remedy in message


def test_who_is_granted_an_annotation_in_a_namespace_may_set_that_one_there(tenant: Tenant, refused: Refused) -> None:
    space = tenant.workspace
    rule = {
        "apiGroups": [names.GROUP],
        "resources": [names.POD_ANNOTATIONS],
        "resourceNames": ["queued-since"],
        "verbs": ["set"],
    }
    roles = clients.path_of("roles", group=tenants.RBAC, namespace=space.namespace)
    space.client.create(roles, {"metadata": {"name": "queued"}, "rules": [rule]})
    tenant.bind("Role", "queued")
    resource = f"{names.POD_ANNOTATIONS}.{names.GROUP}"
    waiting.wait_until(lambda: tenant.may("set", resource, name="queued-since"), "the grant", SECONDS)
    dry = f"{space.pods()}?dryRun=All"
    tenant.client.create(dry, pod_object("p", annotations=LONG_AGO))
    assert names.PREDICTION in refused(lambda: tenant.client.create(dry, pod_object("p", annotations=FORGED)))


@pytest.mark.parametrize("name", ["queued-since", "prediction", "suspect-seconds", "finalizers"])
def test_the_admin_of_a_namespace_grants_nobody_what_he_does_not_hold(
    tenant: Tenant, refused: Refused, name: str
) -> None:
    tenant.bind("ClusterRole", "admin")
    namespace = tenant.workspace.namespace
    waiting.wait_until(lambda: tenant.may("create", "roles.rbac.authorization.k8s.io"), "the role", SECONDS)
    rule = {"apiGroups": [names.GROUP], "resources": [names.POD_ANNOTATIONS], "resourceNames": [name], "verbs": ["set"]}
    if name == "finalizers":
        rule = {"apiGroups": ["batch"], "resources": ["jobs/finalizers"], "verbs": ["update"]}
    roles = clients.path_of("roles", group=tenants.RBAC, namespace=namespace)
    message = refused(lambda: tenant.client.create(roles, {"metadata": {"name": "mine"}, "rules": [rule]}))
    assert "attempting to grant RBAC permissions not currently held" in message
    binding = {
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": tenants.RBAC, "kind": "ClusterRole", "name": "cotenant-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": tenants.NAME, "namespace": namespace}],
    }
    bindings = clients.path_of("rolebindings", group=tenants.RBAC, namespace=namespace)
    assert "not currently held" in refused(lambda: tenant.client.create(bindings, binding))
