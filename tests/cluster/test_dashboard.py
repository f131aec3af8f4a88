"""`cotenant dashboard` on a real control plane, by an account that may read five kinds and no more."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.workloads import SECONDS, Workspace, graph_document, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json
from cotenant_e2e.installation import COTENANT, Installation

RBAC = "rbac.authorization.k8s.io"
SPACE = names.RELEASE_NAMESPACE
ACCOUNT, NOBODY = "dashboard-test", "nobody-test"
BINDINGS = {"dashboard-test": "cotenant-viewer", "dashboard-test-reviews": "system:auth-delegator"}
Ask = Callable[..., Json]


@pytest.fixture(scope="module")
def tokens(installed: Installation) -> Iterator[dict[str, str]]:
    """Of an account that may read and ask who may, and of one that may nothing."""
    client = installed.cluster.client
    accounts = clients.path_of("serviceaccounts", namespace=SPACE)
    bindings = clients.path_of("clusterrolebindings", group=RBAC)
    for name in (ACCOUNT, NOBODY):
        client.create(accounts, {"metadata": {"name": name}})
    for name, role in BINDINGS.items():
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SPACE}
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        client.create(bindings, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})
    yield {name: installed.cluster.token(SPACE, name) for name in (ACCOUNT, NOBODY)}
    for name in BINDINGS:
        client.delete(f"{bindings}/{name}")
    for name in (ACCOUNT, NOBODY):
        client.delete(f"{accounts}/{name}")


@pytest.fixture(scope="module")
def url(installed: Installation, tokens: dict[str, str]) -> Iterator[str]:
    """Of a dashboard that asks for a token."""
    cluster = installed.cluster
    kubeconfig: Path = cluster.kubeconfig_for_token(ACCOUNT, tokens[ACCOUNT])
    port = str(cluster.free_port("dashboard"))
    found = f"http://127.0.0.1:{port}"
    argv = (COTENANT, "dashboard", "--kubeconfig", kubeconfig, "--port", port, "--authenticate")
    cluster.start_process("dashboard-test", argv, ready=f"{found}/readyz")
    yield found
    cluster.stop_process("dashboard-test")


@pytest.fixture
def ask(url: str, tokens: dict[str, str]) -> Ask:
    """Asks as the account, or as somebody else."""

    def asked(path: str, token: str | None = None, *, status: int = 200) -> Any:
        header = {"Authorization": f"Bearer {token or tokens[ACCOUNT]}"}
        answer = httpx.get(f"{url}/api/{path}", headers=header)
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def parts(ask: Ask) -> dict[str, Any]:
    return dict(ask("page")["parts"])


def tenants(ask: Ask, namespace: str) -> list[dict[str, Any]]:
    """Of a namespace, on any GPU."""
    nodes = [part for key, part in parts(ask).items() if key.startswith("node/")]
    every = [tenant for node in nodes for gpu in node["gpus"] for tenant in gpu["tenants"]]
    return [tenant for tenant in every if tenant["namespace"] == namespace]


def test_it_shows_every_gpu_and_that_it_is_simulated(workspace: Workspace, ask: Ask) -> None:
    nodes = workspace.client.items(clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION))
    there = {gpu["uuid"] for node in nodes for gpu in node["status"]["gpus"]}
    shown = [part for key, part in parts(ask).items() if key.startswith("node/")]
    assert {gpu["uuid"] for node in shown for gpu in node["gpus"]} == there
    assert all(node["simulated"] and node["ready"] for node in shown)
    read = dict.fromkeys(("gpunodes", "pods", "dljobs", "packingpolicies"))
    waiting.wait_until(lambda: parts(ask)["cluster"]["sources"] == read, "all sources read", SECONDS)
    assert parts(ask)["policy"]["spec"]["placement"] == "FirstFit"


def test_a_job_shows_while_it_runs_and_no_longer(workspace: Workspace, ask: Ask) -> None:
    workspace.dljob("runs", model=workspace.graph("graph", graph_document()), template=template(run_for=""))
    (replica,) = workspace.wait_for_phase("runs", Phase.RUNNING)["replicas"]

    def shown() -> bool:
        return [tenant["booked"]["share"] for tenant in tenants(ask, workspace.namespace)] == [
            gpu["share"] for gpu in replica["gpus"]
        ]

    waiting.wait_until(shown, "the job on its GPU", SECONDS)
    (tenant,) = tenants(ask, workspace.namespace)
    assert (tenant["dljob"], tenant["pod"]) == ("runs", replica["pod"])
    assert tenant["predicted"]["utilizationPercent"] > 0
    found = ask(f"jobs/{workspace.namespace}/runs")
    assert (found["reason"], found["replicas"][0]["node"]) == ("Placed", replica["node"])
    workspace.end_pods("runs")
    waiting.wait_until(lambda: not tenants(ask, workspace.namespace), "an empty GPU", SECONDS)


def test_a_job_that_waits_shows_with_the_words_of_its_condition(workspace: Workspace, ask: Ask) -> None:
    workspace.dljob("waits", model=workspace.graph("graph"), gpuModels=["Tesla-P4"])
    workspace.wait_for_condition("waits", "Queued", "True", "GPUModelMismatch")
    key = f"waiting/{workspace.namespace}/waits"

    def same() -> bool:
        said, row = workspace.condition("waits", "Queued"), parts(ask).get(key, {})
        return (row.get("reason"), row.get("message")) == (said["reason"], said["message"])

    waiting.wait_until(same, "the words of the condition", SECONDS)
    assert parts(ask)[key]["position"] is not None
    workspace.client.delete(workspace.dljobs("waits"))
    waiting.wait_until(lambda: key not in parts(ask), "a queue without it", SECONDS)


@pytest.mark.parametrize(("token", "status"), [("garbage", 401), (NOBODY, 403)])
def test_who_the_api_server_does_not_know_or_allow_sees_nothing(
    ask: Ask, tokens: dict[str, str], token: str, status: int
) -> None:
    assert set(ask("page", tokens.get(token, token), status=status)) == {"problem"}
