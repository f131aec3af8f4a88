"""A DLJob's pod template has the schema that Kubernetes has for pods: explained, checked, and merged as theirs."""

import json

import pytest

from cluster.workloads import CONTAINER, Workspace, template
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import pod_specs
from cotenant_e2e.client import Json
from cotenant_e2e.commands import pod_spec


def dljob(name: str, **pod: object) -> Json:
    """A suspended DLJob; `pod`: fields of its template's spec."""
    made = template(run_for="1s", **pod)
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "DLJob",
        "metadata": {"name": name},
        "spec": {"suspend": True, "sharing": "Exclusive", "template": made},
    }


def test_the_schema_is_that_of_the_api_server_it_was_taken_from(workspace: Workspace) -> None:
    document = workspace.client.get(f"/openapi/v3/{pod_specs.DOCUMENT}")
    assert json.loads(pod_spec.TARGET.read_text())["definitions"] == pod_specs.definitions(document)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("containers.livenessProbe.httpGet", "port"),
        ("containers.env.valueFrom.secretKeyRef", "key"),
        ("volumes.persistentVolumeClaim", "claimName"),
        ("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
        ("topologySpreadConstraints", "maxSkew"),
    ],
)
def test_kubectl_explains_every_field_of_the_template(workspace: Workspace, path: str, field: str) -> None:
    printed = workspace.installation.cluster.kubectl("explain", f"dljob.spec.template.spec.{path}")
    fields = [line.split()[0] for line in printed.partition("FIELDS:")[2].splitlines() if line.startswith("  ")]
    assert field in fields


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ({"terminationGracePeriodSeconds": "soon"}, "terminationGracePeriodSeconds"),
        ({"containers": [{**CONTAINER, "ports": [{"containerPort": "80"}]}]}, "containerPort"),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "much"}}]}, "sizeLimit"),
        ({"containers": [CONTAINER, CONTAINER]}, "Duplicate value"),
    ],
)
def test_what_no_pod_can_have_is_refused_at_once(workspace: Workspace, pod: Json, said: str) -> None:
    with pytest.raises(clients.APIError, match=said):
        workspace.client.create(workspace.dljobs(), dljob("train", **pod))


def test_a_null_is_a_field_that_is_not_there(workspace: Workspace) -> None:
    made = workspace.client.create(
        workspace.dljobs(), dljob("train", nodeSelector=None, volumes=None, hostNetwork=None)
    )
    assert not {"nodeSelector", "volumes", "hostNetwork"} & made["spec"]["template"]["spec"].keys()


def test_two_managers_share_the_lists_of_a_template(workspace: Workspace) -> None:
    first, second = dljob("train"), dljob("train")
    for made, name in ((first, "a"), (second, "b")):
        container = {"name": CONTAINER["name"], "env": [{"name": name, "value": "1"}]}
        made["spec"]["template"]["spec"] = {"containers": [container], "volumes": [{"name": name, "emptyDir": {}}]}
    first["spec"]["template"]["spec"]["containers"][0]["image"] = CONTAINER["image"]
    for manager, made in (("first", first), ("second", second)):
        flags = ("apply", "--server-side", "--field-manager", manager, "--namespace", workspace.namespace)
        workspace.installation.cluster.kubectl(*flags, "--filename", "-", stdin=made)
    spec = workspace.client.get(workspace.dljobs("train"))["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (container["image"], sorted(each["name"] for each in container["env"])) == (CONTAINER["image"], ["a", "b"])
    assert sorted(volume["name"] for volume in spec["volumes"]) == ["a", "b"]
