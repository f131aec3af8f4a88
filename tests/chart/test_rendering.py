"""What the chart renders: the objects of three sets of values, and what must hold of all of them."""

import json
import re

import pytest
import yaml
from pydantic.alias_generators import to_camel

from chart import rendering
from chart.rendering import Object
from cotenant_e2e import charts
from cotenant_predictor import devices

EVERY = pytest.mark.parametrize("name", rendering.VALUES)
ROOTS = {"cotenant-node-agent", "cotenant-mps"}
"""Why these run as root is said in their templates and in deviceplugin/README.md."""
METERED = {"cotenant-node-agent": 9476, "cotenant-operator": 8080, "cotenant-scheduler": 9475}


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
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert security["allowPrivilegeEscalation"] is False
        if workload in ROOTS:
            assert security["runAsUser"] == 0
        else:
            assert pod["securityContext"]["runAsNonRoot"]
            assert not any(pod.get(key) for key in ("hostPID", "hostIPC", "hostNetwork"))
        if workload != "cotenant-mps":
            assert security["capabilities"]["drop"] == ["ALL"]


@EVERY
def test_every_image_is_pinned_by_a_tag(name: str) -> None:
    for workload, _, container in rendering.containers(name):
        tag = container["image"].rpartition("/")[2].partition("@")[0].partition(":")[2]
        assert re.fullmatch(r"v?\d+\.\d+\.\d+(-[\w.]+)?", tag), workload


def test_a_digest_comes_after_the_tag_of_every_image_that_has_one() -> None:
    digits = {"operator": "a", "extender": "b", "node": "c", "kube-scheduler": "d"}
    for workload, _, container in rendering.containers("everything"):
        name = container["image"].rpartition("/")[2].partition(":")[0]
        if name in digits:
            assert container["image"].endswith(f"@sha256:{digits[name] * 64}"), workload
    assert not [image for _, _, container in rendering.containers("default") if "@" in (image := container["image"])]


def test_without_a_registry_nothing_is_rendered_and_the_message_says_what_to_name() -> None:
    done = rendering.template("--set", "image.registry=")
    assert done.returncode != 0
    assert "image.registry: name the registry that holds your images of Cotenant, such as" in done.stderr
    assert done.stdout == ""


@EVERY
def test_every_image_is_of_a_registry_that_somebody_has_named_or_of_kubernetes(name: str) -> None:
    named = {"registry.test:5000", "kubernetes.test"} if name == "everything" else {rendering.REGISTRY}
    for workload, _, container in rendering.containers(name):
        kubernetes = {"registry.k8s.io"} if container["name"] == "kube-scheduler" else set()
        assert container["image"].partition("/")[0] in named | kubernetes, workload


def test_no_manifest_names_an_image_that_others_could_own() -> None:
    for folder in ("node", "retraining"):
        for path in (charts.MANIFESTS / folder).glob("*.yaml"):
            for image in re.findall(r"^\s+image: (\S+)$", path.read_text(), re.MULTILINE):
                assert image.startswith(f"{rendering.REGISTRY}/"), path


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


def rules(name: str) -> dict[str, list[Object]]:
    """What each network policy lets in."""
    found = (item for item in rendering.objects(name) if item["kind"] == "NetworkPolicy")
    return {item["metadata"]["name"]: item["spec"].get("ingress", []) for item in found}


@EVERY
def test_no_network_policy_lets_everybody_in(name: str) -> None:
    for item in rendering.objects(name):
        if item["kind"] == "NetworkPolicy":
            assert "Ingress" in item["spec"]["policyTypes"]
    for policy, allowed in rules(name).items():
        for rule in allowed:
            assert rule["from"], policy
            assert all(peer for peer in rule["from"]), policy


def test_by_default_prometheus_in_its_namespace_is_let_in_and_nobody_else() -> None:
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    }
    for policy, allowed in rules("default").items():
        assert [rule["from"] for rule in allowed] == ([[peer]] if METERED.get(policy) else []), policy


def test_the_values_say_who_is_let_in() -> None:
    allowed = rules("everything")
    for policy, port in METERED.items():
        assert allowed[policy] == [
            {"from": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "ports": [{"protocol": "TCP", "port": port}]}
        ]
    ingress = {"podSelector": {"matchLabels": {"app": "ingress"}}}
    assert allowed["cotenant-dashboard"] == [{"from": [ingress], "ports": [{"protocol": "TCP", "port": 8380}]}]


