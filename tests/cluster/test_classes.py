"""A class of jobs that a platform team writes once, as the example has it: a DLJob of it is an image and a command."""

from collections.abc import Iterator

import pytest
import yaml

from cluster.workloads import SECONDS, Workspace
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import configuration, waiting
from cotenant_e2e.client import Json

EXAMPLE = configuration.REPOSITORY / "manifests" / "examples" / "platform" / "class.yaml"
ADMISSION = "admissionregistration.k8s.io"
CLASSES = "platform-classes"
PATHS = {
    "Namespace": clients.path_of("namespaces"),
    "DLJob": clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace=CLASSES),
    "MutatingAdmissionPolicy": clients.path_of("mutatingadmissionpolicies", group=ADMISSION),
    "MutatingAdmissionPolicyBinding": clients.path_of("mutatingadmissionpolicybindings", group=ADMISSION),
}
MAIN: Json = {"name": "main", "image": "registry.example/train:1", "command": ["python", "train.py"]}
LABELS = {"platform.example.com/class": "vision"}


@pytest.fixture
def classed(workspace: Workspace) -> Iterator[Workspace]:
    """A namespace in a cluster that has the class."""
    written = list(yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")))
    for value in written:
        name = value["metadata"]["name"]
        if workspace.client.find(f"{PATHS[value['kind']]}/{name}") is None:
            workspace.client.create(PATHS[value["kind"]], value)
    waiting.wait_until(lambda: is_classed(workspace), "the policy", SECONDS)
    yield workspace
    for value in reversed(written[1:]):
        path = f"{PATHS[value['kind']]}/{value['metadata']['name']}"
        if workspace.client.find(path) is not None:
            workspace.client.delete(path)


def is_classed(workspace: Workspace) -> bool:
    try:
        return "gpuModels" in made(workspace, dry_run=True)["spec"]
    except clients.APIError:
        # It does not know the class yet.
        return False


def made(workspace: Workspace, *, dry_run: bool = False, labels: dict[str, str] = LABELS, **spec: object) -> Json:
    """Return a DLJob as the API server takes it from its author."""
    value = {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": "train", "labels": labels},
        "spec": {"template": {"spec": {"containers": [MAIN]}}, **spec},
    }
    return workspace.client.create(workspace.dljobs() + ("?dryRun=All" if dry_run else ""), value)


def test_a_job_of_the_class_is_an_image_and_a_command(classed: Workspace) -> None:
    spec = made(classed)["spec"]
    pod = spec["template"]["spec"]
    (main,) = pod["containers"]
    assert spec["gpuModels"] == ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H200"]
    assert main["resources"]["limits"] == {"memory": "32Gi"}
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "datasets"
    waiting.wait_until(lambda: len(classed.client.items(classed.jobs())) == 1, "its Job", SECONDS)
    (job,) = classed.client.items(classed.jobs())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "train.py"]
    assert container["securityContext"]["runAsUser"] == 1000
    assert container["volumeMounts"][0]["mountPath"] == "/data"


def test_what_its_author_writes_stands(classed: Workspace) -> None:
    own = {**MAIN, "resources": {"limits": {"memory": "1Gi"}}}
    template = {"spec": {"containers": [own, {**MAIN, "name": "log"}], "volumes": []}}
    spec = made(classed, dry_run=True, gpuModels=["Tesla-T4"], template=template)["spec"]
    main, log = spec["template"]["spec"]["containers"]
    assert spec["gpuModels"] == ["Tesla-T4"]
    assert (main["resources"], spec["template"]["spec"]["volumes"]) == (own["resources"], [])
    assert log == {**MAIN, "name": "log"}


def test_a_job_of_no_class_is_left_as_it_is(classed: Workspace) -> None:
    spec = made(classed, dry_run=True, labels={})["spec"]
    assert "gpuModels" not in spec
    assert spec["template"]["spec"] == {"containers": [MAIN]}


def test_a_class_that_is_not_there_is_said_to_the_author(classed: Workspace) -> None:
    classed.client.delete(f"{PATHS['DLJob']}/vision")
    waiting.wait_until(lambda: not is_classed(classed), "the class to be gone", SECONDS)
    with pytest.raises(clients.APIError, match="dljob-class-vision"):
        made(classed, dry_run=True)
    assert made(classed, dry_run=True, labels={})["kind"] == "DLJob"
