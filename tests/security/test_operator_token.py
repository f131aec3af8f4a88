"""What the operator's token is good for once it is somebody else's: what a DLJob controls, and nothing besides."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.rights import may_as
from cluster.workloads import CONTAINER, Workspace, template
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Client, Json

Refused = Callable[[Callable[[], Any]], str]

RBAC = "rbac.authorization.k8s.io"
DLJOB: Json = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "train", "uid": "u", "controller": True}
EXTRACTION = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "train-extract-0a1b2c3d-1",
    "uid": "j",
    "controller": True,
}
LABELS = {names.DLJOB_LABEL: "train"}
SELECTOR = LABELS | {f"{names.GROUP}/dljob-uid": "u"}
GRAPH = "train-graph-0a1b2c3d"
NAMES = {"jobs": "train-1", "dljobs": "train-0", "services": "gang-train", "configmaps": GRAPH}
EXTRACTED = LABELS | {f"{names.GROUP}/extraction": "0a1b2c3d"}
OURS = ("kube-system", "kube-public", "kube-node-lease", names.RELEASE_NAMESPACE)
KINDS = {
    "jobs": "batch",
    "deployments": "apps",
    "services": "",
    "configmaps": "",
    "serviceaccounts": "",
    "roles": RBAC,
    "rolebindings": RBAC,
    "dljobs": names.GROUP,
}


def path_of(plural: str, namespace: str, name: str = "") -> str:
    version = names.VERSION if plural == "dljobs" else "v1"
    return clients.path_of(plural, group=KINDS[plural], version=version, namespace=namespace, name=name)


def body(plural: str, *, owners: list[Json] | None = None, labels: Json | None = None, **more: Any) -> Json:
    """An object such as the operator makes, by default with the owner that it gives it."""
    selector = SELECTOR | {f"{names.GROUP}/dljob-uid": owner["uid"] for owner in owners or ()}
    pod = {"metadata": {"labels": selector}, "spec": {"containers": [CONTAINER], "restartPolicy": "Always"}}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [GRAPH], "verbs": ["patch"]}
    role = {"apiGroup": RBAC, "kind": "Role", "name": EXTRACTION["name"]}
    content: dict[str, Json] = {
        "jobs": {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}},
        "deployments": {"spec": {"replicas": 0, "selector": {"matchLabels": selector}, "template": pod}},
        "services": {"spec": {"clusterIP": "None", "selector": selector}},
        "dljobs": {
            "apiVersion": names.API_VERSION,
            "kind": "DLJob",
            "spec": {"template": {"spec": {"containers": [CONTAINER]}}},
        },
        "configmaps": {"data": {"a": "b"}},
        "serviceaccounts": {},
        "roles": {"rules": [rule]},
        "rolebindings": {"roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": EXTRACTION["name"]}]},
    }
    extracts = plural in ("serviceaccounts", "roles", "rolebindings")
    marked = extracts or plural == "configmaps"
    metadata = {
        "name": EXTRACTION["name"] if extracts else NAMES.get(plural, "train"),
        "labels": (EXTRACTED if marked else LABELS) if labels is None else labels,
        "ownerReferences": [EXTRACTION if extracts else DLJOB] if owners is None else owners,
    }
    return {"metadata": metadata, **content[plural], **more}


def called(plural: str) -> str:
    """What `body` calls such an object."""
    return NAMES.get(plural, "train")


def made(plural: str, workspace: Workspace, **changes: Any) -> Json:
    """As `body`; a RoleBinding's subject is in the workspace."""
    found = body(plural, **changes)
    for subject in found.get("subjects", ()):
        subject.setdefault("namespace", workspace.namespace)
    return found


@pytest.fixture
def bindable(workspace: Workspace) -> Iterator[None]:
    """The Role that an extraction's RoleBinding names, wherever one is tried: without it the answer is 404."""
    found = {"metadata": {"name": EXTRACTION["name"], "ownerReferences": [], "labels": EXTRACTED}}
    namespaces = (*OURS, workspace.namespace)
    for namespace in namespaces:
        workspace.client.create(path_of("roles", namespace), found)
    yield
    for namespace in namespaces:
        workspace.client.delete(path_of("roles", namespace, str(EXTRACTION["name"])))


