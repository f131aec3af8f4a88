"""What stands beside a prediction is the operator's: a tenant changes neither memory, models nor the template's pod.

The prediction says what a pod is booked by. Who could keep it for another pod had GPUs that no quota counts.
"""

from collections.abc import Callable
from typing import Any

import pytest

from cluster import tenants
from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, SECONDS, pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Client, Json

Refused = Callable[[Callable[[], Any]], str]

PREDICTED = {names.PREDICTION: '{"x":1}', names.QUEUED_SINCE: "2001-01-01T00:00:00Z", names.GPU_MODELS: "H200"}
MEMORY = {names.GPU_MEMORY: "130Gi"}
LABELS = {"app": "predicted"}
FORGET: Json = {names.PREDICTION: None, names.QUEUED_SINCE: None}
KINDS = {"deployments": "apps", "replicasets": "apps", "jobs": "batch"}
SUBMITTED = pod_object("p", 50)["spec"]["containers"][0]


def annotated(annotations: Json) -> Json:
    return {"metadata": {"annotations": annotations}}


def as_the_operator_makes_it(client: Client, tenant: Tenant, plural: str, annotations: Json = PREDICTED) -> str:
    """A workload whose pods carry a prediction; nobody runs it. Its path."""
    spec = {"containers": [SUBMITTED], "restartPolicy": "Never" if plural == "jobs" else "Always"}
    template = {"metadata": {"labels": LABELS, "annotations": annotations}, "spec": spec}
    held: Json = {"suspend": True} if plural == "jobs" else {"replicas": 0, "selector": {"matchLabels": LABELS}}
    path = clients.path_of(plural, group=KINDS[plural], namespace=tenant.workspace.namespace)
    client.create(path, {"metadata": {"name": "predicted"}, "spec": {**held, "template": template}})
    return f"{path}/predicted"


def asking(share: str, **more: Any) -> Json:
    """A change of the container."""
    resources = {"limits": {names.GPU_SHARE: share}, "requests": {names.GPU_SHARE: share}}
    return {"containers": [{**SUBMITTED, "resources": resources, **more}]}


def of_template(patch: Json) -> Json:
    return {"spec": {"template": patch}}


@pytest.mark.parametrize("spec", [{"parallelism": 12}, {"parallelism": 12, "completions": 12}], ids=["wider", "more"])
def test_a_tenant_makes_no_more_pods_of_a_job_that_is_older_than_they(
    tenant: Tenant, refused: Refused, spec: Json
) -> None:
    """They would have waited for as long as their DLJob, before all that really did."""
    template = {
        "metadata": {"annotations": {names.QUEUED_SINCE: "2001-01-01T00:00:00Z"}},
        "spec": {"containers": [SUBMITTED], "restartPolicy": "Never"},
    }
    job = {"completionMode": "Indexed", "completions": 1, "parallelism": 1, "suspend": True, "template": template}
    path = clients.path_of("jobs", group="batch", namespace=tenant.workspace.namespace)
    tenant.workspace.client.create(path, {"metadata": {"name": "old"}, "spec": job})
    message = refused(lambda: tenant.client.patch(f"{path}/old", {"spec": spec}))
    assert "spec.parallelism: only the operator may change it beside cotenant.dev/queued-since" in message
    assert "change spec.replicas of the DLJob" in message


def test_a_tenant_resumes_no_job_whose_pods_would_be_older_than_they_are(tenant: Tenant, refused: Refused) -> None:
    """A Job that was suspended long ago, or orphaned, would give its pods the place that it had then."""
    template = {
        "metadata": {"annotations": {names.QUEUED_SINCE: "2001-01-01T00:00:00Z"}},
        "spec": {"containers": [SUBMITTED], "restartPolicy": "Never"},
    }
    path = clients.path_of("jobs", group="batch", namespace=tenant.workspace.namespace)
    body = {"metadata": {"name": "old"}, "spec": {"suspend": True, "template": template}}
    tenant.workspace.client.create(path, body)
    message = refused(lambda: tenant.client.patch(f"{path}/old", {"spec": {"suspend": False}}))
    assert "spec.suspend: only the operator may resume a Job beside cotenant.dev/queued-since" in message
    assert "change spec.suspend of the DLJob, or remove the annotation from spec.template with it" in message
    forget = {"spec": {"suspend": False, "template": annotated({names.QUEUED_SINCE: None})}}
    tenant.client.patch(f"{path}/old", forget)
    tenant.client.patch(f"{path}/old", {"spec": {"suspend": True}})
    tenant.client.patch(f"{path}/old", {"spec": {"suspend": False}})


