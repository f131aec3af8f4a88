"""The extender's contract with the real kube-scheduler: what it is asked, and what is left to kube-scheduler."""

import json

from cluster.workloads import CONTAINER, SECONDS, Workspace
from cotenant_api import names
from cotenant_e2e import waiting
from cotenant_e2e.installation import Installation
from cotenant_extender import records


def requests(installed: Installation, verb: str, result: str) -> float:
    return installed.metric("cotenant_extender_requests_total", verb=verb, result=result)


def refused_requests(installed: Installation) -> float:
    verbs, results = ("filter", "bind"), ("malformed", "unavailable")
    return sum(requests(installed, verb, result) for verb in verbs for result in results)


def test_filter_and_bind_are_asked_once_for_a_pod_that_is_placed_at_once(
    workspace: Workspace, installed: Installation
) -> None:
    before = {verb: requests(installed, verb, "ok") for verb in ("filter", "bind")}
    workspace.pod("p", 30)
    workspace.bound_pod("p")
    waiting.wait_until(lambda: requests(installed, "bind", "ok") > before["bind"], "bind counted", SECONDS)
    assert {verb: requests(installed, verb, "ok") - before[verb] for verb in before} == {"filter": 1, "bind": 1}


def test_what_kube_scheduler_writes_is_read_without_an_error(workspace: Workspace, installed: Installation) -> None:
    before = refused_requests(installed)
    for number in range(8):
        workspace.pod(f"p{number}", 20, annotations={names.WORKLOAD_TYPE: "Inference"})
    for number in range(8):
        workspace.bound_pod(f"p{number}")
    assert refused_requests(installed) == before


def test_a_pod_of_our_scheduler_that_asks_for_no_share_never_meets_the_extender(
    workspace: Workspace, installed: Installation
) -> None:
    before = requests(installed, "filter", "ok")
    spec = {"containers": [CONTAINER], "schedulerName": names.SCHEDULER_NAME}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": spec}
    workspace.client.create(workspace.pods(), body)
    bound = workspace.bound_pod("plain")
    assert names.PLACEMENT not in bound["metadata"].get("annotations", {})
    assert requests(installed, "filter", "ok") == before


def test_kube_schedulers_own_rules_hold_for_our_pods(workspace: Workspace) -> None:
    workspace.pod("chosen", 10, nodeSelector={"kubernetes.io/hostname": "l4-1"})
    assert workspace.bound_pod("chosen")["spec"]["nodeName"] == "l4-1"


def test_the_earmark_is_where_the_pod_was_bound(workspace: Workspace) -> None:
    workspace.pod("p", 30)
    bound = workspace.bound_pod("p")
    earmark = json.loads(bound["metadata"]["annotations"][names.EARMARK])
    placement = json.loads(bound["metadata"]["annotations"][names.PLACEMENT])
    assert (earmark["node"], earmark["gpus"]) == (placement["node"], [gpu["uuid"] for gpu in placement["gpus"]])


def test_a_bound_pod_tells_when_it_was_created_and_when_it_was_bound(workspace: Workspace) -> None:
    workspace.pod("p", 30)
    found = records.pod_record(workspace.bound_pod("p"))
    assert found.created is not None
    assert found.scheduled is not None
    assert found.created <= found.scheduled


def test_the_ledger_has_not_drifted(installed: Installation) -> None:
    assert installed.metric("cotenant_extender_ledger_recounts_total") >= 1
    assert installed.metric("cotenant_extender_ledger_drift") == 0
    assert installed.metric("cotenant_extender_leading") == 1
