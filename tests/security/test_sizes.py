"""No tenant's annotations or labels make a rule of ours dear, or keep our programs from writing to his pod."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import Client, Json
from security.test_grants import KINDS, of_kind

Refused = Callable[[Callable[[], Any]], str]

MOST = 128
ROOM = 49152
TINY = {format(number, "x"): "" for number in range(44_000)}
"""Under 256 KiB, which is what the API server bounds."""
HELD: Json = {"schedulingGates": [{"name": "example.org/hold"}]}


def many(count: int) -> dict[str, str]:
    return {f"example.org/{number}": "" for number in range(count)}


def with_metadata(field: str, count: int, **spec: Any) -> Json:
    pod = pod_object("p", **HELD, **spec)
    pod["metadata"][field] = many(count)
    return pod


@pytest.mark.parametrize("field", ["annotations", "labels"])
def test_a_pod_with_a_share_has_no_more_than_that_many(tenant: Tenant, refused: Refused, field: str) -> None:
    pods = tenant.workspace.pods()
    message = refused(lambda: tenant.client.create(pods, with_metadata(field, MOST + 1)))
    assert f"metadata.{field}: {MOST + 1}: a pod that asks for cotenant.dev/gpu-share has at most {MOST}" in message
    assert "remove some" in message
    # Admission adds a label.
    tenant.client.create(pods, with_metadata(field, MOST - 1))
    more = {"metadata": {field: {"a": "", "b": "", "c": ""}}}
    assert f"metadata.{field}: " in refused(lambda: tenant.client.patch(tenant.workspace.pods("p"), more))


def test_tens_of_thousands_are_refused_by_their_number(tenant: Tenant, refused: Refused) -> None:
    pod = pod_object("p", annotations=TINY)
    assert f"metadata.annotations: {len(TINY)}: " in refused(lambda: tenant.client.create(tenant.workspace.pods(), pod))


@pytest.mark.parametrize("field", ["annotations", "labels"])
@pytest.mark.parametrize(("plural", "group", "kind"), KINDS, ids=[kind for _, _, kind in KINDS])
def test_a_template_that_asks_for_a_share_has_no_more_than_that_many(
    tenant: Tenant, refused: Refused, plural: str, group: str, kind: str, field: str
) -> None:
    path = clients.path_of(plural, group=group, namespace=tenant.workspace.namespace)
    where = "spec.jobTemplate.spec.template" if kind == "CronJob" else "spec.template"
    found = of_kind(kind, group, {})
    template = (found["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else found["spec"])["template"]
    template["metadata"][field] = {**template["metadata"][field], **many(MOST + 1)}
    # Who asks for no share is let be.
    tenant.client.create(f"{path}?dryRun=All", found)
    template["spec"]["containers"] = pod_object("p")["spec"]["containers"]
    message = refused(lambda: tenant.client.create(f"{path}?dryRun=All", found))
    # The API server adds labels to the template of a Job.
    assert re.search(rf"{where}\.metadata\.{field}: 1[23]\d: ", message)


def test_a_pod_with_many_that_is_there_already_goes_on(tenant: Tenant, scheduler: Client) -> None:
    """From before this rule: it asked for no share, or our rules came later."""
    pod = {"metadata": {"name": "p", "annotations": TINY}, "spec": {"containers": [CONTAINER], **HELD}}
    path = tenant.workspace.pods("p")
    tenant.client.create(tenant.workspace.pods(), pod | {"spec": {**pod["spec"], "schedulerName": "cotenant"}})
    condition = {"type": names.PACKED, "status": "False", "reason": "Waiting", "message": "by a test"}
    scheduler.patch(f"{path}/status", {"status": {"conditions": [condition]}})
    scheduler.delete(path, dryRun="All")


def test_annotations_leave_room_for_what_the_scheduler_writes(
    tenant: Tenant, scheduler: Client, refused: Refused
) -> None:
    """Each character is of four bytes, and the API server takes 262144 bytes of annotations."""
    key = "example.org/a"
    pod = pod_object("p", **HELD)
    pod["metadata"]["annotations"] = {key: "\N{ROCKET}" * (ROOM - len(key))}
    full = f"metadata.annotations: {ROOM + 1} characters beside those of cotenant.dev: at most {ROOM}"
    more = {"metadata": {"annotations": {key: pod["metadata"]["annotations"][key] + "x"}}}
    assert full in refused(
        lambda: tenant.client.create(tenant.workspace.pods(), pod | {"metadata": pod["metadata"] | more["metadata"]})
    )
    tenant.client.create(tenant.workspace.pods(), pod)
    assert full in refused(lambda: tenant.client.patch(tenant.workspace.pods("p"), more))
    mark = {"metadata": {"annotations": {names.EARMARK: "x" * 8192}}}
    scheduler.patch(f"{tenant.workspace.pods('p')}?dryRun=All", mark)
