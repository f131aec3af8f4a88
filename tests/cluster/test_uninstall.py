"""The end of an installation by helm, on a real API server of its own: admission first, nothing left, no pod ended.

What helm's hook runs in a container runs here as a process, with the account that helm made for it: containers are
simulated.
"""

import argparse
import contextlib
import io
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from chart import rendering
from cluster.charted import RUNTIME_CLASS, helm
from cluster.rights import may
from cluster.workloads import CONTAINER, RUN_FOR
from cotenant_api import names
from cotenant_e2e import charts, nodes, startup, testing, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.cluster import Cluster
from cotenant_operator import release_command

SECONDS = 60
ACCOUNT = "cotenant-uninstall"
JOB = clients.path_of("jobs", group="batch", namespace=names.RELEASE_NAMESPACE, name=ACCOUNT)
HOOKS = clients.path_of("pods", namespace=names.RELEASE_NAMESPACE)
PODS = clients.path_of("pods", namespace="team")
NODE = clients.path_of("nodes", name="h200-0")
TAINTS = [{"key": names.STARTUP_TAINT, "effect": "NoSchedule"}, {"key": "theirs", "effect": "NoSchedule"}]
CLUSTERWIDE = (
    "clusterroles,clusterrolebindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)
RIGHTS = {
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


@dataclass
class Ending:
    """What was seen while helm took the release away.

    Attributes:
        said: what the hook's command printed.
        rights: of its account, as `RIGHTS` asks.
        refused: why a pod that asks for a share was refused after that.
        listed, ungated, kept: pods that the told commands listed, the gates of one after that, and who was left.
        helm: how it ended.
    """

    cluster: Cluster
    said: str = ""
    rights: dict[tuple[str, str, str], bool] | None = None
    refused: str = ""
    listed: tuple[str, ...] = ()
    ungated: tuple[str, ...] = ("?",)
    kept: tuple[str, ...] = ()
    helm: "subprocess.CompletedProcess[str] | None" = None


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ending]:
    """The chart, two pods that wait, a tenant that runs, a tainted node; then `helm uninstall`."""
    with testing.control_plane(tmp_path_factory.mktemp("uninstall"), startup.Options(nodes=nodes.demo())) as cluster:
        prepare(cluster)
        found = Ending(cluster)
        with ThreadPoolExecutor(1) as pool:
            helming = pool.submit(helm, cluster, "uninstall", "cotenant", "--wait", "--timeout", f"{SECONDS}s")
            waiting.wait_until(lambda: bool(hooks(cluster)), "the hook's pod", SECONDS)
            look(found)
            for pod in hooks(cluster):
                annotations = {"metadata": {"annotations": {RUN_FOR: "0s"}}}
                cluster.client.patch(f"{HOOKS}/{pod['metadata']['name']}", annotations)
            found.helm = helming.result()
        yield found


def prepare(cluster: Cluster) -> None:
    client = cluster.client
    client.create(clients.path_of("runtimeclasses", group="node.k8s.io"), RUNTIME_CLASS)
    done = helm(cluster, "install", "cotenant", str(charts.CHART), *rendering.NAMED, "--create-namespace")
    assert done.returncode == 0, done.stderr
    client.create(clients.path_of("namespaces"), {"metadata": {"name": "team"}})
    client.patch(NODE, {"spec": {"taints": TAINTS}})
    plain = {"containers": [{"name": "main", "image": "none"}]}
    client.create(PODS, {"metadata": {"name": "other"}, "spec": plain})
    dljobs = clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace="team")
    dljob = {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": "job"}}
    client.create(dljobs, {**dljob, "spec": {"template": {"spec": plain}}})
    waiting.wait_until(lambda: gated(cluster), "admission with Cotenant", SECONDS)
    for name in ("first", "second", "tenant"):
        client.create(PODS, asking(name))
    client.patch(f"{PODS}/tenant", {"spec": {"schedulingGates": None}})
    client.create(f"{PODS}/tenant/binding", {"metadata": {"name": "tenant"}, "target": {"name": "h200-1"}})
    waiting.wait_until(lambda: client.get(f"{PODS}/tenant")["status"]["phase"] == "Running", "the tenant", SECONDS)


def look(found: Ending) -> None:
    """Run what the hook runs, and then what it tells an admin to type."""
    cluster = found.cluster
    found.rights = {
        question: may(cluster, ACCOUNT, question[0], question[1], namespace="team", name=question[2])
        for question in RIGHTS
    }
    found.said = command(cluster)
    waiting.wait_until(lambda: bool(refusal(cluster)), "refused pods", SECONDS)
    found.refused = refusal(cluster)
    told = dict(re.findall(r"^  (list|delete|ungate):  (.+)$", found.said, re.MULTILINE))
    found.listed = tuple(line.split()[1] for line in in_a_shell(cluster, told["list"]).splitlines()[1:])
    in_a_shell(cluster, told["ungate"])
    found.ungated = tuple(gates(cluster, "second"))
    in_a_shell(cluster, told["delete"])
    found.kept = tuple(pod["metadata"]["name"] for pod in cluster.client.items(PODS))


def hooks(cluster: Cluster) -> list[dict[str, Any]]:
    return cluster.client.items(HOOKS, labelSelector=f"app.kubernetes.io/name={ACCOUNT}")


def command(cluster: Cluster) -> str:
    """What the hook's command prints, with the arguments that the chart gives it."""
    (container,) = rendering.one("default", "Job", ACCOUNT)["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "release"
    kubeconfig = cluster.kubeconfig_for_token(ACCOUNT, cluster.token(names.RELEASE_NAMESPACE, ACCOUNT))
    parser = argparse.ArgumentParser()
    release_command.configure(parser)
    arguments = parser.parse_args([*container["args"][1:], "--kubeconfig", str(kubeconfig)])
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert release_command.run(arguments) == 0
    return said.getvalue()


def asking(name: str) -> dict[str, Any]:
    """A pod that asks for a share."""
    container = {**CONTAINER, "resources": {"limits": {names.GPU_SHARE: "20"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


def gates(cluster: Cluster, name: str) -> list[str]:
    return [gate["name"] for gate in cluster.client.get(f"{PODS}/{name}")["spec"].get("schedulingGates", [])]


def gated(cluster: Cluster) -> bool:
    """Whether a pod that asks for a share gets our gate: the API server hears of new policies a moment later."""
    try:
        cluster.client.create(PODS, asking("early"))
    except clients.APIError:
        return False
    found = gates(cluster, "early")
    cluster.client.delete(f"{PODS}/early")
    waiting.wait_until(lambda: cluster.client.find(f"{PODS}/early") is None, "the pod's end", SECONDS)
    return found == [names.PACKING_GATE]


def refusal(cluster: Cluster) -> str:
    """Why a pod that asks for a share is refused; empty: it is not."""
    try:
        cluster.client.create(PODS, asking("late"))
    except clients.APIError as error:
        return error.message
    cluster.client.delete(f"{PODS}/late")
    return ""


def in_a_shell(cluster: Cluster, line: str) -> str:
    """What a command prints that an admin is told to type."""
    path = f"{cluster.settings.programs['kubectl'].parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig())}
    done = subprocess.run(["sh", "-ec", line], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_pods_that_wait_and_tenants_that_run_are_told_of(ending: Ending) -> None:
    assert "These wait for a share, and nobody will place them (2):\n  team/first\n  team/second\n" in ending.said
    assert (
        "These run on until they end, and then their GPUs are given back (1):\n  team/tenant on h200-1\n" in ending.said
    )
    assert "NOT" not in ending.said


def test_no_new_pod_is_gated_before_anything_is_taken_away(ending: Ending) -> None:
    assert "ValidatingAdmissionPolicy" in ending.refused


def test_each_command_that_is_told_does_what_it_says(ending: Ending) -> None:
    assert (ending.listed, ending.ungated, ending.kept) == (("first", "second"), (), ("other", "tenant"))


def test_nodes_lose_our_label_and_taint_and_keep_what_is_not_ours(ending: Ending) -> None:
    node = ending.cluster.client.get(NODE)
    assert names.GPU_NODE_LABEL not in node["metadata"]["labels"]
    assert nodes.PRODUCT_LABEL in node["metadata"]["labels"]
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["theirs"]


def test_its_account_may_do_that_and_nothing_else(ending: Ending) -> None:
    assert ending.rights == RIGHTS


def test_helm_waits_for_it_and_leaves_nothing(ending: Ending) -> None:
    assert ending.helm is not None
    assert ending.helm.returncode == 0, ending.helm.stderr
    client = ending.cluster.client
    assert client.get(JOB)["status"]["succeeded"] == 1
    assert "cotenant" not in ending.cluster.kubectl("get", CLUSTERWIDE, "--output=name")
    assert client.find(clients.path_of("serviceaccounts", namespace=names.RELEASE_NAMESPACE, name=ACCOUNT)) is None


def test_afterwards_nothing_is_gated_and_a_namespace_can_go(ending: Ending) -> None:
    client, team = ending.cluster.client, clients.path_of("namespaces", name="team")
    # The API server hears of deleted policies a moment later.
    waiting.wait_until(lambda: not refusal(ending.cluster), "admission without Cotenant", SECONDS)
    client.create(PODS, asking("after"))
    assert gates(ending.cluster, "after") == []
    client.delete(team)
    waiting.wait_until(lambda: client.find(team) is None, "the namespace's end", SECONDS)
