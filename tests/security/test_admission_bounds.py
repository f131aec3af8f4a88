"""No request of a tenant is so large that our rules skip it, or that they take the API server's time for it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, SECONDS, Workspace, pod_object
from cotenant_api import names, rootless
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

Refused = Callable[[Callable[[], Any]], str]

STRATEGIC = "application/strategic-merge-patch+json"
MANY = 20_000
SHARE: Json = {"limits": {names.GPU_SHARE: "40"}}
ROOT: Json = {"name": "root", "image": "x", "securityContext": {"runAsUser": 0}}


def counted(count: int, **more: Any) -> list[Json]:
    """Return entries of a list that are told apart by their names."""
    return [{"name": f"a{number}", **more} for number in range(count)]


def dropping(count: int) -> Json:
    """Return a security context that drops many capabilities and not the one that matters."""
    return {"runAsUser": 0, "capabilities": {"drop": ["X"] * count}}


def adding(count: int, capability: str) -> Json:
    """Return a security context of a container that is not root and adds one capability many times."""
    return {**rootless.PROVEN, "capabilities": {"drop": ["ALL"], "add": [capability] * count}}


def containers(count: int) -> list[Json]:
    """Return containers without a share."""
    return counted(count, image="x", terminationMessagePolicy="File", securityContext=rootless.PROVEN)


def nodes(values: int, *, expressions: int = 1, terms: int = 1) -> Json:
    """Return an affinity to nodes of which labels have one of so many values."""
    expression = {"key": "a", "operator": "In", "values": [str(number % 10) for number in range(values)]}
    found = {"nodeSelectorTerms": [{"matchExpressions": [expression] * expressions}] * terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": found}}


def pods(values: int) -> Json:
    """Return an affinity to pods of which a label has one of so many values, if that can be had."""
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"] * values}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    }


def of(spec: Json, *, share: bool) -> Json:
    """Return a pod's spec whose first container asks for a share, if `share`."""
    own, *others = spec.get("containers", [{}])
    return {**spec, "containers": [{**CONTAINER, **own} | ({"resources": SHARE} if share else {}), *others]}


def pod(spec: Json, *, share: bool = True, **metadata: Any) -> Json:
    """Return a pod whose first container asks for a share, if `share`."""
    return {"metadata": {"name": "p", **metadata}, "spec": of(spec, share=share)}


def dljob(spec: Json) -> Json:
    """Return a DLJob with such a template."""
    spec = {"template": {"spec": of(spec, share=False)}}
    return {"apiVersion": names.API_VERSION, "kind": "DLJob", "metadata": {"name": "train"}, "spec": spec}


# --- debuggers beside a share

DEBUGGERS: Mapping[str, list[Json]] = {
    "many dropped capabilities in many containers": counted(100, image="x", securityContext=dropping(2500)),
    "many dropped capabilities": [{**ROOT, "securityContext": dropping(100_000)}],
    "as many dropped capabilities as are judged": counted(4, image="x", securityContext=dropping(1024)),
    "many variables": [{**ROOT, "env": counted(MANY)}],
    "many containers": counted(2000, image="x", securityContext={"runAsUser": 0}),
    "as many containers as are judged": counted(256, image="x", securityContext=dropping(16)),
    "many arguments": [{**ROOT, "args": ["a"] * 100_000}],
    "a privileged one among many": [
        *counted(200, image="x", securityContext=adding(100, "KILL")),
        {**ROOT, "securityContext": {"privileged": True}},
    ],
}


@pytest.fixture(params=[False, True], ids=["", "a namespace that is trusted with the host"])
def holder(request: pytest.FixtureRequest, tenant: Tenant) -> Tenant:
    """Return a tenant with a pod that holds a share and has many large annotations."""
    if request.param:
        labels = {"cotenant.dev/pod-security": "privileged"}
        path = clients.path_of("namespaces", name=tenant.workspace.namespace)
        tenant.workspace.client.patch(path, {"metadata": {"labels": labels}})
        waiting.wait_until(lambda: lets_in_privileged(tenant.workspace), "a namespace without rules", SECONDS)
    tenant.grant("pods/ephemeralcontainers", "patch")
    annotations = {f"example.org/{number}": "\N{ROCKET}" * 450 for number in range(100)}
    held = pod_object("p", schedulingGates=[{"name": "example.org/hold"}], annotations=annotations)
    tenant.client.create(tenant.workspace.pods(), held)
    return tenant


