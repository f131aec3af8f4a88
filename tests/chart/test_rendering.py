"""What the chart renders: the objects of three sets of values, and what must hold of all of them."""

import re

import pytest
import yaml

from chart import rendering
from chart.rendering import Object
from cotenant_e2e import charts

EVERY = pytest.mark.parametrize("name", rendering.VALUES)
ROOTS = {"cotenant-node-agent", "cotenant-mps"}
"""Why these run as root is said in their templates and in deviceplugin/README.md."""


def test_helm_lints_the_chart_strictly() -> None:
    done = rendering.run("lint", "--strict", str(charts.CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@EVERY
def test_these_objects_are_rendered_and_no_others(name: str) -> None:
    found = sorted(f"{item['kind']}/{item['metadata']['name']}" for item in rendering.objects(name))
    assert found == (rendering.FOLDER / "golden" / f"{name}.txt").read_text().splitlines()


@EVERY
def test_every_container_states_its_resources(name: str) -> None:
    for workload, _, container in rendering.containers(name):
        resources = container["resources"]
        assert {"cpu", "memory"} <= resources["requests"].keys(), workload
        # What is taken from an MPS server is taken from every tenant.
        assert workload == "cotenant-mps" or "memory" in resources["limits"], workload


@EVERY
def test_every_container_that_serves_is_probed(name: str) -> None:
    for workload, _, container in rendering.containers(name):
        if container.get("ports"):
            ports = {port["name"] for port in container["ports"]}
            for probe in ("livenessProbe", "readinessProbe"):
                assert container[probe]["httpGet"]["port"] in ports, workload


@EVERY
def test_only_what_must_be_root_is_and_nothing_is_privileged(name: str) -> None:
    for workload, pod, container in rendering.containers(name):
        security = container["securityContext"]
        assert not security.get("privileged")
        assert security["readOnlyRootFilesystem"]
        if workload in ROOTS:
            assert security["runAsUser"] == 0
        else:
            assert pod["securityContext"]["runAsNonRoot"]
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert not any(pod.get(key) for key in ("hostPID", "hostIPC", "hostNetwork"))
        if workload != "cotenant-mps":
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]


@EVERY
def test_every_image_is_pinned_by_a_tag(name: str) -> None:
    for workload, _, container in rendering.containers(name):
        tag = container["image"].rpartition("/")[2].partition(":")[2]
        assert re.fullmatch(r"v?\d+\.\d+\.\d+(-[\w.]+)?", tag), workload


def test_by_default_no_image_names_a_registry() -> None:
    for _, _, container in rendering.containers("default"):
        first, slash, _ = container["image"].partition("/")
        assert not slash or not re.search(r"[.:]", first)


def test_a_registry_is_put_before_every_image() -> None:
    found = {container["image"].partition("/")[0] for _, _, container in rendering.containers("everything")}
    assert found == {"registry.test:5000", "kubernetes.test"}


@EVERY
def test_no_account_may_do_everything(name: str) -> None:
    for item in rendering.objects(name):
        assert item.get("roleRef", {}).get("name") not in {"cluster-admin", "admin", "edit"}
        for rule in item.get("rules", ()):
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]), item["metadata"]["name"]


@EVERY
def test_every_pod_of_the_chart_has_a_network_policy(name: str) -> None:
    kept = {item["metadata"]["name"] for item in rendering.objects(name) if item["kind"] == "NetworkPolicy"}
    assert kept == {workload for workload, _ in rendering.pods(name)}


def test_the_policy_has_the_mode_and_the_values_fields() -> None:
    assert rendering.one("observe", "PackingPolicy", "default")["spec"] == {"mode": "Observe"}
    spec = rendering.one("everything", "PackingPolicy", "default")["spec"]
    assert (spec["mode"], spec["tenancyLabel"], spec["maxTenantsPerGPU"]) == ("Pack", "team", 4)


def test_nobody_may_set_a_compute_mode_where_it_is_not_to_be_set() -> None:
    pods = {name: pod for name, pod in rendering.pods("everything") if name in ROOTS}
    assert "--no-manage-compute-mode" in pods["cotenant-node-agent"]["containers"][0]["args"]
    for pod in pods.values():
        assert "add" not in pod["containers"][0]["securityContext"].get("capabilities", {})


