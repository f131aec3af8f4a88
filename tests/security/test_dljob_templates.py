"""A DLJob's author gains nothing by the operator: its templates stay within Pod Security's level baseline.

Each is tried against Kubernetes' own Pod Security admission as well: what that refuses of a pod, we refuse of a DLJob.
"""

from collections.abc import Callable
from typing import Any

import pytest

from cluster import tenants
from cluster.levels import enforce_baseline
from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, Workspace, template
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

Refused = Callable[[Callable[[], Any]], str]


def contained(**settings: Any) -> Json:
    return {"containers": [{**CONTAINER, **settings}]}


def secured(**settings: Any) -> Json:
    return contained(securityContext=settings)


PROBE = {"httpGet": {"host": "192.0.2.1", "port": 80}}
BEYOND: dict[str, Json] = {
    "privileged": secured(privileged=True),
    "privileged init": {"initContainers": [{**CONTAINER, "name": "i", "securityContext": {"privileged": True}}]},
    "SYS_ADMIN": secured(capabilities={"add": ["SYS_ADMIN"]}),
    "IPC_LOCK": secured(capabilities={"add": ["IPC_LOCK"]}),
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "hostNetwork": {"hostNetwork": True},
    "hostPath": {"volumes": [{"name": "v", "hostPath": {"path": "/mnt/data"}}]},
    "hostPort": contained(ports=[{"containerPort": 80, "hostPort": 80}]),
    "another host's probe": contained(livenessProbe=PROBE),
    "another host's hook": contained(lifecycle={"preStop": PROBE}),
    "seccomp": secured(seccompProfile={"type": "Unconfined"}),
    "seccomp of the pod": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    "AppArmor": secured(appArmorProfile={"type": "Unconfined"}),
    "SELinux type": secured(seLinuxOptions={"type": "spc_t"}),
    "SELinux role": {"securityContext": {"seLinuxOptions": {"role": "sysadm_r"}}},
    "sysctl": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
    "HostProcess": {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}}},
}
WITHIN: dict[str, Json] = {
    "nothing": {},
    "capabilities": secured(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
    "a claim": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
    "seccomp": secured(seccompProfile={"type": "RuntimeDefault"}),
    "sysctl": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}},
    "SELinux": secured(seLinuxOptions={"type": "container_t", "level": "s0:c1"}),
    "probe": contained(livenessProbe={"httpGet": {"port": 80}}),
    "a Secret": contained(envFrom=[{"secretRef": {"name": "keys"}}]),
    "an account": {"serviceAccountName": "mine"},
}


@pytest.fixture
def baseline(workspace: Workspace) -> Workspace:
    """A namespace that enforces the level baseline."""
    enforce_baseline(workspace)
    return workspace


def dljob(spec: Json, **metadata: Any) -> Json:
    pod = template(**spec)
    pod["metadata"] = metadata
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DLJob",
        "metadata": {"name": "train"},
        "spec": {"template": pod},
    }


@pytest.mark.parametrize("spec", BEYOND.values(), ids=list(BEYOND))
def test_what_pod_security_refuses_of_a_pod_is_refused_of_a_dljob(
    tenant: Tenant, baseline: Workspace, refused: Refused, spec: Json
) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], **spec}}
    message = refused(lambda: tenant.client.create(f"{baseline.pods()}?dryRun=All", pod))
    assert "violates PodSecurity" in message
    message = refused(lambda: tenant.client.create(f"{baseline.dljobs()}?dryRun=All", dljob(spec)))
    assert "spec.template.spec." in message
    assert "remove " in message or "use a PersistentVolumeClaim" in message


@pytest.mark.parametrize("spec", WITHIN.values(), ids=list(WITHIN))
def test_what_pod_security_accepts_of_a_pod_is_accepted_of_a_dljob(
    tenant: Tenant, baseline: Workspace, spec: Json
) -> None:
    baseline.client.create(
        clients.path_of("serviceaccounts", namespace=baseline.namespace), {"metadata": {"name": "mine"}}
    )
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], **spec}}
    tenant.client.create(f"{baseline.pods()}?dryRun=All", pod)
    tenant.client.create(f"{baseline.dljobs()}?dryRun=All", dljob(spec))