def lets_in_privileged(workspace: Workspace) -> bool:
    """Return whether cotenant-pod-security no longer judges the namespace's pods."""
    made = pod({"hostUsers": False, "containers": [{"securityContext": {"privileged": True}}]})
    try:
        workspace.client.create(f"{workspace.pods()}?dryRun=All", made)
    except clients.APIError as error:
        return "cotenant-pod-security" not in error.message
    return True


def attach(client: clients.Client, path: str, debuggers: list[Json]) -> None:
    """Add ephemeral containers to a pod, as a dry run."""
    body = {"spec": {"ephemeralContainers": debuggers}}
    client.patch(f"{path}/ephemeralcontainers?dryRun=All", body, content_type=STRATEGIC)


@pytest.mark.parametrize("debuggers", DEBUGGERS.values(), ids=list(DEBUGGERS))
def test_no_debugger_is_root_beside_a_share_however_large_the_request(
    holder: Tenant, refused: Refused, debuggers: list[Json]
) -> None:
    message = refused(lambda: attach(holder.client, holder.workspace.pods("p"), debuggers))
    assert "spec.ephemeralContainers[" in message or "spec.containers" in message
    assert "may run as root" in message or "at most" in message or "privileged" in message


def test_as_many_debuggers_as_are_judged_are_let_in(holder: Tenant) -> None:
    debuggers = [{**CONTAINER, **one, "env": counted(10)} for one in counted(200)]
    attach(holder.client, holder.workspace.pods("p"), debuggers)


# --- what is long

LONG: Mapping[str, Json] = {
    "added capabilities": {"containers": [{"securityContext": adding(MANY, "KILL")}]},
    "dropped capabilities": {"containers": [{"securityContext": dropping(MANY)}]},
    "variables": {"containers": [{"env": counted(MANY)}]},
    "variables of all containers": {"containers": [{"env": counted(900)} | one for one in containers(6)]},
    "arguments": {"containers": [{"args": ["a"] * 60_000}]},
    "ports": {"containers": [{"ports": [{"containerPort": number + 1} for number in range(MANY)]}]},
    "volumes": {"volumes": counted(MANY, emptyDir={})},
    "paths of the host": {"volumes": counted(20, hostPath={"path": "/mnt" + "/a" * 50_000})},
    "gates": {"schedulingGates": counted(MANY)},
    "tolerations": {"tolerations": [{"operator": "Exists", "key": f"a{number}"} for number in range(MANY)]},
    "sysctls": {"securityContext": {"sysctls": [{"name": f"a{number}", "value": "1"} for number in range(MANY)]}},
}
CROWDS: Mapping[str, Json] = {
    "values of an affinity": {"affinity": nodes(MANY)},
    "values of many terms": {"affinity": nodes(50, expressions=50, terms=50)},
    "terms": {"affinity": nodes(1, terms=1000)},
    "values of an affinity to pods": {"affinity": pods(MANY)},
    "labels of nodes": {"nodeSelector": {f"a{number}": "" for number in range(5000)}},
    "containers": {"containers": containers(2000)},
    "init containers": {"initContainers": containers(2000)},
    "mounts": {
        "volumes": [{"name": "a", "emptyDir": {}}],
        "containers": [{"volumeMounts": [{"name": "a", "mountPath": f"/{number}"} for number in range(MANY)]}],
    },
}


