"""Every example of `manifests/examples/dljobs` is applied with kubectl and reaches the state that its first line names.

Simulated containers have no program: the state that is expected says how long a pod runs, and how it ends.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import extraction
from cluster.workloads import Workspace
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import configuration, waiting

FOLDER = configuration.REPOSITORY / "manifests" / "examples" / "dljobs"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
EXPECTED = re.compile(
    r"# Expect: (?:phase (?P<phase>\w+)|condition (?P<type>\w+)=(?P<status>\w+) (?P<reason>\w+)|event (?P<event>\w+))\n"
)
MEASURED_SECONDS = 150
"""An event may tell of a minute alone on a GPU: so long, and the way there."""
CHANGED = ("mode", "queue", "correction")
"""What examples change of the PackingPolicy."""
FATES = {Phase.SUCCEEDED: {"demo.cotenant.dev/run-for": "1s"}, Phase.FAILED: {"demo.cotenant.dev/fail-after": "500ms"}}
EXTRACTED = ("entrypoint", "onnx")
POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
PRIORITIES = clients.path_of("priorityclasses", group="scheduling.k8s.io")


@pytest.fixture
def shared(workspace: Workspace) -> Iterator[Workspace]:
    """The workspace; what an example changes for the whole cluster is put back."""
    before = workspace.client.get(POLICY)["spec"]
    yield workspace
    workspace.client.patch(POLICY, {"spec": {name: before.get(name) for name in CHANGED}})
    for priority in workspace.client.items(PRIORITIES):
        if not priority["metadata"]["name"].startswith("system-"):
            workspace.client.delete(f"{PRIORITIES}/{priority['metadata']['name']}")


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_reaches_the_state_that_it_names(shared: Workspace, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    expected = EXPECTED.match(text)
    assert expected is not None, "the first line says what to expect"
    phase = Phase(expected["phase"]) if expected["phase"] else None
    objects = [with_fate(value, phase) for value in yaml.safe_load_all(text)]
    apply(shared, objects)
    if path.stem in EXTRACTED:
        extraction.play(shared, path.stem)
    if phase is not None:
        shared.wait_for_phase(path.stem, phase)
    elif expected["event"]:
        waiting.wait_until(lambda: expected["event"] in reasons(shared), f"event {expected['event']}", MEASURED_SECONDS)
    else:
        shared.wait_for_condition(path.stem, expected["type"], expected["status"], expected["reason"])


def reasons(workspace: Workspace) -> set[str]:
    """Of the events that were told."""
    return {str(event["reason"]) for event in workspace.events()}


def with_fate(value: dict[str, Any], phase: Phase | None) -> dict[str, Any]:
    """The object, with the annotation that ends its simulated pods as expected."""
    fate = None if phase is None else FATES.get(phase)
    if value["kind"] == "DLJob" and fate is not None:
        value["spec"]["template"].setdefault("metadata", {})["annotations"] = fate
    return value


def apply(workspace: Workspace, objects: list[dict[str, Any]]) -> None:
    cluster = workspace.installation.cluster
    arguments = ("apply", "--server-side", "--force-conflicts", "--namespace", workspace.namespace, "--filename", "-")
    cluster.kubectl(*arguments, stdin=yaml.safe_dump_all(objects))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_is_one_dljob_of_its_files_name(path: Path) -> None:
    objects = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    assert [value["metadata"]["name"] for value in objects if value["kind"] == "DLJob"] == [path.stem]
    assert not any("namespace" in value["metadata"] for value in objects)