def daemon_set(name: str) -> Object:
    """As the chart has it, without what it adds to the manifest."""
    spec: Object = rendering.one("default", "DaemonSet", f"cotenant-{name}")["spec"]
    del spec["template"]["metadata"]["labels"]["app.kubernetes.io/part-of"]
    for container in spec["template"]["spec"]["containers"]:
        del container["imagePullPolicy"]
    return spec


@pytest.mark.parametrize("name", ["node-agent", "mps"])
def test_by_default_the_daemon_sets_are_those_of_the_manifests(name: str) -> None:
    written = yaml.safe_load((charts.MANIFESTS / "node" / f"{name}.yaml").read_text())
    assert daemon_set(name) == written["spec"]


@pytest.mark.parametrize("folder", ["rbac", "admission"])
def test_roles_and_admission_are_those_of_the_manifests(folder: str) -> None:
    for path in (charts.MANIFESTS / folder).glob("*.yaml"):
        for written in yaml.safe_load_all(path.read_text()):
            assert rendering.one("default", written["kind"], written["metadata"]["name"]) == written


def test_the_job_that_learns_is_that_of_the_manifests_with_what_the_values_say() -> None:
    written = yaml.safe_load_all((charts.MANIFESTS / "retraining" / "cronjob.yaml").read_text())
    claim, job = (item["spec"] for item in written)
    made = rendering.one("everything", "CronJob", "cotenant-retraining")["spec"]
    pod = made["jobTemplate"]["spec"]["template"]["spec"]
    assert (made["schedule"], pod.pop("imagePullSecrets")) == ("5 4 * * 0", [{"name": "pull"}])
    assert (pod["containers"][0]["image"], pod["containers"][0].pop("imagePullPolicy")) == (
        "registry.test:5000/learning:1.0.0",
        "IfNotPresent",
    )
    pod["containers"][0]["image"] = job["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert made | {"schedule": job["schedule"]} == job
    volume = rendering.one("everything", "PersistentVolumeClaim", "cotenant-models")
    assert volume["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert volume["spec"] == claim | {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }


@pytest.mark.parametrize("name", ["node-agent", "mps"])
def test_nodes_are_chosen_by_labels_and_by_affinity(name: str) -> None:
    pod = rendering.one("everything", "DaemonSet", f"cotenant-{name}")["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert (pod["nodeSelector"], term["matchExpressions"][0]["key"]) == ({"gpu": "shared"}, "nvidia.com/mig.config")


def test_agent_and_hook_know_by_which_labels_a_node_is_cotenants() -> None:
    agent = rendering.one("everything", "DaemonSet", "cotenant-node-agent")["spec"]["template"]["spec"]
    hook = rendering.one("everything", "Job", "cotenant-uninstall")["spec"]["template"]["spec"]
    assert "--node-selector=gpu=shared" in agent["containers"][0]["args"]
    assert "--node-label=gpu=shared" in hook["containers"][0]["args"]


def test_the_operator_predicts_by_what_was_learned_where_it_is_told_so() -> None:
    pod = rendering.one("everything", "Deployment", "cotenant-operator")["spec"]["template"]["spec"]
    assert "--model=/models/active" in pod["containers"][0]["args"]
    assert {"name": "models", "persistentVolumeClaim": {"claimName": "cotenant-models"}} in pod["volumes"]


def test_the_scheduler_asks_the_extender_beside_it() -> None:
    data = rendering.one("default", "ConfigMap", "cotenant-scheduler")["data"]["kube-scheduler.yaml"]
    configuration = yaml.safe_load(data)
    (extender,) = configuration["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:8888/scheduler"
    assert configuration["leaderElection"]["resourceNamespace"] == "cotenant-system"
    assert "kubeconfig" not in configuration["clientConnection"]


def test_another_namespace_is_named_wherever_the_usual_one_was() -> None:
    done = rendering.run("template", "cotenant", str(charts.CHART), "--namespace", "gpus")
    assert done.returncode == 0, done.stderr
    assert "cotenant-system" not in done.stdout
    assert "system:serviceaccount:gpus:cotenant-scheduler" in done.stdout