@pytest.fixture
def predicted(tenant: Tenant) -> str:
    """A gated pod that carries a prediction; its path."""
    more: Json = {"initContainers": [CONTAINER | {"name": "first"}]}
    pod = pod_object("p", annotations=PREDICTED, schedulingGates=[{"name": "example.org/hold"}], **more)
    tenant.workspace.client.create(tenant.workspace.pods(), pod)
    return tenant.workspace.pods("p")


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        (MEMORY, f"metadata.annotations[{names.GPU_MEMORY}]: 130Gi: "),
        ({names.GPU_MODELS: "A100"}, f"metadata.annotations[{names.GPU_MODELS}]: A100: "),
        ({names.GPU_MODELS: None}, f"metadata.annotations[{names.GPU_MODELS}]: none: "),
        ({**MEMORY, names.QUEUED_SINCE: None}, f"metadata.annotations[{names.GPU_MEMORY}]: 130Gi: "),
    ],
    ids=["memory", "models", "no models", "memory and no time"],
)
def test_a_tenant_asks_for_no_more_beside_a_prediction(
    tenant: Tenant, refused: Refused, predicted: str, annotations: Json, says: str
) -> None:
    message = refused(lambda: tenant.client.patch(predicted, annotated(annotations)))
    assert says in message
    assert "remove cotenant.dev/prediction" in message


