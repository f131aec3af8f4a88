"""What people expect of every chart: labels of the release, and values that reach each component alike."""

from collections.abc import Iterator

import pytest
import yaml

from chart import rendering
from chart.rendering import Object
from cotenant_e2e import charts

EVERY = pytest.mark.parametrize("name", rendering.VALUES)
WORKLOADS = sorted(name for name, _ in rendering.pods("everything"))
RELEASE = {"app.kubernetes.io/instance": "cotenant", "app.kubernetes.io/part-of": "cotenant"}
MPS = "cotenant-mps"
VALUES = charts.CHART / "values.yaml"
ADDED = {"priorityClassName", "podLabels", "podAnnotations", "extraArgs", "extraEnv", "serviceAccount"}
WITHOUT_ARGUMENTS = {"cotenant-retraining", "cotenant-test", "cotenant-uninstall"}
"""The one runs scripts, the others once with arguments of their own."""


def template(name: str, workload: str) -> Object:
    """The pod template of a workload."""
    (found,) = (item for item in rendering.objects(name) if is_workload(item, workload))
    spec = found["spec"]["jobTemplate"]["spec"] if found["kind"] == "CronJob" else found["spec"]
    made: Object = spec["template"]
    return made


def is_workload(item: Object, name: str) -> bool:
    """Whether an object is the workload of this name."""
    return item["kind"] in {"Deployment", "DaemonSet", "Job", "CronJob"} and item["metadata"]["name"] == name


@EVERY
def test_every_object_carries_the_labels_of_the_release(name: str) -> None:
    for item in rendering.objects(name):
        labels = item["metadata"].get("labels", {})
        assert labels.items() >= {**RELEASE, "app.kubernetes.io/managed-by": "Helm"}.items(), item["metadata"]["name"]
        assert labels["helm.sh/chart"].startswith("cotenant-")


@EVERY
def test_selectors_are_those_of_release_010_and_choose_the_pods(name: str) -> None:
    for item in rendering.objects(name):
        if item["kind"] in {"Deployment", "DaemonSet"}:
            called = item["metadata"]["name"]
            # They cannot be changed by an upgrade.
            assert item["spec"]["selector"] == {"matchLabels": {"app.kubernetes.io/name": called}}
            assert template(name, called)["metadata"]["labels"]["app.kubernetes.io/name"] == called


@EVERY
def test_every_pod_says_of_which_release_it_is_but_those_that_no_upgrade_may_change(name: str) -> None:
    for workload, _ in rendering.pods(name):
        labels = template(name, workload)["metadata"]["labels"]
        assert ("app.kubernetes.io/instance" in labels) is (workload != MPS)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_labels_and_annotations_of_the_values_are_on_the_pods(workload: str) -> None:
    metadata = template("everything", workload)["metadata"]
    assert metadata["labels"]["team"] == "platform"
    assert metadata["annotations"]["note"] == "{}"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_priority_class_and_an_affinity_of_the_values_are_the_pods(workload: str) -> None:
    pod = template("everything", workload)["spec"]
    assert pod["priorityClassName"] == "business"
    assert list(pod["affinity"]) == ["nodeAffinity"]
    assert pod["tolerations"]
    assert pod["nodeSelector"]


@pytest.mark.parametrize(
    "workload", [name for name in WORKLOADS if name not in ("cotenant-test", "cotenant-uninstall")]
)
def test_every_container_gets_the_variables_and_arguments_of_the_values_after_its_own(workload: str) -> None:
    pod = template("everything", workload)["spec"]
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert container["env"][-1] == {"name": "EXTRA", "value": "1"}
        if workload not in WITHOUT_ARGUMENTS:
            assert (container.get("args") or container["command"])[-1] == "--extra=a b"


def test_every_account_has_the_annotations_of_the_values() -> None:
    accounts = [item["metadata"] for item in rendering.objects("everything") if item["kind"] == "ServiceAccount"]
    assert len(accounts) == 7
    assert all(account["annotations"]["cloud.test/role"] == "arn:1" for account in accounts)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_secrets_for_pulling_are_those_of_all_charts_and_this_ones(workload: str) -> None:
    assert template("everything", workload)["spec"]["imagePullSecrets"] == [
        {"name": "everybody"},
        {"name": "pull"},
        {"name": "more"},
    ]


def test_secrets_that_release_010_took_by_name_are_taken_still() -> None:
    done = rendering.template("--set", "image.pullSecrets={one,two}", "--show-only", "templates/operator.yaml")
    (deployment,) = (item for item in yaml.safe_load_all(done.stdout) if is_workload(item, "cotenant-operator"))
    pod = deployment["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]


def test_by_default_agents_and_scheduler_are_critical() -> None:
    critical = {
        workload: pod["priorityClassName"] for workload, pod in rendering.pods("default") if "priorityClassName" in pod
    }
    assert critical == {
        "cotenant-node-agent": "system-node-critical",
        MPS: "system-node-critical",
        "cotenant-scheduler": "system-cluster-critical",
    }


def added(values: Object, where: str = "") -> Iterator[tuple[str, str]]:
    """Places of the keys that release 0.1.0 did not have, and the keys."""
    for key, value in values.items():
        path = f"{where}.{key}".strip(".")
        if key in ADDED or path in {"node.priorityClassName", "retraining.nodeSelector", "retraining.tolerations"}:
            yield where, key
        elif isinstance(value, dict):
            yield from added(value, path)


def test_values_of_release_010_that_an_upgrade_reuses_are_enough() -> None:
    """`--reuse-values` brings no key that is newer than they are."""
    absent = [f"{where}.{key}=null" for where, key in added(yaml.safe_load(VALUES.read_text()))]
    on = ["dashboard.enabled=true", "retraining.enabled=true", "retraining.image=registry.test/learning:1"]
    done = rendering.template(*(word for value in (*on, "global=null", *absent) for word in ("--set", value)))
    assert done.returncode == 0, done.stderr
    pods = [item for item in yaml.safe_load_all(done.stdout) if item and is_workload(item, "cotenant-node-agent")]
    assert pods[0]["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"