def try_out(client: Client, plural: str, namespace: str, found: Json) -> Any:
    return client.create(f"{path_of(plural, namespace)}?dryRun=All", found)


@pytest.mark.parametrize("plural", KINDS)
def test_it_makes_what_a_dljob_or_its_extraction_controls(operator: Client, workspace: Workspace, plural: str) -> None:
    if plural == "rolebindings":
        role = {"metadata": {"name": EXTRACTION["name"]}}
        workspace.client.create(path_of("roles", workspace.namespace), role)
    try_out(operator, plural, workspace.namespace, made(plural, workspace))


@pytest.mark.usefixtures("bindable")
@pytest.mark.parametrize("namespace", OURS)
@pytest.mark.parametrize("plural", KINDS)
def test_it_makes_nothing_in_kube_system_or_beside_our_programs(
    operator: Client, refused: Refused, plural: str, namespace: str
) -> None:
    found = body(plural)
    for subject in found.get("subjects", ()):
        subject["namespace"] = namespace
    message = refused(lambda: try_out(operator, plural, namespace, found))
    assert f"metadata.namespace: {namespace}: " in message


def test_it_makes_no_privileged_deployment_in_kube_system(operator: Client, refused: Refused) -> None:
    found = body("deployments", owners=[], labels={})
    found["spec"]["template"]["spec"]["containers"] = [{**CONTAINER, "securityContext": {"privileged": True}}]
    assert "metadata.namespace: kube-system" in refused(lambda: try_out(operator, "deployments", "kube-system", found))


def test_it_does_not_say_how_clients_of_the_api_server_are_known(operator: Client, refused: Refused) -> None:
    path = path_of("configmaps", "kube-system", "extension-apiserver-authentication")
    patch = {"data": {"requestheader-client-ca-file": "forged"}}
    assert "metadata.namespace: kube-system" in refused(lambda: operator.patch(f"{path}?dryRun=All", patch))
    assert "metadata.namespace: kube-system" in refused(lambda: operator.delete(path, dryRun="All"))


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [DLJOB | {"controller": False}],
        [DLJOB | {"apiVersion": "example.org/v1"}],
        [DLJOB | {"kind": "PackingPolicy"}],
        [DLJOB | {"apiVersion": "apps/v1", "kind": "ReplicaSet"}],
    ],
    ids=["nobody", "no controller", "another group", "another kind", "a ReplicaSet"],
)
@pytest.mark.usefixtures("bindable")
@pytest.mark.parametrize("plural", KINDS)
def test_what_no_dljob_controls_it_does_not_make(
    operator: Client, workspace: Workspace, refused: Refused, plural: str, owners: list[Json]
) -> None:
    found = made(plural, workspace, owners=owners)
    message = refused(lambda: try_out(operator, plural, workspace.namespace, found))
    assert "metadata.ownerReferences: " in message


