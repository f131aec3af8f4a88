"""What the API server's CPU does for the largest requests, with our rules and without them.

CPU time of the process, not time on the clock: a machine that is busy makes no difference. kube-system is a namespace
that our rules leave alone, on the same API server.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import pytest

from cluster.workloads import Workspace, pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import components
from cotenant_e2e.benchmark import usage
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster
from security.test_admission_bounds import (
    DEBUGGERS,
    LONG,
    MANY,
    adding,
    attach,
    containers,
    counted,
    dljob,
    nodes,
    of,
    pod,
)

MOST_TIMES = 4
MOST_SECONDS = 1
"""Our rules may take so many times what the API server takes without them, and so many seconds of CPU besides."""
WITHOUT = "kube-system"
REFUSED = {HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY}
OWNERS = [{"apiVersion": "v1", "kind": "Pod", **one, "uid": one["name"]} for one in counted(MANY)]
GANG = {names.GANG: '{"v":1,"name":"a","size":2}'}

Ask = Callable[[Cluster, str], object]


def created(plural: str, body: Json, *, group: str = "", version: str = "v1") -> Ask:
    """Return what creates an object in a namespace, as a dry run."""

    def ask(cluster: Cluster, namespace: str) -> object:
        path = clients.path_of(plural, group=group, version=version, namespace=namespace)
        return cluster.client.create(f"{path}?dryRun=All", body)

    return ask


def attached(debuggers: list[Json]) -> Ask:
    """Return what adds ephemeral containers to a pod that is there, as a dry run."""

    def ask(cluster: Cluster, namespace: str) -> None:
        attach(cluster.client, clients.path_of("pods", namespace=namespace, name="held"), debuggers)

    return ask


def templated(spec: Json) -> Ask:
    """Return what creates a Job whose template is looked at by our rules, as a dry run."""
    annotations = {names.PREDICTION: "{}", **{f"example.org/{number}": "" for number in range(200)}}
    template = {"metadata": {"annotations": annotations}, "spec": {**of(spec, share=True), "restartPolicy": "Never"}}
    return created("jobs", {"metadata": {"name": "j"}, "spec": {"template": template}}, group="batch")


def submitted(spec: Json) -> Ask:
    """Return what creates a DLJob, as a dry run."""
    return created("dljobs", dljob(spec), group=names.GROUP, version=names.VERSION)


WORST: Mapping[str, Ask] = {
    "pod, added capabilities": created("pods", pod({"containers": [{"securityContext": adding(MANY, "KILL")}]})),
    "pod, containers": created("pods", pod({"containers": containers(5000)})),
    "pod, volumes of the host": created("pods", pod({"volumes": counted(MANY, hostPath={"path": "/mnt/a"})})),
    "pod, values of an affinity": created("pods", pod({"affinity": nodes(500_000)})),
    "pod, labels of a selector": created("pods", pod({"nodeSelector": {f"a{n}": "" for n in range(100_000)}})),
    "pod of others, values of an affinity": created("pods", pod({"affinity": nodes(500_000)}, share=False)),
    "DLJob, values of an affinity": submitted({"affinity": nodes(500_000)}),
    "pod, owners in a gang": created("pods", pod({}, ownerReferences=OWNERS, annotations=GANG)),
    "pod of others, containers": created("pods", pod({"containers": counted(MANY, image="x")}, share=False)),
    "debuggers, dropped capabilities": attached(DEBUGGERS["many dropped capabilities in many containers"]),
    "DLJob, variables": submitted(LONG["variables"]),
    "Job, containers": templated({"containers": containers(5000)}),
}


def cpu_seconds(cluster: Cluster, ask: Callable[[], object]) -> float:
    """Return the API server's CPU time for a request, whether it is refused or not."""
    pids = {components.API_SERVER: cluster.process(components.API_SERVER).pid}
    usage.settle(pids)
    before = usage.cpu_seconds(pids)
    try:
        ask()
    except clients.APIError as error:
        if error.code not in REFUSED:
            raise
    usage.settle(pids)
    return float(usage.spent(before, usage.cpu_seconds(pids))[components.API_SERVER])


@pytest.mark.parametrize("ask", WORST.values(), ids=list(WORST))
def test_our_rules_take_little_more_cpu_than_the_api_server_itself(
    cluster: Cluster, workspace: Workspace, ask: Ask, request: pytest.FixtureRequest
) -> None:
    held = pod_object("held", schedulingGates=[{"name": "example.org/hold"}])
    for namespace in (WITHOUT, workspace.namespace):
        cluster.client.create(clients.path_of("pods", namespace=namespace), held)
    try:
        without = cpu_seconds(cluster, lambda: ask(cluster, WITHOUT))
        ours = cpu_seconds(cluster, lambda: ask(cluster, workspace.namespace))
    finally:
        cluster.client.delete(clients.path_of("pods", namespace=WITHOUT, name="held"), gracePeriodSeconds="0")
    times = ours / max(without, 0.01)
    print(f"{request.node.callspec.id}: CPU {without:.2f} s without our rules, {ours:.2f} s with them, x{times:.1f}")
    assert ours <= MOST_TIMES * without + MOST_SECONDS
