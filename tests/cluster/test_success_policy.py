"""Gangs that have succeeded before all of their members have, by the Job controller of Kubernetes itself."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.test_attempts import end, job, living, told
from cluster.workloads import Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json

Refused = Callable[[Callable[[], Any]], str]

LEADER: Json = {"rules": [{"succeededIndexes": "0"}]}


def begin(workspace: Workspace, policy: Json = LEADER, replicas: int = 3) -> list[Json]:
    """A gang whose members never end by themselves, running; its members by index."""
    forever = template(run_for="")
    workspace.dljob("gang", replicas=replicas, successPolicy=policy, model=workspace.graph("graph"), template=forever)
    return living(workspace, 1, count=replicas)


def check_success(workspace: Workspace, *, attempts: int = 1) -> None:
    status = workspace.wait_for_phase("gang", Phase.SUCCEEDED)
    assert (status["attempts"], status["failures"]) == (attempts, 0)
    complete = workspace.condition("gang", "Complete")
    assert (complete["status"], complete["reason"]) == ("True", "SuccessPolicy")
    conditions = {item["type"]: item for item in job(workspace, f"gang-{attempts}")["status"]["conditions"]}
    assert conditions["SuccessCriteriaMet"]["reason"] == conditions["Complete"]["reason"] == "SuccessPolicy"


def test_a_gang_whose_leader_is_done_has_succeeded_and_its_workers_are_ended(workspace: Workspace) -> None:
    members = begin(workspace)
    end(workspace, members[0], code=0)
    check_success(workspace)
    assert told(workspace) == []
    pods = workspace.client.items(workspace.pods())
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"]


def test_a_gang_has_succeeded_when_so_many_members_have(workspace: Workspace) -> None:
    members = begin(workspace, {"rules": [{"succeededIndexes": "0-2", "succeededCount": 2}]})
    end(workspace, members[1], code=0)
    end(workspace, members[2], code=0)
    check_success(workspace)


def test_a_gang_that_is_disrupted_before_its_leader_is_done_begins_anew(workspace: Workspace) -> None:
    members = begin(workspace)
    name = members[1]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    workspace.client.create(f"{workspace.pods(name)}/eviction", eviction)
    again = living(workspace, 2, count=3)
    (words,) = told(workspace)
    assert "attempt 1 was disrupted" in words
    end(workspace, again[0], code=0)
    check_success(workspace, attempts=2)


def of(**rule: Any) -> Json:
    return {"replicas": 4, "successPolicy": {"rules": [rule]}}


RULES = "spec.successPolicy.rules"
REFUSED: dict[str, tuple[Json, str, str]] = {
    "inference": (of(succeededCount=1) | {"workloadType": "Inference"}, "spec.successPolicy", "remove it"),
    "a single replica": (of(succeededCount=1) | {"replicas": 1}, "spec.successPolicy", "set replicas above 1"),
    "a sweep": (
        of(succeededCount=1) | {"completions": 2},
        "spec.successPolicy",
        "remove successPolicy, or completions",
    ),
    "no rules": ({"replicas": 2, "successPolicy": {"rules": []}}, RULES, "at least 1"),
    "21 rules": ({"replicas": 2, "successPolicy": {"rules": [{"succeededCount": 1}] * 21}}, RULES, "at most 20"),
    "nothing": (of(), f"{RULES}[0]", "succeededIndexes, succeededCount or both"),
    "count 0": (of(succeededCount=0), f"{RULES}[0].succeededCount", "greater than or equal to 1"),
    "count 5": (of(succeededCount=5), RULES, "at most replicas"),
    "index 4": (of(succeededIndexes="4"), RULES, "must be below replicas"),
    "interval to 4": (of(succeededIndexes="0,2-4"), RULES, "must be below replicas"),
    "no index": (of(succeededIndexes=""), f"{RULES}[0].succeededIndexes", "at least 1"),
    "words": (of(succeededIndexes="zero"), f"{RULES}[0].succeededIndexes", "such as 0,2-5"),
    "an open interval": (of(succeededIndexes="1-"), f"{RULES}[0].succeededIndexes", "such as 0,2-5"),
    "twice": (of(succeededIndexes="1,1"), f"{RULES}[0].succeededIndexes", "must ascend"),
    "backwards": (of(succeededIndexes="2,1"), f"{RULES}[0].succeededIndexes", "must ascend"),
    "an interval backwards": (of(succeededIndexes="3-1"), f"{RULES}[0].succeededIndexes", "must ascend"),
    "an interval of one": (of(succeededIndexes="1-1"), f"{RULES}[0].succeededIndexes", "must ascend"),
    "overlapping": (of(succeededIndexes="0-2,2"), f"{RULES}[0].succeededIndexes", "must ascend"),
    "more than named": (of(succeededIndexes="0,2-3", succeededCount=4), f"{RULES}[0].succeededCount", "at most the"),
}


@pytest.mark.parametrize(("spec", "path", "remedy"), REFUSED.values(), ids=list(REFUSED))
def test_what_the_api_server_would_refuse_of_the_job_is_refused_of_the_dljob(
    workspace: Workspace, refused: Refused, spec: Json, path: str, remedy: str
) -> None:
    message = refused(lambda: workspace.dljob("bad", suspend=True, **spec))
    assert f"{path}: " in message
    assert remedy in message


@pytest.mark.parametrize(
    "rule",
    [
        {"succeededIndexes": "0,2-3", "succeededCount": 3},
        {"succeededIndexes": "0-3"},
        {"succeededCount": 4},
        {"succeededIndexes": "0,1,2,3", "succeededCount": 4},
    ],
)
def test_what_admission_takes_the_api_server_takes_of_the_job(workspace: Workspace, rule: Json) -> None:
    workspace.dljob("gang", **of(**rule))
    path = clients.path_of("jobs", group="batch", namespace=workspace.namespace)
    workspace.wait_for_condition("gang", "Placed", "True")
    (made,) = workspace.client.items(path, labelSelector=f"{names.DLJOB_LABEL}=gang")
    assert made["spec"]["successPolicy"] == {"rules": [rule]}


def test_each_rule_of_a_policy_may_name_every_member_of_the_largest_gang(workspace: Workspace) -> None:
    every = ",".join(map(str, range(256)))
    rules = [{"succeededIndexes": every, "succeededCount": 256}] * 20
    workspace.dljob("gang", replicas=256, successPolicy={"rules": rules}, suspend=True)
    workspace.wait_for_phase("gang", Phase.SUSPENDED)
