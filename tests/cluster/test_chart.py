"""The chart on a real API server of its own, by helm: installed, changed, upgraded, taken away; nothing is simulated
but the nodes and what runs in containers.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chart import rendering
from cluster.charted import GPU, RUNTIME_CLASS, TENANT, helm
from cotenant_api import names
from cotenant_e2e import charts, nodes, startup, testing, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster
from cotenant_operator import release_command

SECONDS = 60
NO_MONITORING = ("metrics.serviceMonitor.enabled=false", "metrics.prometheusRule.enabled=false")
WORKLOADS = [
    ("daemonsets", "cotenant-mps"),
    ("daemonsets", "cotenant-node-agent"),
    ("deployments", "cotenant-operator"),
    ("deployments", "cotenant-scheduler"),
]
DLJOB = {
    "apiVersion": names.API_VERSION,
    "kind": "DLJob",
    "metadata": {"name": "kept"},
    "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none"}]}}},
}
MPS = "app.kubernetes.io/name=cotenant-mps"
LEAVING = {
    "metadata": {
        "name": "leaving",
        "labels": {"app.kubernetes.io/name": "cotenant-mps"},
        "finalizers": ["cotenant.dev/test"],
    },
    "spec": {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {"none": "such"}},
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane on which nobody has installed anything."""
    with testing.control_plane(tmp_path_factory.mktemp("chart"), startup.Options(nodes=nodes.demo())) as cluster:
        cluster.client.create(clients.path_of("runtimeclasses", group="node.k8s.io"), RUNTIME_CLASS)
        yield cluster


def upgraded(cluster: Cluster, *values: str) -> subprocess.CompletedProcess[str]:
    settings = [argument for value in values for argument in ("--set", value)]
    return helm(cluster, "upgrade", "cotenant", str(charts.CHART), *rendering.NAMED, *settings)


@pytest.fixture
def installed(bare: Cluster) -> Iterator[Cluster]:
    """The chart, as it is by default."""
    done = helm(bare, "install", "cotenant", str(charts.CHART), *rendering.NAMED, "--create-namespace")
    assert done.returncode == 0, done.stderr
    yield bare
    helm(bare, "uninstall", "cotenant", "--wait", "--no-hooks")
    # Helm waits for a DaemonSet, not for its pods; beside an MPS daemon that still leaves the chart refuses to install.
    waiting.wait_until(lambda: not mps_daemons(bare), "no MPS daemons", SECONDS)


def mps_daemons(cluster: Cluster) -> list[Json]:
    """The pods of MPS daemons in the release's namespace."""
    return cluster.client.items(clients.path_of("pods", namespace=names.RELEASE_NAMESPACE), labelSelector=MPS)


def policy_mode(cluster: Cluster) -> str:
    path = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
    return str(cluster.client.get(path)["spec"]["mode"])


def complete(cluster: Cluster, plural: str, name: str) -> bool:
    """Whether every pod of a workload was admitted, placed and is ready."""
    path = clients.path_of(plural, group="apps", namespace=names.RELEASE_NAMESPACE, name=name)
    status = cluster.client.get(path).get("status", {})
    wanted = status.get("desiredNumberScheduled", status.get("replicas", 0))
    return bool(wanted and wanted == status.get("numberReady", status.get("readyReplicas", 0)))


@pytest.mark.parametrize("name", rendering.VALUES)
def test_the_api_server_takes_every_rendering(installed: Cluster, name: str, tmp_path: Path) -> None:
    settings = [argument for value in NO_MONITORING for argument in ("--set", value)]
    done = rendering.template(*rendering.VALUES[name], *settings)
    file = tmp_path / "rendered.yaml"
    file.write_text(done.stdout)
    flags = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = installed.kubectl("apply", *flags, "--filename", str(file))
    assert said.count("(server dry run)") == len(said.splitlines())
    assert "packingpolicy.cotenant.dev/default" in said


@pytest.mark.parametrize(("plural", "name"), WORKLOADS)
def test_the_pods_of_a_fresh_installation_are_admitted_and_placed(installed: Cluster, plural: str, name: str) -> None:
    waiting.wait_until(lambda: complete(installed, plural, name), f"{plural}/{name}", SECONDS)
    assert policy_mode(installed) == "Pack"


def test_what_users_made_outlives_the_chart(installed: Cluster) -> None:
    path = clients.path_of("dljobs", group=names.GROUP, version=names.VERSION, namespace="default")
    installed.client.create(path, DLJOB)
    assert helm(installed, "uninstall", "cotenant", "--wait", "--no-hooks").returncode == 0
    assert [item["metadata"]["name"] for item in installed.client.items(path)] == ["kept"]
    installed.client.delete(f"{path}/kept")


def mps_image(cluster: Cluster) -> str:
    path = clients.path_of("daemonsets", group="apps", namespace=names.RELEASE_NAMESPACE, name="cotenant-mps")
    return str(cluster.client.get(path)["spec"]["template"]["spec"]["containers"][0]["image"])


def test_an_upgrade_leaves_the_mps_daemons_as_they_are_until_their_version_is_named(installed: Cluster) -> None:
    before = mps_image(installed)
    assert upgraded(installed, "image.tag=9.9.9").returncode == 0
    assert mps_image(installed) == before
    assert upgraded(installed, "image.tag=9.9.9", "node.mps.tag=9.9.9").returncode == 0
    assert mps_image(installed) == f"{rendering.REGISTRY}/cotenant/node:9.9.9"
    assert upgraded(installed, "image.registry=mirror.test:5000").returncode == 0
    assert mps_image(installed) == "mirror.test:5000/cotenant/node:9.9.9"


