"""Values: what is refused names the field and what may stand there; what is dangerous is said in the notes."""

import json

import pytest
import yaml

from chart import rendering
from chart.rendering import Object
from cotenant_e2e import charts


def test_labels_that_others_add_are_named_to_the_operators_policy() -> None:
    policy = rendering.one("everything", "ValidatingAdmissionPolicy", "cotenant-operator-writes")
    (foreign,) = [one for one in policy["spec"]["variables"] if one["name"] == "foreign"]
    assert foreign["expression"] == '["cost-center","policies.example.com/"]'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("mode=Share", "at '/mode': value must be one of 'Pack', 'Observe'"),
        ("modes=Pack", "additional properties 'modes' not allowed"),
        ("image.registery=a", "at '/image': additional properties 'registery' not allowed"),
        (
            "operator.podLabels.app\\.kubernetes\\.io/name=a",
            "operator.podLabels: app.kubernetes.io/name is the chart's own",
        ),
        ("node.mps.podAnnotations.cotenant\\.dev/a=b", "node.mps.podAnnotations: cotenant.dev/a is the chart's own;"),
        ("operator.labelKeysToCopy[0]=a b", "at '/operator/labelKeysToCopy/0': 'a b' does not match pattern"),
        ("operator.foreignMetadata[0]=a b", "at '/operator/foreignMetadata/0': 'a b' does not match pattern"),
        ("operator.extraEnv[0].value=a", "at '/operator/extraEnv/0': missing property 'name'"),
        ("image.pullSecrets[0].secret=a", "at '/image/pullSecrets/0'"),
        ("scheduler.serviceAccount.name=a", "at '/scheduler/serviceAccount': additional properties 'name' not allowed"),
        ("image.tag=latest", "image.tag: latest moves under running nodes; name a version"),
        ("node.mps.tag=latest", "node.mps.tag: latest moves under running nodes; name a version"),
        ("node.mps.tag=a:b", "at '/node/mps/tag': 'a:b' does not match pattern"),
        ("image.registry=https://a", "at '/image/registry'"),
        ("image.digests.node=sha256:a", "at '/image/digests/node': 'sha256:a' does not match pattern"),
        ("image.digest=sha256:a", "at '/image': additional properties 'digest' not allowed"),
        ("networkPolicy.metricsFrom[0].pods=a", "at '/networkPolicy/metricsFrom/0': additional properties 'pods' not"),
        (
            "dashboard.tls.insecure=true,dashboard.tls.secretName=a",
            "dashboard.tls.insecure: with dashboard.tls.secretName",
        ),
        (
            "node.seccompProfile=Localhost",
            "at '/node/seccompProfile': value must be one of 'RuntimeDefault', 'Unconfined'",
        ),
        ("scheduler.replicas=0", "at '/scheduler/replicas': minimum: got 0, want 1"),
        ("scheduler.resources.limit.memory=1Gi", "at '/scheduler/resources': additional properties 'limit'"),
        ("operator.resources.limits.memory=1 GB", "at '/operator/resources/limits/memory'"),
        ("node.agent.maxUnavailable=0", "at '/node/agent/maxUnavailable': minimum: got 0, want 1"),
        ("policy.tenancy=Everyone", "at '/policy/tenancy': value must be one of 'SameNamespace', 'Any', 'Label'"),
        ("policy.maxTenantsPerGPU=17", "at '/policy/maxTenantsPerGPU': maximum: got 17, want 16"),
        ("policy.mode=Pack", "at '/policy': additional properties 'mode' not allowed"),
        ("policy.queue.sort=FIFO", "at '/policy/queue': additional properties 'sort' not allowed"),
        ("policy.tenancy=Label", "policy.tenancyLabel: with policy.tenancy Label, name the pod label"),
        ("policy.tenancyLabel=team", "policy.tenancyLabel: team has no effect; remove it, or set policy.tenancy to"),
        ("node.affinity.podAffinity.x=y", "invalid propertyName 'podAffinity'"),
        ("retraining.enabled=true", "retraining.image: name an image with Cotenant, its extras operator and training"),
        ("retraining.predictByActive=true", "retraining.predictByActive: there is no volume with models; set"),
        ("uninstall.waitSeconds=0", "at '/uninstall/waitSeconds': minimum: got 0, want 1"),
        ("metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.enabled: the cluster has no monitoring"),
        ("metrics.prometheusRule.enabled=true", "install the Prometheus operator first, or set it to false"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_its_field(value: str, said: str) -> None:
    done = rendering.template("--set", value)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_cluster_that_is_too_old_is_refused() -> None:
    done = rendering.template("--kube-version", "1.35.9")
    assert done.returncode != 0
    assert ">=1.36.0-0" in done.stderr


def keys(values: Object, schema: Object, where: str = "") -> list[str]:
    """Keys of which only one of the two knows; below maps of the user's own nothing is compared."""
    known: Object = schema.get("properties", {})
    if not known or where == "policy":
        return []
    found = [f"{where}.{key}" for key in values.keys() ^ known.keys() if key != "global"]
    for key in values.keys() & known.keys():
        if isinstance(values[key], dict):
            found += keys(values[key], known[key], f"{where}.{key}".strip("."))
    return found


def test_the_schema_knows_every_value_and_every_value_is_written_down() -> None:
    values = yaml.safe_load((charts.CHART / "values.yaml").read_text())
    assert keys(values, json.loads((charts.CHART / charts.SCHEMA).read_text())) == []


def notes(*arguments: str) -> str:
    """What helm prints after an installation."""
    done = rendering.run("install", "cotenant", str(charts.CHART), "--dry-run=client", *rendering.NAMED, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


def test_the_notes_warn_of_shared_faults_where_namespaces_share_gpus() -> None:
    said = notes("--set", "policy.tenancy=Any")
    assert "WARNING: policy.tenancy is Any" in said
    assert "MPS contains no fatal fault" in said
    overridden = notes("--set", "policy.overrides[0].tenancy=Any,policy.overrides[0].gpuModels[0]=A100")
    assert "policy.overrides has Any for A100" in overridden


def test_the_notes_warn_of_root_where_it_is_let_in() -> None:
    assert "WARNING: policy.tenantUser is Any" in notes("--set", "policy.tenantUser=Any")


@pytest.mark.parametrize("value", ["mode=Pack", "mode=Observe", "policy.tenancy=SameNamespace"])
def test_the_notes_warn_of_nothing_else(value: str) -> None:
    said = notes("--set", value)
    assert "WARNING" not in said
    assert "kubectl get" in said


def test_the_notes_say_that_mps_daemons_of_another_version_stay() -> None:
    assert "The MPS daemons stay at 0.0.8" in notes("--set", "node.mps.tag=0.0.8")
    assert "The MPS daemons stay" not in notes()
    digest = f"sha256:{'a' * 64}"
    assert f"stay at 0.0.8@{digest}, " in notes("--set", f"node.mps.tag=0.0.8@{digest}")