def test_where_nobody_is_named_nobody_is_let_in() -> None:
    done = rendering.template("--set", "networkPolicy.metricsFrom=null", "--set", "dashboard.enabled=true")
    assert done.returncode == 0, done.stderr
    assert "ingress:" not in done.stdout


def dashboard(*values: str) -> Object:
    """Its container."""
    done = rendering.template("--set", "dashboard.enabled=true", *values)
    assert done.returncode == 0, done.stderr
    for item in yaml.safe_load_all(done.stdout):
        if item and (item["kind"], item["metadata"]["name"]) == ("Deployment", "cotenant-dashboard"):
            found: Object = item["spec"]["template"]["spec"]["containers"][0]
            return found
    pytest.fail("there is none")


def test_the_dashboard_takes_tokens_over_plain_http_only_where_a_value_says_so() -> None:
    assert "--insecure" not in dashboard()["args"]
    assert "--insecure" in dashboard("--set", "dashboard.tls.insecure=true")["args"]


def test_with_a_secret_the_dashboard_and_its_probes_speak_https() -> None:
    pod = rendering.one("everything", "Deployment", "cotenant-dashboard")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"--tls-certificate=/etc/cotenant/tls/tls.crt", "--tls-key=/etc/cotenant/tls/tls.key"} <= {
        *container["args"]
    }
    assert "--insecure" not in container["args"]
    probes = [container[kind]["httpGet"]["scheme"] for kind in ("livenessProbe", "readinessProbe")]
    assert probes == ["HTTPS", "HTTPS"]
    assert {"name": "tls", "secret": {"secretName": "dashboard-tls"}} in pod["volumes"]
    (port,) = rendering.one("everything", "Service", "cotenant-dashboard")["spec"]["ports"]
    assert (port["name"], port["port"]) == ("https", 443)