@pytest.mark.parametrize("spec", [*LONG.values(), *CROWDS.values()], ids=[*LONG, *CROWDS])
@pytest.mark.parametrize("label", [{}, {names.ASKS_LABEL: "gpu-share"}], ids=["", "with our label"])
def test_a_pod_with_a_share_has_no_longer_lists_than_are_judged(
    tenant: Tenant, refused: Refused, spec: Json, label: Json
) -> None:
    pods = f"{tenant.workspace.pods()}?dryRun=All"
    message = refused(lambda: tenant.client.create(pods, pod(spec, labels=label)))
    assert "at most " in message
    assert "remove some" in message
    assert "spec." in message


@pytest.mark.parametrize("spec", LONG.values(), ids=list(LONG))
def test_a_dljob_has_no_longer_lists_than_are_judged(tenant: Tenant, refused: Refused, spec: Json) -> None:
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.dljobs()}?dryRun=All", dljob(spec)))
    assert "spec.template.spec." in message
    assert "at most " in message
    assert "remove some" in message


def test_the_pods_of_a_job_have_no_longer_lists_either(tenant: Tenant) -> None:
    template = {"spec": {**of(LONG["variables"], share=True), "restartPolicy": "Never"}}
    jobs = clients.path_of("jobs", group="batch", namespace=tenant.workspace.namespace)
    tenant.client.create(jobs, {"metadata": {"name": "j"}, "spec": {"template": template}})
    events = clients.path_of("events", namespace=tenant.workspace.namespace)

    def told() -> bool:
        found = tenant.workspace.client.items(events, fieldSelector="involvedObject.name=j,reason=FailedCreate")
        return any(f"{MANY} entries: at most 1024" in one["message"] for one in found)

    waiting.wait_until(told, "the refusal of the Job's pod", SECONDS)
    assert not tenant.client.items(tenant.workspace.pods())


def test_a_pod_with_a_share_or_a_gang_has_no_more_owners_than_are_judged(tenant: Tenant, refused: Refused) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", **one, "uid": one["name"]} for one in counted(MANY)]
    gang = {names.GANG: '{"v":1,"name":"a","size":2}'}
    pods = f"{tenant.workspace.pods()}?dryRun=All"
    with_a_share = refused(lambda: tenant.client.create(pods, pod({}, ownerReferences=owners)))
    assert f"metadata.ownerReferences: {MANY} entries: at most 1024" in with_a_share
    with_a_gang = pod({}, share=False, ownerReferences=owners, annotations=gang)
    assert f"{MANY} entries: at most 1024" in refused(lambda: tenant.client.create(pods, with_a_gang))
    tenant.client.create(pods, pod({}, share=False, ownerReferences=owners))


# --- what is let in

WIDE: Mapping[str, Json] = {
    "an affinity": {"affinity": nodes(900)},
    "an affinity to pods": {"affinity": pods(900)},
    "variables": {"containers": [{"env": counted(1000)} | one for one in containers(3)]},
    "capabilities": {"containers": [{"securityContext": adding(1000, "KILL")}]},
    "volumes": {"volumes": counted(1000, emptyDir={})},
    "containers": {
        "containers": containers(32),
        "initContainers": [{**one, "name": f"{one['name']}i"} for one in containers(32)],
    },
}


@pytest.mark.parametrize("spec", WIDE.values(), ids=list(WIDE))
def test_more_than_anybody_writes_is_let_in(tenant: Tenant, spec: Json) -> None:
    tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod(spec))
    tenant.client.create(f"{tenant.workspace.dljobs()}?dryRun=All", dljob(spec))


@pytest.mark.parametrize("spec", [*LONG.values(), {"containers": containers(3000)}], ids=[*LONG, "3000 containers"])
def test_a_pod_that_asks_for_no_share_may_have_longer_ones(workspace: Workspace, spec: Json) -> None:
    workspace.client.create(f"{workspace.pods()}?dryRun=All", pod(spec, share=False))


def test_a_pod_of_more_containers_than_are_looked_through_is_refused(workspace: Workspace, refused: Refused) -> None:
    made = pod({"containers": containers(3001)}, share=False)
    message = refused(lambda: workspace.client.create(f"{workspace.pods()}?dryRun=All", made))
    assert "spec.containers, spec.initContainers: 3001 containers, too many to be looked through" in message