def test_an_apparmor_annotation_is_refused(tenant: Tenant, refused: Refused) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/main"
    found = dljob({}, annotations={key: "unconfined"})
    message = refused(lambda: tenant.client.create(tenant.workspace.dljobs(), found))
    assert f"spec.template.metadata.annotations[{key}]" in message


def test_a_later_template_is_judged_and_what_stood_before_is_not(tenant: Tenant, refused: Refused) -> None:
    path = tenant.workspace.dljobs("train")
    tenant.client.create(tenant.workspace.dljobs(), dljob({}))
    tenant.client.patch(path, {"spec": {"suspend": True}})
    patch = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
    assert "spec.template.spec.hostNetwork: true: " in refused(lambda: tenant.client.patch(path, patch))


@pytest.fixture
def author(workspace: Workspace) -> Tenant:
    """Somebody who may make DLJobs in the namespace, and no pods."""
    accounts = clients.path_of("serviceaccounts", namespace=workspace.namespace)
    workspace.client.create(accounts, {"metadata": {"name": tenants.NAME}})
    cluster = workspace.installation.cluster
    made = Tenant(workspace, cluster.client_for_token(cluster.token(workspace.namespace, tenants.NAME)))
    made.bind("ClusterRole", "cotenant-dljobs-edit")
    waiting.wait_until(lambda: made.may("create", "dljobs.cotenant.dev"), "the author's rights", tenants.SECONDS)
    return made


def volume(**source: Any) -> Json:
    return {"volumes": [{"name": "v", **source}]}