@pytest.mark.parametrize("plural", ["jobs", "deployments", "services"])
def test_an_extraction_controls_no_workload(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    found = made(plural, workspace, owners=[EXTRACTION], labels=EXTRACTED)
    assert "metadata.ownerReferences: " in refused(lambda: try_out(operator, plural, workspace.namespace, found))


@pytest.mark.parametrize("plural", ["jobs", "deployments", "services", "configmaps"])
def test_it_changes_and_deletes_nothing_of_others(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    path = path_of(plural, workspace.namespace)
    workspace.client.create(path, body(plural, owners=[], labels={}))
    for patch in (
        {"metadata": {"labels": {"forged": "yes"}}},
        {"metadata": {"labels": LABELS, "ownerReferences": [DLJOB]}},
    ):
        message = refused(lambda patch=patch: operator.patch(f"{path}/{called(plural)}", patch))  # type: ignore[misc]
        assert "metadata.ownerReferences: " in message
    # The garbage collector deletes Deployments: there the account lacks the right.
    says = "cannot delete resource" if plural == "deployments" else "controlled by nobody"
    assert says in refused(lambda: operator.delete(f"{path}/{called(plural)}"))


@pytest.mark.parametrize("plural", ["jobs", "deployments", "services", "configmaps"])
def test_it_gives_nothing_of_its_own_to_another(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    path = path_of(plural, workspace.namespace)
    # The garbage collector deletes what an owner has that is not there.
    owner = DLJOB | {"uid": workspace.dljob("train")["metadata"]["uid"]}
    operator.create(path, body(plural, owners=[owner]))
    for owners in (None, [DLJOB | {"uid": "another"}]):
        patch = {"metadata": {"ownerReferences": owners}}
        message = refused(lambda patch=patch: operator.patch(f"{path}/{called(plural)}?dryRun=All", patch))  # type: ignore[misc]
        assert "metadata.ownerReferences: " in message
    finalizers = {"metadata": {"finalizers": ["example.org/kept"]}}
    assert "metadata.finalizers: " in refused(lambda: operator.patch(f"{path}/{called(plural)}?dryRun=All", finalizers))
    if plural != "deployments":
        operator.delete(f"{path}/{called(plural)}", dryRun="All")


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["kube-root-ca.crt"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine-graph-0a1b2c3d"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["train-graph-00000000"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [GRAPH], "verbs": ["get"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": [GRAPH], "verbs": ["patch"]},
    ],
    ids=[
        "every ConfigMap",
        "another's ConfigMap",
        "one that is called like a graph",
        "another graph",
        "to read",
        "Jobs",
    ],
)
def test_it_gives_an_extraction_one_configmap_and_nothing_else(
    operator: Client, workspace: Workspace, refused: Refused, rule: Json
) -> None:
    found = made("roles", workspace, rules=[rule])
    assert "rules: " in refused(lambda: try_out(operator, "roles", workspace.namespace, found))


@pytest.mark.parametrize(
    "changes",
    [{"annotations": {"eks.amazonaws.com/role-arn": "arn:x"}}, {"secrets": [{"name": "keys"}]}],
    ids=["a cloud's role", "a Secret"],
)
def test_an_account_for_an_extraction_has_no_annotations_and_no_secrets(
    operator: Client, workspace: Workspace, refused: Refused, changes: Json
) -> None:
    found = made("serviceaccounts", workspace)
    # What a private registry asks for is copied from the account that the DLJob names.
    try_out(operator, "serviceaccounts", workspace.namespace, found | {"imagePullSecrets": [{"name": "registry"}]})
    if "annotations" in changes:
        changes = {"metadata": found["metadata"] | changes}
    message = refused(lambda: try_out(operator, "serviceaccounts", workspace.namespace, found | changes))
    assert "the operator gives a ServiceAccount no Secret, and no annotations" in message


@pytest.mark.usefixtures("bindable")
@pytest.mark.parametrize(
    "changes",
    [
        {"subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]},
        {"subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": RBAC}]},
    ],
    ids=["another account", "everybody"],
)
def test_it_binds_the_role_to_the_account_of_that_name(
    operator: Client, workspace: Workspace, refused: Refused, changes: Json
) -> None:
    found = made("rolebindings", workspace, **changes)
    assert "subjects: " in refused(lambda: try_out(operator, "rolebindings", workspace.namespace, found))