@pytest.mark.parametrize("name", sorted(METERED.keys() - {"cotenant-operator"}))
def test_prometheus_shows_the_token_that_the_pods_read_from_the_secret(name: str) -> None:
    kind = "Deployment" if name == "cotenant-scheduler" else "DaemonSet"
    pod = rendering.one("everything", kind, name)["spec"]["template"]["spec"]
    container = pod["containers"][-1]
    assert "--metrics-token-file=/etc/cotenant/metrics/token" in container["args"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted["metrics-token"] == "/etc/cotenant/metrics"
    assert {"name": "metrics-token", "secret": {"secretName": "metrics-token"}} in pod["volumes"]
    (endpoint,) = rendering.one("everything", "ServiceMonitor", name)["spec"]["endpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "metrics-token", "key": "token"}}


@EVERY
def test_pods_reach_the_api_server_by_the_ports_that_the_values_name_and_nothing_else(name: str) -> None:
    ports = [443] if name == "everything" else [443, 6443]
    wanted = [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]
    for item in rendering.objects(name):
        if item["kind"] == "NetworkPolicy":
            assert "Egress" in item["spec"]["policyTypes"]
            alone = item["metadata"]["name"] == "cotenant-mps"
            assert item["spec"].get("egress", []) == ([] if alone else wanted), item["metadata"]["name"]


def test_who_names_nobody_in_metrics_is_shown_no_token() -> None:
    (endpoint,) = rendering.one("everything", "ServiceMonitor", "cotenant-operator")["spec"]["endpoints"]
    assert "authorization" not in endpoint


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
    for added in ("instance", "part-of"):
        spec["template"]["metadata"]["labels"].pop(f"app.kubernetes.io/{added}", None)
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
            found = rendering.one("default", written["kind"], written["metadata"]["name"])
            assert found.pop("metadata")["labels"].items() >= written.pop("metadata").get("labels", {}).items()
            assert found == written


def test_the_job_that_learns_is_that_of_the_manifests_with_what_the_values_say() -> None:
    written = yaml.safe_load_all((charts.MANIFESTS / "retraining" / "cronjob.yaml").read_text())
    claim, job = (item["spec"] for item in written)
    made = rendering.one("everything", "CronJob", "cotenant-retraining")["spec"]
    pod = made["jobTemplate"]["spec"]["template"]["spec"]
    assert made["schedule"] == "5 4 * * 0"
    for added in ("affinity", "imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations"):
        del pod[added]
    made["jobTemplate"]["spec"]["template"]["metadata"] = job["jobTemplate"]["spec"]["template"]["metadata"]
    for container in (*pod["initContainers"], *pod["containers"]):
        assert (container["image"], container.pop("imagePullPolicy")) == (
            "registry.test:5000/learning:1.0.0",
            "IfNotPresent",
        )
        assert container.pop("env") == [{"name": "EXTRA", "value": "1"}]
        container["image"] = job["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert made | {"schedule": job["schedule"]} == job
    volume = rendering.one("everything", "PersistentVolumeClaim", "cotenant-models")
    assert volume["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert volume["spec"] == claim | {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }


def test_what_reads_the_measurements_of_tenants_holds_no_token_and_what_holds_one_learns_nothing() -> None:
    made = rendering.one("everything", "CronJob", "cotenant-retraining")["spec"]
    pod = made["jobTemplate"]["spec"]["template"]["spec"]
    (fetching,), (learning,) = pod["initContainers"], pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert [one["name"] for one in pod["volumes"] if "projected" in one] == ["token"]
    assert "token" in {mount["name"] for mount in fetching["volumeMounts"]}
    assert "token" not in {mount["name"] for mount in learning["volumeMounts"]}
    assert "cotenant train" not in fetching["command"][-1]
    assert "cotenant measurements" not in learning["command"][-1]
    assert next(mount for mount in learning["volumeMounts"] if mount["name"] == "work")["readOnly"] is True


def test_rows_of_gpu_models_reach_the_operator_as_it_reads_them() -> None:
    written = rendering.one("everything", "ConfigMap", "cotenant-devices")["data"]["devices.yaml"]
    (found,) = devices.parse(written, source="devices.yaml").values()
    assert (found.name, found.compute_capability, found.peak_teraflops) == (
        "NVIDIA-H999",
        "9.9",
        {"fp32": 10, "bf16": 40},
    )
    given, without = (
        rendering.one(name, "Deployment", "cotenant-operator")["spec"]["template"] for name in ("everything", "default")
    )
    assert "--devices=/etc/cotenant/devices.yaml" in given["spec"]["containers"][0]["args"]
    assert "checksum/devices" in given["metadata"]["annotations"]
    assert not any("--devices" in argument for argument in without["spec"]["containers"][0]["args"])


def test_the_values_take_every_field_of_a_gpu_model_and_no_other() -> None:
    schema = json.loads((charts.CHART / charts.SCHEMA).read_text())
    row = schema["properties"]["operator"]["properties"]["devices"]["items"]
    fields = {field.alias or to_camel(name): field for name, field in devices.Device.model_fields.items()}
    assert row["properties"].keys() == fields.keys()
    assert set(row["required"]) == {name for name, field in fields.items() if field.is_required()}
    assert row["properties"]["peakTeraflops"]["properties"].keys() == set(devices.PEAK_TYPES)


def test_what_learns_writes_no_model_that_is_in_use() -> None:
    made = rendering.one("everything", "CronJob", "cotenant-retraining")["spec"]
    (learning,) = made["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    written = {
        (mount["name"], mount.get("subPath")) for mount in learning["volumeMounts"] if not mount.get("readOnly", False)
    }
    assert written == {("models", "candidate")}


def test_a_driver_on_the_nodes_themselves_is_seen_elsewhere_and_can_only_be_read() -> None:
    pod = rendering.one("everything", "DaemonSet", "cotenant-node-agent")["spec"]["template"]["spec"]
    (agent,) = pod["containers"]
    wanted = {"--driver-root=/", "--driver-root-here=/driver-root", "--toolkit=/opt/nvidia/toolkit"}
    assert wanted | {"--toolkit-here=/driver-root/opt/nvidia/toolkit"} <= set(agent["args"])
    mounts = {mount["name"]: mount for mount in agent["volumeMounts"]}
    assert mounts["driver-root"]["mountPath"] == "/driver-root"
    assert mounts["driver-root"]["readOnly"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert (paths["driver-root"], paths.keys() & {"toolkit", "usr"}) == ("/", set())


def host_paths(pod: rendering.Object) -> dict[str, str]:
    """Folders of the node that a pod mounts, and what is asked of each."""
    return {volume["hostPath"]["path"]: volume["hostPath"]["type"] for volume in pod["volumes"] if "hostPath" in volume}


def test_no_mount_keeps_the_agent_from_starting_where_the_nodes_system_can_only_be_read() -> None:
    pod = rendering.one("default", "DaemonSet", "cotenant-node-agent")["spec"]["template"]["spec"]
    made = {path for path, kind in host_paths(pod).items() if kind == "DirectoryOrCreate"}
    assert {path for path in made if not path.startswith(("/var/", "/run/"))} == {"/etc/cdi"}
    assert host_paths(pod)["/usr"] == "Directory"
    (agent,) = pod["containers"]
    # Propagation asks for a shared mount, which the node's root is not everywhere.
    assert {"name": "usr", "mountPath": "/host/usr", "readOnly": True} in agent["volumeMounts"]
    assert {mount["name"] for mount in agent["volumeMounts"] if "mountPropagation" in mount} == {"driver-root"}
    assert {"--toolkit=/usr/local/nvidia/toolkit", "--toolkit-here=/host/usr/local/nvidia/toolkit"} <= set(
        agent["args"]
    )


def test_where_etc_can_only_be_read_its_cdi_folder_is_left_out() -> None:
    done = rendering.template("--set", "node.etcCDI=false", "--show-only", "templates/node-agent.yaml")
    pod = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]
    assert "/etc/cdi" not in host_paths(pod)
    assert "etc-cdi" not in {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}


def test_a_toolkit_elsewhere_is_mounted_where_it_is() -> None:
    chosen = ("--set", "node.driver.toolkit=/opt/nvidia/toolkit")
    done = rendering.template(*chosen, "--show-only", "templates/node-agent.yaml")
    pod = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]
    assert host_paths(pod)["/opt/nvidia/toolkit"] == "DirectoryOrCreate"
    assert {"name": "toolkit", "mountPath": "/opt/nvidia/toolkit", "readOnly": True} in pod["containers"][0][
        "volumeMounts"
    ]
    assert not [word for word in pod["containers"][0]["args"] if "toolkit-here" in word]


def test_without_a_drivers_folder_nothing_of_it_is_mounted() -> None:
    done = rendering.template("--set", "node.driver.root=")
    assert done.returncode == 0, done.stderr
    assert "driver-root" not in done.stdout
    assert "/usr/local/nvidia/toolkit" not in done.stdout
    assert "/host/usr" not in done.stdout


def test_the_runtimes_cdi_and_selinux_are_what_the_values_say() -> None:
    for name in ("cotenant-node-agent", "cotenant-mps"):
        security = {
            values: rendering.one(values, "DaemonSet", name)["spec"]["template"]["spec"]["securityContext"]
            for values in ("default", "everything")
        }
        assert "seLinuxOptions" not in security["default"]
        assert security["everything"]["seLinuxOptions"] == {"type": "spc_t", "level": "s0"}
    for values, said in (("default", False), ("everything", True)):
        agent = rendering.one(values, "DaemonSet", "cotenant-node-agent")["spec"]["template"]["spec"]["containers"][0]
        assert ("--runtime-has-cdi" in agent["args"]) is said


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
    done = rendering.run("template", "cotenant", str(charts.CHART), "--namespace", "gpus", *rendering.NAMED)
    assert done.returncode == 0, done.stderr
    assert "cotenant-system" not in done.stdout
    assert "system:serviceaccount:gpus:cotenant-scheduler" in done.stdout


def test_the_dashboard_believes_the_headers_of_proxies_that_the_values_name() -> None:
    pod = rendering.one("everything", "Deployment", "cotenant-dashboard")["spec"]["template"]["spec"]
    assert "--trusted-proxy=10.0.0.0/24" in pod["containers"][0]["args"]
    assert "--trusted-proxy" not in rendering.rendered("default")


JSON_LOGS = "--logging-format=json"


def logs_json(*values: str) -> dict[str, bool]:
    """Whether containers that run for as long as the release does are told to log JSON, by workload and name."""
    done = rendering.template("--set", "dashboard.enabled=true,dashboard.tls.secretName=tls", *values)
    assert done.returncode == 0, done.stderr
    found = {}
    for item in filter(None, yaml.safe_load_all(done.stdout)):
        if item["kind"] in ("Deployment", "DaemonSet"):
            for container in item["spec"]["template"]["spec"]["containers"]:
                told = [*container.get("command", ()), *container.get("args", ())]
                found[f"{item['metadata']['name']}/{container['name']}"] = JSON_LOGS in told
    return found


def test_every_program_logs_json_where_the_values_say_so() -> None:
    assert not any(logs_json().values())
    found = logs_json("--set", "logging.format=json")
    assert len(found) >= 6
    assert all(found.values()), found


def test_values_of_a_release_without_the_key_log_text() -> None:
    assert not any(logs_json("--set", "logging=null").values())


@pytest.mark.parametrize(("tag", "told"), [("0.0.9", False), ("0.0.9@sha256:" + 64 * "a", False), ("", True)])
def test_daemons_of_another_release_are_not_told_what_they_may_not_know(tag: str, *, told: bool) -> None:
    found = logs_json("--set", "logging.format=json", "--set-string", f"node.mps.tag={tag}")
    assert found["cotenant-mps/daemons"] is told
