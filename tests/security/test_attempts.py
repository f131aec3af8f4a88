"""What the operator remembers of an attempt is its own: a tenant writes no end and no measurement into its Job.

The operator believes these annotations: with an end of his own making, a tenant had any prediction that he liked.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from cluster.tenants import Tenant
from cluster.workloads import CONTAINER
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json
from cotenant_operator import labels

Refused = Callable[[Callable[[], Any]], str]

KINDS: Final = {"jobs": "batch", "deployments": "apps"}
NAMED: Final = {"jobs": "train-1", "deployments": "train"}
"""As the operator names them."""
ELSEWHERE: Final = frozenset(
    {
        names.DLJOB_UID_LABEL,
        labels.REVISION,
        labels.EXTRACTION,
        labels.EXTRACTION_NUMBER,
        labels.SWEEP_DIGEST,
        names.DLJOB_LABEL,
    }
)
"""Of pods, of extractions, and of runs of sweeps: whoever may change a run may change its spec, too."""
REMEMBERED: Final = sorted(
    value
    for value in vars(labels).values()
    if isinstance(value, str) and value.startswith(f"{names.GROUP}/") and value not in ELSEWHERE
)
MEASURED: Final = {"byGPU": {"H200": {"seconds": 60, "utilizationPercent": 1, "memoryPeakMiB": 1}}}
FORGED: Final = json.dumps({"v": 1, "cause": "Profiled", "measured": MEASURED})


def workload(tenant: Tenant, plural: str, annotations: Json) -> tuple[str, Json]:
    """The path of a kind, and a workload of it as the operator makes one, for a DLJob that is there."""
    uid = tenant.workspace.dljob("train", suspend=True)["metadata"]["uid"]
    owner = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "train", "uid": uid, "controller": True}
    found = {names.DLJOB_LABEL: "train", names.DLJOB_UID_LABEL: uid}
    metadata = {"name": NAMED[plural], "labels": found, "annotations": annotations, "ownerReferences": [owner]}
    restart = "Never" if plural == "jobs" else "Always"
    template = {"metadata": {"labels": found}, "spec": {"containers": [CONTAINER], "restartPolicy": restart}}
    held: Json = {"suspend": True} if plural == "jobs" else {"replicas": 0, "selector": {"matchLabels": found}}
    path = clients.path_of(plural, group=KINDS[plural], namespace=tenant.workspace.namespace)
    return path, {"metadata": metadata, "spec": {**held, "template": template}}


@pytest.mark.parametrize("plural", KINDS)
def test_a_tenant_changes_nothing_that_the_operator_remembers(
    tenant: Tenant, refused: Refused, operator: Client, plural: str
) -> None:
    path, body = workload(tenant, plural, dict.fromkeys(REMEMBERED, "{}"))
    operator.create(path, body)
    made = f"{path}/{NAMED[plural]}"
    for key in REMEMBERED:
        for value in (FORGED, None):
            patch = {"metadata": {"annotations": {key: value}}}
            message = refused(lambda patch=patch: tenant.client.patch(made, patch))  # type: ignore[misc]
            assert f"metadata.annotations[{key}]: only the operator may change it" in message
    operator.patch(made, {"metadata": {"annotations": {labels.ENDED: FORGED}}})


@pytest.mark.parametrize("plural", KINDS)
def test_a_tenant_makes_no_attempt_that_was_measured(tenant: Tenant, refused: Refused, plural: str) -> None:
    path, body = workload(tenant, plural, {labels.ENDED: FORGED})
    message = refused(lambda: tenant.client.create(f"{path}?dryRun=All", body))
    assert f"metadata.annotations[{labels.ENDED}]: only the operator may change it" in message


@pytest.mark.parametrize("key", [labels.ENDED, labels.CARRIED])
def test_a_tenant_makes_no_cron_job_whose_jobs_were_measured(tenant: Tenant, refused: Refused, key: str) -> None:
    """The controller that makes them has the rights of Kubernetes' own."""
    template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    job = {"metadata": {"annotations": {key: FORGED}}, "spec": {"template": template}}
    made = {"metadata": {"name": "nightly"}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": job}}
    path = clients.path_of("cronjobs", group="batch", namespace=tenant.workspace.namespace)
    message = refused(lambda: tenant.client.create(path, made))
    assert f"spec.jobTemplate.metadata.annotations[{key}]: only the operator may change it" in message
    job["metadata"] = {}
    tenant.client.create(path, made)
    change = {"spec": {"jobTemplate": {"metadata": {"annotations": {key: FORGED}}}}}
    assert "only the operator may change it" in refused(lambda: tenant.client.patch(f"{path}/nightly", change))


@pytest.mark.parametrize("plural", KINDS)
def test_all_else_of_an_attempt_is_the_tenants(tenant: Tenant, operator: Client, plural: str) -> None:
    path, body = workload(tenant, plural, {labels.CARRIED: "{}"})
    operator.create(path, body)
    made = f"{path}/{NAMED[plural]}"
    tenant.client.patch(made, {"metadata": {"annotations": {"example.org/note": "x"}}})
    tenant.client.delete(made, propagationPolicy="Background")


def test_each_annotation_that_is_read_of_a_workload_is_kept(tenant: Tenant) -> None:
    path = clients.path_of(
        "validatingadmissionpolicies", group="admissionregistration.k8s.io", name="cotenant-attempts"
    )
    rule = tenant.workspace.client.get(path)["spec"]["matchConditions"][0]["expression"]
    assert [key for key in REMEMBERED if f"'{key}'" not in rule] == []