IMAGE = [{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example/another:1"}]
INIT_IMAGE = [{"op": "replace", "path": "/spec/initContainers/0/image", "value": "registry.example/another:1"}]
JSON_PATCH = "application/json-patch+json"


@pytest.mark.parametrize(("patch", "where"), [(IMAGE, "containers"), (INIT_IMAGE, "initContainers")])
def test_a_tenant_runs_no_other_image_beside_a_prediction(
    tenant: Tenant, refused: Refused, predicted: str, patch: list[Json], where: str
) -> None:
    message = refused(lambda: tenant.client.patch(predicted, patch, content_type=JSON_PATCH))
    assert f"spec.{where}[*].image: " in message
    assert "remove cotenant.dev/prediction" in message


def test_without_the_prediction_the_image_is_the_tenants_again(tenant: Tenant, predicted: str) -> None:
    forget = {"op": "remove", "path": f"/metadata/annotations/{names.PREDICTION.replace('/', '~1')}"}
    tenant.client.patch(predicted, [*IMAGE, forget], content_type=JSON_PATCH)


def test_without_the_prediction_the_memory_is_the_tenants_again(tenant: Tenant, predicted: str) -> None:
    tenant.client.patch(predicted, annotated({names.WORKLOAD_TYPE: "Inference"}))
    tenant.client.patch(predicted, annotated({**MEMORY, **FORGET}))


CHANGES = {
    "memory": (annotated(MEMORY), f"spec.template.metadata.annotations[{names.GPU_MEMORY}]: 130Gi: "),
    "models": (annotated({names.GPU_MODELS: None}), f"spec.template.metadata.annotations[{names.GPU_MODELS}]: none: "),
    "share": ({"spec": asking("1")}, "spec.template.spec."),
    "image": ({"spec": asking("50", image="another")}, "spec.template.spec."),
    "init container": ({"spec": {"initContainers": [{"name": "i", "image": "x"}]}}, "spec.template.spec."),
    "priority": ({"spec": {"priorityClassName": "system-node-critical"}}, "spec.template.spec."),
    "everything": (
        {**annotated({**MEMORY, names.PREDICTION: None}), "spec": asking("1", image="another")},
        "spec.template.",
    ),
}
"""All that the reader of the manifests tried of a template, with the field that is named."""


@pytest.mark.parametrize(("change", "says"), CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("plural", KINDS)
def test_a_tenant_keeps_no_prediction_for_another_pod(
    tenant: Tenant, refused: Refused, plural: str, change: Json, says: str
) -> None:
    path = as_the_operator_makes_it(tenant.workspace.client, tenant, plural)
    message = refused(lambda: tenant.client.patch(path, of_template(change)))
    # Of a Job the API server itself freezes the most.
    assert says in message or "immutable" in message
    assert "remove cotenant.dev/prediction and cotenant.dev/queued-since" in message or "immutable" in message


@pytest.mark.parametrize("key", [names.PREDICTION, names.QUEUED_SINCE])
def test_each_of_the_two_annotations_freezes_the_template_alone(tenant: Tenant, refused: Refused, key: str) -> None:
    path = as_the_operator_makes_it(tenant.workspace.client, tenant, "deployments", {key: "{}"})
    assert "spec.template.spec." in refused(lambda: tenant.client.patch(path, of_template({"spec": asking("1")})))


def test_a_tenant_takes_a_template_for_himself_without_the_annotations(tenant: Tenant) -> None:
    path = as_the_operator_makes_it(tenant.workspace.client, tenant, "deployments")
    mine = {**annotated({**MEMORY, **FORGET}), "spec": asking("1", image="another")}
    tenant.client.patch(path, of_template(mine))


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"replicas": 3}},
        of_template(annotated({"kubectl.kubernetes.io/restartedAt": "now"})),
        of_template({"spec": {"nodeSelector": {"zone": "a"}}}),
        of_template({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
    ],
    ids=["replicas", "a restart", "nodes", "tolerations"],
)
@pytest.mark.parametrize("plural", ["deployments", "jobs"])
def test_what_gains_nothing_is_the_tenants(tenant: Tenant, plural: str, patch: Json) -> None:
    path = as_the_operator_makes_it(tenant.workspace.client, tenant, plural)
    if plural == "jobs" and "replicas" in patch["spec"]:
        patch = {"spec": {"backoffLimit": 3}}
    tenant.client.patch(path, patch)


def test_the_operator_changes_its_templates(tenant: Tenant, operator: Client) -> None:
    path = as_the_operator_makes_it(tenant.workspace.client, tenant, "deployments")
    uid = tenant.workspace.dljob("train")["metadata"]["uid"]
    owner = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "train", "uid": uid, "controller": True}
    metadata = {"labels": {names.DLJOB_LABEL: "train"}, "ownerReferences": [owner]}
    tenant.workspace.client.patch(path, {"metadata": metadata})
    operator.patch(path, of_template({**annotated(MEMORY), "spec": asking("60", image="next")}))


def test_who_may_set_a_prediction_changes_what_it_says(tenant: Tenant, predicted: str) -> None:
    space = tenant.workspace
    rule = {"apiGroups": [names.GROUP], "resources": [names.POD_ANNOTATIONS], "verbs": ["set"]}
    roles = clients.path_of("roles", group=tenants.RBAC, namespace=space.namespace)
    space.client.create(roles, {"metadata": {"name": "predicts"}, "rules": [rule]})
    tenant.bind("Role", "predicts")
    resource = f"{names.POD_ANNOTATIONS}.{names.GROUP}"
    waiting.wait_until(lambda: tenant.may("set", resource, name="prediction"), "the grant", SECONDS)
    tenant.client.patch(predicted, annotated(MEMORY))
    path = as_the_operator_makes_it(space.client, tenant, "deployments")
    tenant.client.patch(path, of_template({"spec": asking("1")}))


def test_every_field_of_a_pods_spec_is_frozen_but_where_it_may_go(tenant: Tenant) -> None:
    client = tenant.workspace.client
    schema = client.get("/openapi/v3/api/v1")["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    path = clients.path_of(
        "validatingadmissionpolicies", group="admissionregistration.k8s.io", name="cotenant-templates"
    )
    rules = " ".join(one["expression"] for one in client.get(path)["spec"]["variables"])
    open_to_all = {"nodeSelector", "affinity", "tolerations", "schedulingGates"}
    assert {field for field in schema["properties"] if f"'{field}'" not in rules} == open_to_all