def test_an_upgrade_onto_other_definitions_is_refused_until_the_charts_are_applied(installed: Cluster) -> None:
    definition = clients.path_of("customresourcedefinitions", group="apiextensions.k8s.io", name="dljobs.cotenant.dev")
    installed.client.patch(definition, {"metadata": {"annotations": {charts.DIGEST: "older"}}})
    refused = upgraded(installed, "mode=Observe")
    assert refused.returncode != 0
    assert "crds.check: the cluster's CRD dljobs.cotenant.dev is not this chart's" in refused.stderr
    assert policy_mode(installed) == "Pack"
    shown = rendering.run("show", "crds", str(charts.CHART)).stdout
    installed.kubectl("apply", "--server-side", "--force-conflicts", "--filename", "-", stdin=shown)
    assert upgraded(installed, "mode=Observe").returncode == 0
    assert policy_mode(installed) == "Observe"
    assert helm(installed, "rollback", "cotenant", "1").returncode == 0
    assert policy_mode(installed) == "Pack"


def test_sharing_is_not_taken_from_under_tenants(installed: Cluster) -> None:
    path = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION)
    node = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": "busy"}}
    installed.client.create(path, node)
    installed.client.patch(f"{path}/busy/status", {"status": {"gpus": [{**GPU, "tenants": [TENANT]}]}})
    refused = upgraded(installed, "mode=Observe")
    installed.client.delete(f"{path}/busy")
    assert refused.returncode != 0
    assert "mode: Observe would remove the MPS daemons under the tenants of node busy" in refused.stderr
    assert upgraded(installed, "mode=Observe").returncode == 0


def test_no_second_mps_daemon_is_started_beside_one_that_still_serves(installed: Cluster) -> None:
    assert upgraded(installed, "mode=Observe").returncode == 0
    pods = clients.path_of("pods", namespace=names.RELEASE_NAMESPACE)
    waiting.wait_until(lambda: not mps_daemons(installed), "no MPS daemons", SECONDS)
    installed.client.create(pods, LEAVING)
    installed.client.delete(f"{pods}/leaving")
    refused = upgraded(installed, "mode=Pack")
    installed.client.patch(f"{pods}/leaving", {"metadata": {"finalizers": None}})
    assert refused.returncode != 0
    assert "mode: Pack would start a second MPS daemon beside pod leaving of a former release" in refused.stderr
    waiting.wait_until(lambda: installed.client.find(f"{pods}/leaving") is None, "the pod's end", SECONDS)
    assert upgraded(installed, "mode=Pack").returncode == 0


def test_an_installation_from_the_manifests_is_taken_over(installed: Cluster) -> None:
    assert helm(installed, "uninstall", "cotenant", "--wait", "--no-hooks").returncode == 0
    waiting.wait_until(lambda: not mps_daemons(installed), "no MPS daemons", SECONDS)
    installed.kubectl("apply", "--kustomize", str(charts.MANIFESTS))
    installed.kubectl("apply", "--filename", str(charts.MANIFESTS / "policy.yaml"))
    installed.kubectl("apply", "--kustomize", str(charts.MANIFESTS / "node"))
    flags = (*rendering.NAMED, "--take-ownership", "--force-conflicts")
    done = helm(installed, "install", "cotenant", str(charts.CHART), *flags)
    assert done.returncode == 0, done.stderr
    observing = (*rendering.NAMED, "--set", "mode=Observe", "--force-conflicts")
    changed = helm(installed, "upgrade", "cotenant", str(charts.CHART), *observing)
    assert changed.returncode == 0, changed.stderr
    assert policy_mode(installed) == "Observe"


def test_an_uninstallation_that_broke_off_is_taken_back_by_a_rollback(installed: Cluster) -> None:
    """The hook's pod finds no node here: helm gives up as where the hook fails, and the hook's work is done by hand."""
    broken = helm(installed, "uninstall", "cotenant", "--timeout", "5s")
    assert broken.returncode != 0
    parser = argparse.ArgumentParser()
    release_command.configure(parser)
    flags = ("--wait-seconds", "5", "--kubeconfig", str(installed.kubeconfig()))
    assert release_command.run(parser.parse_args(["prepare-uninstall", *flags])) == 0
    assert policy_mode(installed) == "Observe"
    assert "no deployed releases" in upgraded(installed, "mode=Pack").stderr
    (*_, last) = json.loads(helm(installed, "history", "cotenant", "--output", "json").stdout)
    done = helm(installed, "rollback", "cotenant", str(last["revision"]), "--force-conflicts")
    assert done.returncode == 0, done.stderr
    assert policy_mode(installed) == "Pack"
    assert "cotenant-pods" in installed.kubectl("get", "mutatingadmissionpolicybindings", "--output=name")
    waiting.wait_until(lambda: complete(installed, "deployments", "cotenant-operator"), "the operator", SECONDS)


def test_helm_test_finds_what_is_missing_of_the_installation(
    installed: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    release_command.configure(parser)
    kubeconfig = ("--kubeconfig", str(installed.kubeconfig()))
    assert release_command.run(parser.parse_args(["verify", *kubeconfig])) == 0
    assert "everything that was installed is there and ready" in capsys.readouterr().out
    installed.kubectl("delete", "mutatingadmissionpolicybinding", "cotenant-pods")
    assert release_command.run(parser.parse_args(["verify", *kubeconfig, "--wait-seconds", "1"])) == 1
    assert "MutatingAdmissionPolicyBinding cotenant-pods is not there" in capsys.readouterr().out
    assert upgraded(installed, "mode=Pack").returncode == 0