SERVED: Json = {"selector": SELECTOR, "ports": [{"port": 80}]}


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "None", "selector": SELECTOR, "ports": [{"port": 80}]},
        {"clusterIP": "None", "selector": {"app": "theirs"}},
        {"clusterIP": "None", "selector": SELECTOR | {f"{names.GROUP}/dljob-uid": "another"}},
        SERVED | {"selector": {"app": "theirs"}},
        SERVED | {"selector": SELECTOR | {"app": "theirs"}},
        {"type": "ExternalName", "externalName": "example.org"},
        {"clusterIP": "None", "selector": SELECTOR, "externalIPs": ["192.0.2.1"]},
        SERVED | {"externalIPs": ["192.0.2.1"]},
        SERVED | {"type": "LoadBalancer"},
        SERVED | {"type": "NodePort"},
        SERVED | {"publishNotReadyAddresses": True},
    ],
    ids=[
        "headless with ports",
        "pods of others",
        "another DLJob's pods",
        "served by pods of others",
        "served by some pods",
        "another name",
        "an address from outside",
        "served at an address from outside",
        "a load balancer",
        "a port of the nodes",
        "pods that are not ready",
    ],
)
def test_its_services_are_inside_the_cluster_and_of_a_dljobs_pods(
    operator: Client, workspace: Workspace, refused: Refused, spec: Json
) -> None:
    found = made("services", workspace, spec=spec)
    message = refused(lambda: try_out(operator, "services", workspace.namespace, found))
    assert "the operator makes headless Services" in message or "spec.selector: the operator makes Services" in message


def test_the_service_of_a_dljob_that_serves_is_called_as_the_dljob_says(operator: Client, workspace: Workspace) -> None:
    found = made("services", workspace, spec=SERVED)
    found["metadata"]["name"] = "chat"
    try_out(operator, "services", workspace.namespace, found)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "LoadBalancer"},
        {"type": "ExternalName", "externalName": "example.org", "clusterIP": None, "clusterIPs": None},
        {"externalIPs": ["192.0.2.1"]},
        {"selector": {"app": "theirs"}},
        {"publishNotReadyAddresses": True},
    ],
    ids=["a load balancer", "another name", "an address from outside", "pods of others", "pods that are not ready"],
)
def test_it_changes_nothing_of_a_service_but_its_ports(
    operator: Client, workspace: Workspace, refused: Refused, change: Json
) -> None:
    owner = DLJOB | {"uid": workspace.dljob("train")["metadata"]["uid"]}
    selector = SELECTOR | {f"{names.GROUP}/dljob-uid": owner["uid"]}
    found = made("services", workspace, owners=[owner], spec=SERVED | {"selector": selector})
    path = path_of("services", workspace.namespace)
    operator.create(path, found)
    operator.patch(f"{path}/gang-train?dryRun=All", {"spec": {"ports": [{"port": 81}]}})
    message = refused(lambda: operator.patch(f"{path}/gang-train?dryRun=All", {"spec": change}))
    assert "spec: the operator changes ports" in message or "spec.selector: the operator makes" in message


@pytest.mark.parametrize("plural", ["services", "configmaps"])
def test_no_cloud_is_told_anything_by_annotations(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    found = made(plural, workspace)
    found["metadata"]["annotations"] = {"external-dns.alpha.kubernetes.io/hostname": "bank.example"}
    message = refused(lambda: try_out(operator, plural, workspace.namespace, found))
    assert "metadata.annotations: the operator sets none but on Jobs and Deployments" in message


@pytest.mark.usefixtures("bindable")
@pytest.mark.parametrize("plural", KINDS)
def test_what_it_makes_has_no_name_that_others_look_for(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    found = made(plural, workspace)
    found["metadata"]["name"] = "redis"
    message = refused(lambda: try_out(operator, plural, workspace.namespace, found))
    assert "metadata.name: redis: what the operator makes is called after its DLJob, train" in message


@pytest.mark.parametrize("plural", ["jobs", "deployments"])
@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"nodeName": "control-plane"}, "spec.template.spec.nodeName: the operator chooses no node"),
        ({"volumes": [{"name": "v", "flexVolume": {"driver": "a/b"}}]}, "spec.template.spec.volumes: flexVolume"),
    ],
    ids=["a node", "a driver of the node"],
)
def test_its_templates_choose_no_node_and_run_nothing_there(
    operator: Client, workspace: Workspace, refused: Refused, plural: str, spec: Json, says: str
) -> None:
    found = made(plural, workspace)
    found["spec"]["template"]["spec"] |= spec
    assert says in refused(lambda: try_out(operator, plural, workspace.namespace, found))


