"""`cotenant doctor`: each check finds what it is for, says what to do, and finds nothing where nothing is wrong."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import installed, kit
from cotenant_api import errors, findings, names
from cotenant_cli import checks
from cotenant_cli.checks import admission, crds, pod_security
from cotenant_cli.reading import answers, installation, kinds, renewals

ROOT = Path(__file__).parents[2]
ERROR, WARNING = findings.Level.ERROR, findings.Level.WARNING


def test_where_nothing_is_wrong_every_check_says_so() -> None:
    found = checks.examined(installed.seen())
    assert [one for one in found if one.level is not findings.Level.OK] == []
    silent = {"mig", "quotas"}
    assert {one.check for one in found} == set(checks.every_check()) - silent
    assert findings.exit_code(found) == 0


def test_what_is_wrong_always_has_a_remedy_and_an_exit_code() -> None:
    nothing = dict.fromkeys(installed.well(), ())
    found = checks.examined(installed.seen(nothing, version={}))
    wrong = [one for one in found if one.level is not findings.Level.OK]
    assert all(one.remedy for one in wrong)
    assert {one.check for one in wrong} >= {"admission", "api-server", "crds", "leader", "policy", "runtime-class"}
    assert findings.exit_code(found) == findings.ERRORS_FOUND


def test_what_cannot_be_read_is_told_once_for_each_check_and_judged_by_none() -> None:
    one = installed.only("runtime-class", {kinds.RUNTIME_CLASSES: []}, unread={kinds.RUNTIME_CLASSES: "GET x: 403"})
    assert (one.level, one.what) == (WARNING, "could not be looked at: GET x: 403")


@pytest.mark.parametrize("minor", ["35", "35+", "9"])
def test_an_old_kubernetes_is_an_error(minor: str) -> None:
    version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}"}
    assert installed.only("api-server", version=version).level is ERROR


@pytest.mark.parametrize("minor", ["36", "36+", "40"])
def test_a_newer_kubernetes_will_do(minor: str) -> None:
    assert installed.found("api-server", version={"major": "1", "minor": minor}) == []


def test_a_crd_that_lacks_or_is_of_another_release_is_an_error() -> None:
    first, second, third = crds.READS
    old = copy.deepcopy(dict(installed.crd(second.name)))
    del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    unserved = dict(installed.crd(third.name)) | {"status": {}}
    found = installed.found("crds", {first: [], second: [old], third: [unserved]})
    assert [one.level for one in found] == [ERROR] * 3
    assert any("properties.status differs" in one.what for one in found)


@pytest.mark.parametrize(
    ("policy", "level"),
    [
        ([], ERROR),
        ([kit.policy(placement="Nowhere")], ERROR),
        ([kit.policy() | {"status": {"conditions": [kit.condition("Accepted", "Invalid", status="False")]}}], ERROR),
        ([installed.policy(paused=True)], WARNING),
        ([kit.policy()], WARNING),
    ],
)
def test_a_policy_that_lets_nothing_be_placed_is_found(policy: list[Any], level: findings.Level) -> None:
    assert installed.only("policy", {kinds.POLICY: policy}).level is level


@pytest.mark.parametrize(
    ("container", "status", "level"),
    [
        ({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, {}, ERROR),
        ({"restartCount": 9}, {}, WARNING),
        ({"ready": False}, {}, WARNING),
        ({}, {"phase": "Pending"}, ERROR),
    ],
)
def test_a_component_that_is_not_well_is_found(
    container: dict[str, Any], status: dict[str, Any], level: findings.Level
) -> None:
    ill = installed.component(names.OPERATOR_ACCOUNT, container=container, **status)
    others = [installed.component(one) for one in kinds.COMPONENTS if one != names.OPERATOR_ACCOUNT]
    one = installed.only("components", {kinds.PODS: [*others, ill]})
    assert (one.level, one.where) == (level, "Pod/cotenant-system/cotenant-operator-0")


def test_a_component_without_a_pod_is_found_and_one_that_observing_needs_not_is_none() -> None:
    nobody: dict[installation.Source, list[Any]] = {kinds.PODS: [], kinds.LEASES: []}
    assert len(installed.found("components", nobody)) == 2
    observing = nobody | {kinds.POLICY: [installed.policy(mode="Observe")]}
    assert installed.only("components", observing).where.endswith(names.OPERATOR_ACCOUNT)


@pytest.mark.parametrize(
    "leases",
    [[], [installed.lease(names.SCHEDULER_LEASE, age=60)], [installed.lease(names.SCHEDULER_LEASE, holder="")]],
)
def test_gated_pods_without_a_leader_are_an_error(leases: list[Any]) -> None:
    waits = kit.pod("waits", gates=[names.PACKING_GATE])
    one = installed.only("leader", {kinds.LEASES: leases, kinds.PODS: [waits]})
    assert one.level is ERROR
    assert "1 pods wait at the gate" in one.what


def test_nobody_need_lead_where_nothing_is_packed() -> None:
    observing = [installed.policy(mode="Observe")]
    assert installed.found("leader", {kinds.LEASES: [], kinds.POLICY: observing}) == []


def test_a_node_without_an_agent_or_with_one_that_is_not_ready_is_found() -> None:
    one = installed.only("gpu-nodes", {kinds.NODES: [installed.node(), installed.node("n2")]})
    assert (one.level, one.where) == (ERROR, "Node/n2")
    one = installed.only("gpu-nodes", {kinds.GPUNODES: [kit.gpunode(kit.gpu(), ready="False")]})
    assert (one.what, "nvidia-ctk cdi generate" in str(one.remedy)) == ("NoCDI: told", True)


def test_gpus_and_taints_that_keep_placements_off_are_found() -> None:
    tainted = installed.node()
    tainted["spec"]["taints"] = [{"key": names.STARTUP_TAINT, "effect": "NoSchedule"}]
    ill = kit.gpunode(kit.gpu(health="Unhealthy", reason="XID 79"), kit.gpu("GPU-1", index=1, health="Suspect"))
    found = installed.found("gpu-nodes", {kinds.NODES: [tainted], kinds.GPUNODES: [ill]})
    assert [one.level for one in found] == [WARNING, ERROR, WARNING]
    assert installed.only("gpu-nodes", {kinds.GPUNODES: [kit.gpunode()]}).what == "its agent lists no GPU"


def test_gpunodes_without_nodes_and_clusters_without_gpu_nodes_are_found() -> None:
    left = [kit.gpunode(kit.gpu()), kit.gpunode(name="gone")]
    assert installed.only("gpu-nodes", {kinds.GPUNODES: left}).remedy == "kubectl delete gpunode gone"
    assert installed.only("gpu-nodes", {kinds.NODES: [], kinds.GPUNODES: []}).level is WARNING


@pytest.mark.parametrize("leases", [[], [installed.lease("node-n1", age=41)]])
def test_a_silent_agent_is_an_error(leases: list[Any]) -> None:
    scheduler = installed.lease(names.SCHEDULER_LEASE)
    one = installed.only("agent-leases", {kinds.LEASES: [scheduler, *leases]})
    assert (one.level, one.where) == (ERROR, "Node/n1")


AGENT = "node-n1"
AHEAD_OR_BEHIND = [45, 3600, -45, -3600]


def looked(seen: installation.Installation, later: list[list[Any]]) -> tuple[installation.Installation, int]:
    """What was read, after Leases were watched that are `later`, look by look; and how often they were looked at."""
    looks = 0

    def lists(path: str, read: Any, /, **_: str) -> list[Any]:
        assert path == f"/apis/coordination.k8s.io/v1/namespaces/{installed.SYSTEM}/leases"
        return [read(one) for one in later[min(looks, len(later)) - 1]]

    def pause(_: float) -> None:
        nonlocal looks
        looks += 1

    return renewals.watched(lists, seen, pause=pause), looks


@pytest.mark.parametrize("behind", AHEAD_OR_BEHIND)
def test_an_agent_whose_clock_is_wrong_is_not_silent_where_it_is_seen_to_renew_its_lease(behind: float) -> None:
    scheduler = installed.lease(names.SCHEDULER_LEASE)
    first = [scheduler, installed.lease(AGENT, age=behind)]
    assert installed.only("agent-leases", {kinds.LEASES: first}).where == "Node/n1"
    renewed = [scheduler, installed.lease(AGENT, age=behind - 3)]
    seen, looks = looked(installed.seen({kinds.LEASES: first}), [first, first, renewed])
    assert looks == 3
    told = [one for one in checks.examined(seen) if one.check == "agent-leases"]
    assert [one.level for one in told] == [findings.Level.OK]


@pytest.mark.parametrize("behind", AHEAD_OR_BEHIND)
def test_an_agent_that_does_not_renew_its_lease_while_it_is_watched_is_silent(behind: float) -> None:
    leases = [installed.lease(names.SCHEDULER_LEASE), installed.lease(AGENT, age=behind)]
    seen, looks = looked(installed.seen({kinds.LEASES: leases}), [leases])
    assert looks == renewals.WATCH_SECONDS
    (one,) = [one for one in checks.examined(seen) if one.check == "agent-leases"]
    assert (one.level, one.where) == (ERROR, "Node/n1")


def test_where_all_leases_are_of_now_or_were_given_back_nothing_is_watched() -> None:
    given_back = installed.lease(names.SCHEDULER_LEASE, holder="", age=3600)
    seen, looks = looked(installed.seen({kinds.LEASES: [installed.lease(AGENT), given_back]}), [[]])
    assert (looks, seen.renewed) == (0, frozenset())


def test_another_plugin_on_a_node_of_ours_is_an_error_with_the_command_that_ends_it() -> None:
    by_operator = installed.node(labels={"nvidia.com/gpu.deploy.device-plugin": "true"}, offered="nvidia.com/gpu")
    one = installed.only("device-plugins", {kinds.NODES: [by_operator]})
    assert (one.level, "nvidia.com/gpu: 4" in one.what) == (ERROR, True)
    assert "kubectl label node n1 nvidia.com/gpu.deploy.device-plugin=false --overwrite" in str(one.remedy)
    by_chart = installed.node(offered="nvidia.com/gpu.shared")
    one = installed.only("device-plugins", {kinds.NODES: [by_chart]})
    assert "{key: cotenant.dev/gpu, operator: NotIn, values: ['true']}" in str(one.remedy)


def test_slices_of_nvidias_dra_driver_on_a_node_of_ours_are_an_error() -> None:
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n1", "devices": [{"name": "gpu-0"}]}
    assert installed.only("device-plugins", {kinds.SLICES: [{"spec": spec}]}).level is ERROR
    assert installed.found("device-plugins", {kinds.SLICES: [{"spec": spec | {"driver": "other"}}]}) == []


@pytest.mark.parametrize(
    "other",
    [
        installed.node("n2", ours=False, labels={"nvidia.com/gpu.present": "true"}),
        installed.node("n2", ours=False, labels={"nvidia.com/gpu.product": "NVIDIA-L4"}),
        installed.node("n2", ours=False, offered="nvidia.com/gpu"),
    ],
)
def test_a_node_with_gpus_that_is_not_ours_is_told_with_the_commands_that_hand_it_over(other: Any) -> None:
    found = checks.examined(installed.seen({kinds.NODES: [installed.node(), other]}))
    (one,) = [one for one in found if one.check == "device-plugins" and one.where == "Node/n2"]
    assert one.level is findings.Level.OK
    assert "kubectl drain n2" in one.what
    assert "kubectl label node n2 cotenant.dev/gpu=true; kubectl uncordon n2" in one.what


def test_a_node_all_in_mig_mode_is_found() -> None:
    one = installed.only("mig", {kinds.GPUNODES: [kit.gpunode(kit.gpu(mode="MIG"))]})
    assert (one.level, "GPUs 0 are in MIG mode" in one.what) == (WARNING, True)


def test_a_missing_runtime_class_names_those_that_are_there() -> None:
    one = installed.only(
        "runtime-class", {kinds.RUNTIME_CLASSES: [{"metadata": {"name": "nvidia-cdi"}, "handler": "x"}]}
    )
    assert "nvidia-cdi" in str(one.remedy)


def test_simulated_gpus_need_no_runtime_class_and_a_scheduler_elsewhere_no_pod() -> None:
    simulated = [kit.gpunode(kit.gpu(), simulated=True)]
    assert installed.found("runtime-class", {kinds.RUNTIME_CLASSES: [], kinds.GPUNODES: simulated}) == []
    assert installed.only("components", {kinds.PODS: []}).where == "cotenant-system/cotenant-operator"


def test_an_override_for_a_model_that_no_node_has_is_told_with_the_one_that_may_be_meant() -> None:
    policy = installed.policy(overrides=[{"gpuModels": ["A10", kit.MODEL], "maxTenantsPerGPU": 2}])
    one = installed.only("policy", {kinds.POLICY: [policy]})
    assert one.what == "spec.overrides[0].gpuModels: no node has a GPU of model A10"
    assert "did you mean NVIDIA-A10?" in (one.remedy or "")


def test_an_admission_policy_that_lacks_or_holds_nobody_is_an_error() -> None:
    for lacking in installed.bindings():
        rest = [one for one in installed.bindings() if one != lacking]
        open_binding = {"metadata": lacking["metadata"], "spec": lacking["spec"] | {"validationActions": ["Audit"]}}
        for there in ([open_binding, *rest], rest):
            one = installed.only("admission", {kinds.VALIDATING_BINDINGS: there})
            assert one.level is ERROR
            assert one.where == f"ValidatingAdmissionPolicy/{lacking['spec']['policyName']}"
            assert f"has no binding {lacking['metadata']['name']} that denies" in one.what
    first, second, *others = installed.named(*admission.VALIDATING)
    assert installed.only("admission", {kinds.VALIDATING_POLICIES: [second, *others]}).what == "is missing"
    doubted = {"typeChecking": {"expressionWarnings": [{"fieldRef": "spec.x", "warning": "no such field"}]}}
    one = installed.only("admission", {kinds.VALIDATING_POLICIES: [dict(first) | {"status": doubted}, second, *others]})
    assert "no such field" in one.what


def test_the_policies_looked_for_are_those_that_are_installed() -> None:
    kinds_: dict[str, set[str]] = {}
    for path in (ROOT / "manifests" / "admission").glob("*.yaml"):
        for manifest in yaml.safe_load_all(path.read_text()):
            kinds_.setdefault(manifest["kind"], set()).add(manifest["metadata"]["name"])
    assert kinds_["ValidatingAdmissionPolicy"] == set(admission.VALIDATING)
    assert kinds_["ValidatingAdmissionPolicyBinding"] == admission.BOUND.keys()
    assert kinds_["MutatingAdmissionPolicy"] == set(admission.MUTATING)
    assert kinds_["MutatingAdmissionPolicyBinding"] == set(admission.MUTATING)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("profiles: [", "is no YAML"),
        ("", "has no kube-scheduler.yaml"),
        ("profiles: [{schedulerName: other}]", "no profile named cotenant"),
        ("profiles: [{schedulerName: cotenant}]", "no extender"),
        (installed.CONFIGURATION.replace("bindVerb: bind, ", ""), "lacks bindVerb"),
        (installed.CONFIGURATION.replace("filterVerb", "ignorable: true, filterVerb"), "is ignorable"),
    ],
)
def test_a_scheduler_without_the_profile_or_the_extender_is_an_error(text: str, fault: str) -> None:
    configuration = {"metadata": {"name": "x"}, "data": {"kube-scheduler.yaml": text}}
    one = installed.only("scheduling", {kinds.SCHEDULER_CONFIGURATION: [configuration]})
    assert (one.level, fault in one.what) == (ERROR, True)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (installed.CONFIGURATION.replace(", percentageOfNodesToScore: 100", ""), "percentageOfNodesToScore is None"),
        (installed.CONFIGURATION.replace("100", "50"), "percentageOfNodesToScore is 50"),
        (installed.CONFIGURATION.replace(", ignoredByScheduler: true", ""), "ignoredByScheduler is not true"),
        (installed.CONFIGURATION.replace("ByScheduler: true", "ByScheduler: false"), "ignoredByScheduler is not true"),
    ],
)
def test_a_scheduler_that_does_not_name_every_node_it_accepts_is_a_warning(text: str, what: str) -> None:
    configuration = {"metadata": {"name": "x"}, "data": {"kube-scheduler.yaml": text}}
    one = installed.only("scheduling", {kinds.SCHEDULER_CONFIGURATION: [configuration]})
    assert (one.level, what in one.what, "helm upgrade" in (one.remedy or "")) == (WARNING, True, True)


def test_what_is_shipped_names_every_node() -> None:
    text = (ROOT / "manifests" / "scheduler" / "kube-scheduler.yaml").read_text()
    configuration = {"metadata": {"name": "x"}, "data": {"kube-scheduler.yaml": text.replace("$", "")}}
    assert installed.found("scheduling", {kinds.SCHEDULER_CONFIGURATION: [configuration]}) == []


def test_a_pod_that_no_scheduler_looks_at_is_an_error_and_one_left_to_another_a_warning() -> None:
    unheard = kit.pod("unheard")
    unheard["spec"]["schedulerName"] = names.SCHEDULER_NAME
    assert installed.only("scheduling", {kinds.PODS: [unheard]}).level is ERROR
    astray = kit.pod("astray", conditions=[kit.condition("PodScheduled", "Unschedulable", status="False")])
    astray["spec"]["schedulerName"] = "default-scheduler"
    assert installed.only("scheduling", {kinds.PODS: [astray]}).level is WARNING
    observing = [installed.policy(mode="Observe")]
    assert installed.found("scheduling", {kinds.PODS: [astray], kinds.POLICY: observing}) == []


@pytest.mark.parametrize(
    ("hard", "used", "count"), [("0", "0", 1), ("100", "100", 1), ("100", "20", 0), (None, "0", 0)]
)
def test_a_quota_that_leaves_no_share_is_found(hard: str | None, used: str, count: int) -> None:
    resource = f"requests.{names.GPU_SHARE}"
    limits = {} if hard is None else {resource: hard}
    quota = {
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": limits},
        "status": {"used": {resource: used}},
    }
    found = installed.found("quotas", {kinds.QUOTAS: [quota]})
    assert [one.where for one in found] == ["ResourceQuota/team/q"] * count


@pytest.mark.parametrize("level", ["privileged", ""])
def test_a_namespace_with_tenants_that_lets_pods_reach_the_host_is_a_warning(level: str) -> None:
    labels = {pod_security.LABEL: level} if level else {}
    one = installed.only("pod-security", {kinds.NAMESPACES: [installed.namespace("team", **labels)]})
    assert (one.where, one.level) == ("Namespace/team", WARNING)
    assert one.remedy == f"kubectl label namespace team {pod_security.LABEL}=baseline --overwrite"


@pytest.mark.parametrize("level", pod_security.ENOUGH)
def test_a_namespace_that_enforces_baseline_or_more_is_well(level: str) -> None:
    labels = {pod_security.LABEL: level}
    assert not installed.found("pod-security", {kinds.NAMESPACES: [installed.namespace("team", **labels)]})


def test_a_right_that_lacks_is_named_with_the_command_that_needs_it() -> None:
    one = installed.only("rights", denied=["create pods/eviction"])
    assert (one.where, one.level) == ("cotenant node drain", WARNING)
    assert "create pods/eviction" in one.what


class Asked:
    """Answers for a cluster where everything is allowed."""

    def version(self) -> dict[str, Any]:
        """A new one."""
        return dict(installed.VERSION)

    def may(self, right: installation.Right) -> bool:
        """To read alone."""
        return right.verb == "list"


@pytest.mark.parametrize(
    "refusal",
    [errors.PermanentError("403"), answers.NotNowError("500", delay_seconds=1)],
    ids=["for good", "for now"],
)
def test_everything_that_is_asked_for_is_read_once_and_what_is_refused_is_told(refusal: errors.CotenantError) -> None:
    asked: list[tuple[str, str]] = []

    def lists(path: str, read: Any, /, *, name: str = "", node: str = "") -> list[Any]:
        asked.append((path, name))
        if "resourcequotas" in path:
            raise refusal
        return []

    seen = installation.read(
        lists, Asked(), sources=checks.every_source(), rights=checks.every_right(), namespace=names.RELEASE_NAMESPACE
    )
    assert len(asked) == len(set(asked))
    assert ("/apis/coordination.k8s.io/v1/namespaces/cotenant-system/leases", "") in asked
    assert seen.unread == {kinds.QUOTAS: str(refusal)}
    assert set(seen.rights.values()) == {True, False}


def test_of_all_pods_only_those_that_have_to_do_with_shares_are_kept() -> None:
    kept = kinds.PODS.kept
    assert kept(kit.pod("plain", share=None, notes={})) is None
    asking, mine = kept(kit.pod("asks")), kept(installed.component(names.OPERATOR_ACCOUNT))
    assert asking is not None
    assert mine is not None
    assert "containers" not in asking["spec"]
    assert str(asking[kinds.MAY_BE_ROOT]).startswith("spec.containers[main].securityContext: may run as root")
