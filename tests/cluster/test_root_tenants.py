"""Jobs that may be root wait, with the line to add, until it is added or the policy lets root in."""

from collections.abc import Iterator
from typing import Final

import pytest

from cluster.workloads import CONTAINER, SECONDS, Workspace, graph_document, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

POLICY: Final = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
ROOT: Final[Json] = {**CONTAINER, "securityContext": {"runAsUser": 0}}
TOLD: Final = "spec.containers[main].securityContext: may run as root, whom MPS obeys"


@pytest.fixture
def afterwards_strict(workspace: Workspace) -> Iterator[None]:
    """The default policy, when the test is over."""
    yield
    workspace.client.patch(POLICY, {"spec": {"tenantUser": None}})


def test_a_dljob_that_may_be_root_is_told_the_line_and_runs_when_it_is_added(workspace: Workspace) -> None:
    graph = workspace.graph("graph", graph_document(flops=10**6, repeat=10))
    workspace.dljob("train", model=graph, template=template(containers=[ROOT]))
    workspace.wait_for_condition("train", "Queued", "False", "MayBeRoot")
    message = workspace.condition("train", "Queued")["message"]
    assert "spec.template.spec.containers[main].securityContext: may run as root" in message
    assert "set runAsUser to another user than 0" in message
    assert workspace.client.items(workspace.jobs()) == []
    workspace.client.patch(workspace.dljobs("train"), {"spec": {"template": template()}})
    workspace.wait_for_phase("train", Phase.SUCCEEDED)


def test_a_controllers_pod_that_may_be_root_waits_until_the_policy_lets_it_in(
    workspace: Workspace, afterwards_strict: None
) -> None:
    container = {**ROOT, "resources": {"limits": {names.GPU_SHARE: "10"}}}
    spec = {"template": template(run_for="", containers=[container], restartPolicy="Never")}
    workspace.client.create(workspace.jobs(), {"metadata": {"name": "root"}, "spec": spec})
    (pod,) = waiting.wait_until(lambda: workspace.client.items(workspace.pods()), "the Job's pod", SECONDS)
    name = pod["metadata"]["name"]
    told = waiting.wait_until(lambda: workspace.packed(name), "the reason why it waits", SECONDS)
    assert told["reason"] == "InvalidRequest"
    assert told["message"].startswith(TOLD)
    workspace.client.patch(POLICY, {"spec": {"tenantUser": "Any"}})
    workspace.bound_pod(name)


def test_a_job_with_a_whole_gpu_may_be_root(workspace: Workspace) -> None:
    workspace.dljob("alone", sharing="Exclusive", template=template(containers=[ROOT]))
    workspace.wait_for_phase("alone", Phase.SUCCEEDED)