@pytest.fixture
def extraction(workspace: Workspace) -> Client:
    """Whoever has the token of an extraction's account, to which a Role gives every ConfigMap of the namespace."""
    name, namespace = str(EXTRACTION["name"]), workspace.namespace
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}
    for plural, content in (
        ("serviceaccounts", {}),
        ("roles", {"rules": [rule]}),
        (
            "rolebindings",
            {
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
        ),
    ):
        workspace.client.create(path_of(plural, namespace), {"metadata": {"name": name}, **content})
    cluster = workspace.installation.cluster
    user = f"system:serviceaccount:{namespace}:{name}"
    waiting.wait_until(lambda: may_as(cluster, user, "patch", "configmaps", namespace=namespace), "the right", 30)
    return cluster.client_for_token(cluster.token(namespace, name))


def test_an_extraction_writes_the_graph_of_its_dljob_whatever_a_role_lets_it(
    extraction: Client, workspace: Workspace, refused: Refused
) -> None:
    path = path_of("configmaps", workspace.namespace)
    owner = DLJOB | {"uid": workspace.dljob("train")["metadata"]["uid"]}
    workspace.client.create(path, body("configmaps", owners=[owner]))
    another = DLJOB | {"name": "train2", "uid": workspace.dljob("train2")["metadata"]["uid"]}
    others = {
        "mine-graph-0a1b2c3d": {},
        "train2-graph-0a1b2c3d": {"labels": EXTRACTED, "ownerReferences": [another]},
        "train-graph-ffffffff": {
            "labels": EXTRACTED | {f"{names.GROUP}/extraction": "ffffffff"},
            "ownerReferences": [owner],
        },
    }
    for name, metadata in others.items():
        workspace.client.create(path, {"metadata": {"name": name, **metadata}, "data": {"a": "b"}})
    written = {"data": {"graph.json": "{}"}}
    extraction.patch(f"{path}/{GRAPH}", written)
    says = "an extraction writes the graph of its DLJob, and no other ConfigMap"
    for name in others:
        assert says in refused(lambda name=name: extraction.patch(f"{path}/{name}", written))  # type: ignore[misc]
    assert says in refused(lambda: extraction.create(path, {"metadata": {"name": "new"}}))
    assert says in refused(lambda: extraction.delete(f"{path}/{GRAPH}"))
    marked = {"metadata": {"annotations": {"a": "b"}}}
    assert "an extraction writes data alone" in refused(lambda: extraction.patch(f"{path}/{GRAPH}", marked))


def test_it_deletes_the_dljobs_that_are_over_and_ask_for_it_alone(
    operator: Client, workspace: Workspace, refused: Refused
) -> None:
    for name, spec, phase in (
        ("lives", {"ttlSecondsAfterFinished": 0}, "Running"),
        ("stays", {}, "Succeeded"),
        ("goes", {"ttlSecondsAfterFinished": 0}, "Succeeded"),
    ):
        workspace.dljob(name, **spec)
        workspace.client.patch(f"{workspace.dljobs(name)}/status", {"status": {"phase": phase}})
    for name in ("lives", "stays"):
        message = refused(lambda name=name: operator.delete(workspace.dljobs(name)))  # type: ignore[misc]
        assert "spec.ttlSecondsAfterFinished: " in message
    operator.delete(workspace.dljobs("goes"))


def test_its_events_are_about_dljobs_and_its_own(operator: Client, workspace: Workspace, refused: Refused) -> None:
    path = f"{clients.path_of('events', namespace=workspace.namespace)}?dryRun=All"
    about = {"kind": "DLJob", "name": "train", "namespace": workspace.namespace}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reportingComponent": names.OPERATOR_ACCOUNT}
    operator.create(path, event)
    for forged in (
        {"involvedObject": about | {"kind": "Pod"}},
        {"reportingComponent": "kubelet"},
        {"source": {"component": "kubelet"}},
        {"source": {"component": names.OPERATOR_ACCOUNT, "host": "h200-0"}},
    ):
        message = refused(lambda forged=forged: operator.create(path, event | forged))  # type: ignore[misc]
        assert "the operator tells about DLJobs" in message


def test_the_measurements_are_its_own_and_no_other_configmap_of_ours(
    operator: Client, workspace: Workspace, refused: Refused
) -> None:
    measured = {"metadata": {"name": f"cotenant-measurements-{workspace.namespace}"}, "data": {}}
    try_out(operator, "configmaps", names.RELEASE_NAMESPACE, measured)
    assert "kube-system" in refused(lambda: try_out(operator, "configmaps", "kube-system", measured))
    assert "controlled by nobody" in refused(lambda: try_out(operator, "configmaps", workspace.namespace, measured))
    other = {"metadata": {"name": "cotenant-model"}, "data": {}}
    assert "metadata.namespace" in refused(lambda: try_out(operator, "configmaps", names.RELEASE_NAMESPACE, other))


@pytest.mark.parametrize("plural", ["jobs", "deployments"])
def test_its_templates_have_nothing_beyond_baseline(
    operator: Client, workspace: Workspace, refused: Refused, plural: str
) -> None:
    found = made(plural, workspace)
    found["spec"]["template"]["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": "/mnt/data"}}]
    message = refused(lambda: try_out(operator, plural, workspace.namespace, found))
    assert "spec.template.spec.volumes[host].hostPath.path: /mnt/data: " in message
    owner = DLJOB | {"uid": workspace.dljob("train")["metadata"]["uid"]}
    operator.create(path_of(plural, workspace.namespace), made(plural, workspace, owners=[owner]))
    privileged = [{**CONTAINER, "securityContext": {"privileged": True}}]
    patch = {"spec": {"template": {"spec": {"containers": privileged}}}}
    message = refused(lambda: operator.patch(path_of(plural, workspace.namespace, called(plural)), patch))
    assert "privileged" in message or "immutable" in message