SECRET = {"name": "keys"}
BORROWED: dict[str, tuple[Json, str]] = {
    "an account": ({"serviceAccountName": "admin"}, "serviceAccountName: admin: "),
    "an account by its old name": ({"serviceAccount": "admin"}, "serviceAccount: admin: "),
    "the token of the default account": ({"automountServiceAccountToken": True}, "automountServiceAccountToken: "),
    "an image pull secret": ({"imagePullSecrets": [SECRET]}, "imagePullSecrets: "),
    "a resource claim": ({"resourceClaims": [{"name": "r", "resourceClaimName": "theirs"}]}, "resourceClaims: "),
    "a Secret in a variable": (
        contained(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}]),
        "containers[main].env: ",
    ),
    "a ConfigMap in a variable": (
        contained(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "theirs", "key": "a"}}}]),
        "containers[main].env: ",
    ),
    "a Secret in variables": (contained(envFrom=[{"secretRef": {"name": "keys"}}]), "containers[main].env: "),
    "a ConfigMap in variables": (contained(envFrom=[{"configMapRef": {"name": "a"}}]), "containers[main].env: "),
    "a Secret in a volume": (volume(secret={"secretName": "keys"}), "volumes[v]: "),
    "a Secret among others": (volume(projected={"sources": [{"secret": SECRET}]}), "volumes[v]: "),
    "a token": (volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}), "volumes[v]: "),
    "a certificate": (
        volume(projected={"sources": [{"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}}]}),
        "volumes[v]: ",
    ),
    "a ConfigMap": (volume(configMap={"name": "theirs"}), "volumes[v]: "),
    "a claim": (volume(persistentVolumeClaim={"claimName": "theirs"}), "volumes[v]: "),
    "azureFile": (volume(azureFile={"secretName": "keys", "shareName": "x"}), "volumes[v]: "),
    "cephfs": (volume(cephfs={"monitors": ["192.0.2.1"], "secretRef": SECRET}), "volumes[v]: "),
    "flexVolume": (volume(flexVolume={"driver": "a/b", "secretRef": SECRET}), "volumes[v]: "),
    "iscsi": (
        volume(iscsi={"targetPortal": "192.0.2.1", "iqn": "iqn.2001-04.com.example:x", "lun": 0, "secretRef": SECRET}),
        "volumes[v]: ",
    ),
    "a driver of secrets": (volume(csi={"driver": "secrets-store.csi.k8s.io"}), "volumes[v]: "),
}
OWN: Json = {"automountServiceAccountToken": False}


@pytest.mark.parametrize(("spec", "says"), BORROWED.values(), ids=list(BORROWED))
def test_who_may_make_no_pods_borrows_nothing_of_the_namespace(
    author: Tenant, refused: Refused, spec: Json, says: str
) -> None:
    message = refused(lambda: author.client.create(author.workspace.dljobs(), dljob(OWN | spec)))
    assert f"spec.template.spec.{says}" in message
    assert "needs the permission to create pods" in message


def test_who_may_make_no_pods_gives_them_no_labels_by_which_a_service_sends_them_requests(
    author: Tenant, refused: Refused
) -> None:
    path = author.workspace.dljobs()
    message = refused(lambda: author.client.create(path, dljob(OWN, labels={"app": "payroll"})))
    assert "spec.template.metadata.labels: by them a Service could send its requests to the pods" in message
    author.workspace.client.create(path, dljob(OWN, labels={"app": "train"}))
    later = {"spec": {"template": {"metadata": {"labels": {"app": "payroll"}}}}}
    assert "spec.template.metadata.labels: " in refused(lambda: author.client.patch(f"{path}/train", later))
    command = {"spec": {"template": {"spec": contained(command=["python"])}}}
    author.client.patch(f"{path}/train", command)


def test_who_may_make_no_services_has_none_made(author: Tenant, refused: Refused) -> None:
    """Others find a Service by its name."""
    path, service = author.workspace.dljobs(), {"name": "payroll", "ports": [{"port": 80}]}
    made = dljob(OWN)
    made["spec"] |= {"workloadType": "Inference", "service": service}
    says = "spec.service: a Service of the name payroll needs the permission to create Services in"
    assert says in refused(lambda: author.client.create(path, made))
    author.workspace.client.create(path, made | {"spec": made["spec"] | {"service": {"ports": [{"port": 80}]}}})
    assert says in refused(lambda: author.client.patch(f"{path}/train", {"spec": {"service": service}}))
    author.client.patch(f"{path}/train", {"spec": {"replicas": 0}})
    author.grant("services", "create")
    author.client.patch(f"{path}/train?dryRun=All", {"spec": {"service": service}})


def test_a_dljob_has_no_program_of_a_node_run(tenant: Tenant, refused: Refused) -> None:
    spec = {"volumes": [{"name": "v", "flexVolume": {"driver": "a/b"}}]}
    message = refused(lambda: tenant.client.create(tenant.workspace.dljobs(), dljob(spec)))
    assert "spec.template.spec.volumes: flexVolume: a DLJob has no program of its node run" in message


def of_model(model: Json) -> Json:
    found = dljob(OWN)
    found["spec"]["model"] = model
    return found


def test_who_may_make_no_pods_gives_them_no_annotations_by_which_clouds_give_roles(
    author: Tenant, refused: Refused
) -> None:
    path, role = author.workspace.dljobs(), {"iam.amazonaws.com/role": "admin"}
    says = "spec.template.metadata.annotations: by them clouds give pods roles"
    made = dljob(OWN, annotations=role)
    assert says in refused(lambda: author.client.create(path, made))
    author.client.create(path, dljob(OWN))
    later = {"spec": {"template": {"metadata": {"annotations": role}}}}
    assert says in refused(lambda: author.client.patch(f"{path}/train", later))


def test_who_may_make_no_pods_has_no_volume_mounted_for_extraction(author: Tenant, refused: Refused) -> None:
    made = of_model({"onnx": {"path": "m.onnx", "claimName": "payroll"}})
    made["spec"]["batchSize"] = 8
    message = refused(lambda: author.client.create(author.workspace.dljobs(), made))
    assert "spec.model.onnx.claimName: payroll: needs the permission to create pods" in message


def test_who_may_not_read_a_config_map_has_the_operator_read_none(author: Tenant, refused: Refused) -> None:
    made = of_model({"configMapRef": {"name": "theirs", "key": "db.yaml"}})
    message = refused(lambda: author.client.create(author.workspace.dljobs(), made))
    assert "spec.model.configMapRef: theirs: needs the permission to read this ConfigMap" in message


def test_a_dljob_that_is_there_is_not_pointed_to_a_config_map_later(author: Tenant, refused: Refused) -> None:
    path = author.workspace.dljobs()
    name = author.client.create(path, dljob(OWN))["metadata"]["name"]
    patch = {"spec": {"model": {"configMapRef": {"name": "theirs"}}}}
    assert "spec.model.configMapRef: theirs" in refused(lambda: author.client.patch(f"{path}/{name}", patch))


def test_who_may_read_a_config_map_may_name_it(author: Tenant) -> None:
    author.grant("configmaps", "get")
    made = of_model({"configMapRef": {"name": "mine"}})
    author.client.create(f"{author.workspace.dljobs()}?dryRun=All", made)


ORDINARY: dict[str, Json] = {
    "nothing": {},
    "the default account": {"serviceAccountName": "default"},
    "folders of its own": volume(emptyDir={}),
    "its own fields": volume(projected={"sources": [{"downwardAPI": {"items": []}}]}),
    "variables": contained(
        env=[{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}]
    ),
}


@pytest.mark.parametrize("spec", ORDINARY.values(), ids=list(ORDINARY))
def test_who_may_make_no_pods_may_make_an_ordinary_dljob(author: Tenant, spec: Json) -> None:
    author.client.create(f"{author.workspace.dljobs()}?dryRun=All", dljob(OWN | spec))


NULLS: dict[str, Json] = {
    "volumes": {"volumes": None},
    "init containers": {"initContainers": None},
    "context": {"securityContext": None},
    "account": {"serviceAccountName": None},
    "pull secrets": {"imagePullSecrets": None},
    "host": {"hostNetwork": None},
    "env": contained(env=None),
    "envFrom": contained(envFrom=None),
    "ports": contained(ports=None),
    "probe": contained(livenessProbe=None),
    "context of a container": contained(securityContext=None),
    "capabilities": secured(capabilities=None),
    "added": secured(capabilities={"add": None}),
    "SELinux": secured(seLinuxOptions={"type": None, "user": None}),
    "a variable's source": contained(env=[{"name": "A", "value": "b", "valueFrom": None}]),
    "NVIDIA's variable": contained(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": None}]),
    "a host's port": contained(ports=[{"containerPort": 80, "hostPort": None}]),
    "a volume's source": volume(emptyDir={}, hostPath=None),
}


@pytest.mark.parametrize("spec", NULLS.values(), ids=list(NULLS))
def test_null_is_as_good_as_nothing(tenant: Tenant, baseline: Workspace, spec: Json) -> None:
    """As in a pod; `helm` and people write it."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], **spec}}
    if spec.get("containers"):
        tenant.client.create(f"{baseline.pods()}?dryRun=All", pod)
    tenant.client.create(f"{baseline.dljobs()}?dryRun=All", dljob(spec))


def test_a_namespace_whose_administrator_trusts_it_with_the_host_is_let_be(tenant: Tenant, refused: Refused) -> None:
    path, found = f"{tenant.workspace.dljobs()}?dryRun=All", dljob(BEYOND["hostPath"])
    namespace = clients.path_of("namespaces", name=tenant.workspace.namespace)
    label = {"metadata": {"labels": {f"{names.GROUP}/pod-security": "privileged"}}}
    assert "hostPath" in refused(lambda: tenant.client.create(path, found))
    assert "cannot patch" in refused(lambda: tenant.client.patch(namespace, label))
    tenant.workspace.client.patch(namespace, label)
    tenant.client.create(path, found)


@pytest.mark.parametrize("amount", ["1e999999999", "1E-1000", "1e+100"])
def test_a_dljob_asks_for_no_amount_that_the_api_server_takes_for_ever_to_read(
    tenant: Tenant, refused: Refused, amount: str
) -> None:
    """Each try to make its Job kept a core of the API server busy for ever, and there was one every half minute."""
    asked: dict[str, Json] = {
        "template.spec.containers[0].resources.limits.cpu": {
            "template": {"spec": contained(resources={"limits": {"cpu": amount}})}
        },
        "gpuMemory": {"gpuMemory": amount},
    }
    for field, spec in asked.items():
        message = refused(lambda spec=spec: tenant.workspace.dljob("huge", **spec))  # type: ignore[misc]
        assert f"spec.{field}" in message
