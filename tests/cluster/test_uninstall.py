"""The end of an installation by helm, on a real API server of its own: admission first, nothing left, no pod ended.

The chart's hook is run here as a process, with the account that the hook has: containers are simulated.
"""

import argparse
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart import rendering
from cluster.charted import GPU, RUNTIME_CLASS, TENANT, helm
from cluster.rights import may
from cotenant_api import names
from cotenant_e2e import charts, nodes, startup, testing, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.cluster import Cluster
from cotenant_operator import release_command

SECONDS = 60
ACCOUNT = "cotenant-uninstall"
JOB = clients.path_of("jobs", group="batch", namespace=names.RELEASE_NAMESPACE, name=ACCOUNT)
PODS = clients.path_of("pods", namespace="team")
NODE = clients.path_of("nodes", name="h200-0")
GPU_NODES = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION)
TAINT = {"key": names.STARTUP_TAINT, "effect": "NoSchedule"}
OTHER_TAINT = {"key": "theirs", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane on which nobody has installed anything."""
    with testing.control_plane(tmp_path_factory.mktemp("uninstall"), startup.Options(nodes=nodes.demo())) as cluster:
        cluster.client.create(clients.path_of("runtimeclasses", group="node.k8s.io"), RUNTIME_CLASS)
        yield cluster


@pytest.fixture
def installed(bare: Cluster) -> Iterator[Cluster]:
    """The chart, a namespace of a team, and a node with a tenant on one of its GPUs."""
    done = helm(bare, "install", "cotenant", str(charts.CHART), "--create-namespace")
    assert done.returncode == 0, done.stderr
    bare.client.create(clients.path_of("namespaces"), {"metadata": {"name": "team"}})
    bare.client.create(GPU_NODES, {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": "busy"}})
    bare.client.patch(f"{GPU_NODES}/busy/status", {"status": {"gpus": [{**GPU, "tenants": [TENANT]}]}})
    yield bare
    helm(bare, "uninstall", "cotenant", "--wait", "--no-hooks")
    bare.client.delete(f"{GPU_NODES}/busy")
    for node in nodes.demo():
        labels = {"metadata": {"labels": node["metadata"]["labels"]}, "spec": {"taints": None}}
        bare.client.patch(clients.path_of("nodes", name=node["metadata"]["name"]), labels)
    bare.client.delete(clients.path_of("namespaces", name="team"))
    waiting.wait_until(
        lambda: bare.client.find(clients.path_of("namespaces", name="team")) is None, "the namespace's end", SECONDS
    )


@pytest.fixture
def account(installed: Cluster) -> Path:
    """A kubeconfig of the hook's account, with the rights that the hook brings for it."""
    hooks = helm(installed, "get", "hooks", "cotenant").stdout
    wanted = [item for item in yaml.safe_load_all(hooks) if item and item["kind"] != "Job"]
    installed.kubectl("apply", "--filename", "-", stdin=yaml.safe_dump_all(wanted))
    return installed.kubeconfig_for_token(ACCOUNT, installed.token(names.RELEASE_NAMESPACE, ACCOUNT))


def prepare(kubeconfig: Path) -> None:
    """What the hook runs, with what the chart tells it."""
    (container,) = next(
        item["spec"]["template"]["spec"]["containers"]
        for item in rendering.objects("default")
        if (item["kind"], item["metadata"]["name"]) == ("Job", ACCOUNT)
    )
    parser = argparse.ArgumentParser()
    release_command.configure(parser)
    assert container["args"][0] == "release"
    arguments = parser.parse_args([*container["args"][1:], "--kubeconfig", str(kubeconfig)])
    assert release_command.run(arguments) == 0


def asking(name: str) -> dict[str, Any]:
    """A pod that asks for a share."""
    container = {"name": "main", "image": "none", "resources": {"limits": {names.GPU_SHARE: "20"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


def gates(cluster: Cluster, name: str) -> list[str]:
    return [gate["name"] for gate in cluster.client.get(f"{PODS}/{name}")["spec"].get("schedulingGates", [])]


def in_a_shell(cluster: Cluster, command: str) -> str:
    """What a command prints that an admin is told to type."""
    path = f"{cluster.settings.programs['kubectl'].parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig())}
    done = subprocess.run(["sh", "-ec", command], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def refusal(cluster: Cluster, name: str) -> str:
    """Why a pod that asks for a share is refused; empty: it is not."""
    try:
        cluster.client.create(PODS, asking(name))
    except clients.APIError as error:
        return error.message
    cluster.client.delete(f"{PODS}/{name}")
    return ""


def test_no_pod_is_gated_any_more_and_those_that_wait_are_told_of(
    installed: Cluster, account: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        installed.client.create(PODS, asking(name))
    assert gates(installed, "first") == [names.PACKING_GATE]
    prepare(account)
    said = capsys.readouterr().out
    assert "These wait for a share, and nobody will place them (2):\n  team/first\n  team/second\n" in said
    assert "These run on until they end, and then their GPUs are given back (1):\n  team/a on busy\n" in said
    assert "NOT" not in said
    waiting.wait_until(lambda: "mode is Observe" in refusal(installed, "late"), "refused pods", SECONDS)
    assert gates(installed, "first") == [names.PACKING_GATE]


def test_each_command_that_is_told_does_what_it_says(
    installed: Cluster, account: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        installed.client.create(PODS, asking(name))
    installed.client.create(
        PODS, {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "a", "image": "n"}]}}
    )
    prepare(account)
    told = dict(re.findall(r"^  (list|delete|ungate):  (.+)$", capsys.readouterr().out, re.MULTILINE))
    assert [line.split()[1] for line in in_a_shell(installed, told["list"]).splitlines()[1:]] == ["first", "second"]
    in_a_shell(installed, told["ungate"])
    assert gates(installed, "second") == []
    in_a_shell(installed, told["delete"])
    assert [pod["metadata"]["name"] for pod in installed.client.items(PODS)] == ["other"]


def test_nodes_lose_our_label_and_taint_and_keep_what_is_not_ours(installed: Cluster, account: Path) -> None:
    installed.client.patch(NODE, {"spec": {"taints": [TAINT, OTHER_TAINT]}})
    prepare(account)
    node = installed.client.get(NODE)
    assert names.GPU_NODE_LABEL not in node["metadata"]["labels"]
    assert nodes.PRODUCT_LABEL in node["metadata"]["labels"]
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["theirs"]


def test_helm_runs_it_first_and_leaves_nothing_that_blocks(installed: Cluster) -> None:
    installed.client.create(PODS, asking("first"))
    done = helm(installed, "uninstall", "cotenant", "--wait", "--timeout", f"{SECONDS}s")
    assert done.returncode == 0, done.stderr
    assert installed.client.get(JOB)["status"]["succeeded"] == 1
    left = installed.kubectl(
        "get",
        "clusterrole,clusterrolebinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding,"
        "validatingadmissionpolicy,validatingadmissionpolicybinding",
        "--output=name",
    )
    assert "cotenant" not in left
    # Whoever asks for a share again is neither gated nor refused, and a namespace with one that waits can go.
    installed.client.create(PODS, asking("late"))
    assert gates(installed, "late") == []


ALLOWED = {
    ("delete", "mutatingadmissionpolicybindings.admissionregistration.k8s.io", "cotenant-pods"): True,
    ("delete", "mutatingadmissionpolicybindings.admissionregistration.k8s.io", "theirs"): False,
    ("delete", "validatingadmissionpolicybindings.admissionregistration.k8s.io", "cotenant-pods"): False,
    ("patch", "packingpolicies.cotenant.dev", "default"): True,
    ("delete", "packingpolicies.cotenant.dev", "default"): False,
    ("patch", "dljobs.cotenant.dev", ""): False,
    ("list", "pods", ""): True,
    ("delete", "pods", ""): False,
    ("patch", "pods", ""): False,
    ("patch", "deployments.apps/scale", "cotenant-operator"): False,
    ("delete", "nodes", ""): False,
    ("list", "secrets", ""): False,
    ("create", "jobs.batch", ""): False,
}
"""Verb, resource and name, in a namespace of users."""


def test_its_account_may_do_that_and_nothing_else(installed: Cluster, account: Path) -> None:
    found = {
        question: may(installed, ACCOUNT, question[0], question[1], namespace="team", name=question[2])
        for question in ALLOWED
    }
    assert found == ALLOWED
    resource, release = "deployments.apps/scale", names.RELEASE_NAMESPACE
    assert may(installed, ACCOUNT, "patch", resource, namespace=release, name="cotenant-operator")
    assert not may(installed, ACCOUNT, "patch", resource, namespace=release, name="cotenant-scheduler")