def test_it_changes_the_template_of_no_run_that_has_had_its_gpus(
    operator: Client, workspace: Workspace, refused: Refused
) -> None:
    owner = DLJOB | {"uid": workspace.dljob("train", template=template(), suspend=True)["metadata"]["uid"]}
    suspended = {**body("dljobs")["spec"], "suspend": True}
    operator.create(path_of("dljobs", workspace.namespace), made("dljobs", workspace, owners=[owner], spec=suspended))
    run = workspace.dljobs("train-0")
    change = {"spec": {"template": {"spec": {"containers": [{**CONTAINER, "image": "other"}]}}}}
    operator.patch(f"{run}?dryRun=All", change)
    operator.patch(f"{run}/status", {"status": {"startTime": "2026-01-01T00:00:00Z"}})
    assert "changes nothing but suspend" in refused(lambda: operator.patch(f"{run}?dryRun=All", change))
    operator.patch(f"{run}?dryRun=All", {"spec": {"suspend": False}})
    told = {"reason": "InvalidTemplate", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    stalled = {"type": "Stalled", "status": "True", **told}
    operator.patch(f"{run}/status", {"status": {"conditions": [stalled]}})
    operator.patch(f"{run}?dryRun=All", change)


def test_it_changes_no_dljob_but_the_runs_of_a_sweep(operator: Client, workspace: Workspace, refused: Refused) -> None:
    owner = DLJOB | {"uid": workspace.dljob("train", template=template(), suspend=True)["metadata"]["uid"]}
    message = refused(lambda: operator.patch(workspace.dljobs("train"), {"spec": {"suspend": False}}))
    assert "this is controlled by nobody" in message
    operator.create(path_of("dljobs", workspace.namespace), made("dljobs", workspace, owners=[owner]))
    run = f"{workspace.dljobs('train-0')}?dryRun=All"
    operator.patch(run, {"spec": {"suspend": True}})
    adopted = {"metadata": {"ownerReferences": [{**owner, "uid": "another"}]}}
    assert "may not give an object another controller" in refused(lambda: operator.patch(run, adopted))
