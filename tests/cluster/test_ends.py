"""Deletion, suspension and deadlines at every phase of a DLJob, and how much the operator asks for a whole life."""

import datetime as dt
import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cluster.conftest import OPERATOR
from cluster.workloads import SECONDS, Workspace, template
from cotenant_api.dljob import Phase
from cotenant_e2e import audit, installation, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json

AT_ONCE = 6
MOST_REQUESTS, USUAL_SECONDS = 8, 3
"""Of a life that takes no longer; on a slower machine there may be one more status each second."""
ELSEWHERE = {"gpuModels": ["NVIDIA-B200"]}
"""A GPU model that is known and not in the cluster."""
PHASES: dict[Phase, dict[str, Any]] = {
    Phase.PENDING: {"model": {"configMapRef": {"name": "comes-later", "key": "graph.json"}}},
    Phase.QUEUED: ELSEWHERE,
    Phase.RUNNING: {"template": template(run_for="")},
    Phase.SUSPENDED: {"suspend": True},
    Phase.SUCCEEDED: {"template": template(run_for="0.1s")},
}
PROPAGATIONS = ("Foreground", "Background", "Orphan")


def at_once(calls: list[Callable[[], None]]) -> None:
    """Do all; the first failure is raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def owned(workspace: Workspace, name: str) -> list[Json]:
    """Jobs and pods of a DLJob."""
    selector = {"labelSelector": f"cotenant.dev/dljob={name}"}
    paths = (workspace.jobs(), workspace.pods())
    return [item for path in paths for item in workspace.client.items(path, **selector)]


def gone(workspace: Workspace, name: str) -> bool:
    return workspace.client.find(workspace.dljobs(name)) is None


def submit(workspace: Workspace, name: str, model: Json, phase: Phase) -> None:
    """A DLJob that reaches a phase and stays there."""
    workspace.dljob(name, **({"model": model} | PHASES[phase]))
    workspace.wait_for_phase(name, phase)


def test_a_dljob_is_deleted_at_every_phase_in_every_way(workspace: Workspace) -> None:
    model = workspace.graph("graph")

    def life(phase: Phase, propagation: str) -> None:
        name = f"{phase}-{propagation}".lower()
        submit(workspace, name, model, phase)
        before = {item["metadata"]["uid"] for item in owned(workspace, name)}
        workspace.client.delete(workspace.dljobs(name), propagationPolicy=propagation)
        waiting.wait_until(lambda: gone(workspace, name), f"{name} gone", SECONDS)
        if propagation != "Orphan":
            waiting.wait_until(lambda: not owned(workspace, name), f"nothing left of {name}", SECONDS)
            return
        # Left to the user, by his word: nothing of it is ended, and nothing is made but pods, by the Job's controller.
        after = {item["metadata"]["uid"]: item for item in owned(workspace, name)}
        assert before <= after.keys()
        made = [after[uid]["metadata"]["ownerReferences"][0]["kind"] for uid in after.keys() - before]
        assert set(made) <= {"Job"}

    at_once([functools.partial(life, phase, propagation) for phase in PHASES for propagation in PROPAGATIONS])


def test_a_namespace_is_deleted_while_the_operator_is_stopped(workspace: Workspace) -> None:
    cluster = workspace.installation.cluster
    other = Workspace(workspace.installation, f"{workspace.namespace}-goes")
    other.create()
    model = other.graph("graph")
    at_once([functools.partial(submit, other, str(phase).lower(), model, phase) for phase in PHASES])
    cluster.kill(installation.OPERATOR)
    path = clients.path_of("namespaces", name=other.namespace)
    other.client.delete(path)
    waiting.wait_until(lambda: other.client.find(path) is None, f"{other.namespace} gone", SECONDS)
    cluster.restart(installation.OPERATOR)


def test_a_dljob_is_suspended_and_resumed_at_every_phase(workspace: Workspace) -> None:
    model = workspace.graph("graph")

    def life(phase: Phase) -> None:
        name = str(phase).lower()
        submit(workspace, name, model, phase)
        workspace.client.patch(workspace.dljobs(name), {"spec": {"suspend": True}})
        workspace.wait_for_phase(name, Phase.SUSPENDED)

        selector = {"labelSelector": f"cotenant.dev/dljob={name}"}
        none = f"no pods of {name}"
        waiting.wait_until(lambda: not workspace.client.items(workspace.pods(), **selector), none, SECONDS)
        workspace.client.patch(workspace.dljobs(name), {"spec": {"suspend": False}})
        workspace.wait_for_phase(name, phase)

    at_once([functools.partial(life, phase) for phase in (Phase.PENDING, Phase.QUEUED, Phase.RUNNING)])


def test_a_finished_dljob_is_not_begun_again_by_resuming_it(workspace: Workspace) -> None:
    submit(workspace, "over", workspace.graph("graph"), Phase.SUCCEEDED)
    before = workspace.status("over")
    for suspend in (True, False):
        workspace.client.patch(workspace.dljobs("over"), {"spec": {"suspend": suspend}})
    generation = workspace.client.get(workspace.dljobs("over"))["metadata"]["generation"]
    submit(workspace, "after", {"configMapRef": {"name": "graph", "key": "graph.json"}}, Phase.SUCCEEDED)
    assert workspace.status("over") == before | {"observedGeneration": generation}


def test_a_finished_dljob_goes_when_its_time_is_over(workspace: Workspace) -> None:
    workspace.dljob("short", ttlSecondsAfterFinished=1, model=workspace.graph("graph"))
    waiting.wait_until(lambda: gone(workspace, "short"), "short gone", SECONDS)
    waiting.wait_until(lambda: not owned(workspace, "short"), "nothing left of short", SECONDS)


def test_a_deadline_counts_from_the_first_placement(workspace: Workspace) -> None:
    seconds = 3
    forever = template(run_for="")
    workspace.dljob(
        "late", suspend=True, activeDeadlineSeconds=seconds, model=workspace.graph("graph"), template=forever
    )
    workspace.wait_for_phase("late", Phase.SUSPENDED)
    created = moment(workspace.client.get(workspace.dljobs("late"))["metadata"]["creationTimestamp"])
    waiting.wait_until(lambda: dt.datetime.now(dt.UTC) > created + dt.timedelta(seconds=seconds), "deadline", SECONDS)
    workspace.client.patch(workspace.dljobs("late"), {"spec": {"suspend": False}})
    workspace.wait_for_phase("late", Phase.RUNNING)
    status = workspace.wait_for_phase("late", Phase.FAILED)
    assert workspace.condition("late", "Failed")["reason"] == "DeadlineExceeded"
    lasted = moment(status["completionTime"]) - moment(status["startTime"])
    assert lasted >= dt.timedelta(seconds=seconds)


def test_a_deadline_that_passes_in_a_suspension_ends_the_job_when_it_is_resumed(workspace: Workspace) -> None:
    seconds = 2
    workspace.dljob(
        "held", activeDeadlineSeconds=seconds, model=workspace.graph("graph"), template=template(run_for="")
    )
    workspace.wait_for_phase("held", Phase.RUNNING)
    workspace.client.patch(workspace.dljobs("held"), {"spec": {"suspend": True}})
    workspace.wait_for_phase("held", Phase.SUSPENDED)
    late = moment(workspace.status("held")["startTime"]) + dt.timedelta(seconds=seconds)
    waiting.wait_until(lambda: dt.datetime.now(dt.UTC) > late, "deadline", SECONDS)
    workspace.client.patch(workspace.dljobs("held"), {"spec": {"suspend": False}})
    workspace.wait_for_phase("held", Phase.FAILED)
    assert workspace.condition("held", "Failed")["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize("replicas", [1, 4])
def test_a_whole_life_takes_few_requests(workspace: Workspace, replicas: int) -> None:
    log = workspace.installation.cluster.settings.audit_log
    before = audit.size(log)
    workspace.dljob("train", replicas=replicas, model=workspace.graph("graph"), template=template(run_for="0.1s"))
    workspace.wait_for_phase("train", Phase.SUCCEEDED)
    waiting.wait_until(lambda: "Completed" in {event["reason"] for event in workspace.events()}, "event", SECONDS)
    asked = [
        one for one in audit.of(log, since_bytes=before) if (one.user, one.namespace) == (OPERATOR, workspace.namespace)
    ]
    slower = math.ceil(max(asked[-1].seconds - asked[0].seconds - USUAL_SECONDS, 0))
    # A gang has its Service, too.
    assert len(asked) <= MOST_REQUESTS + (replicas > 1) + slower, audit.counted(asked)


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_exit_code_that_no_further_try_mends_ends_the_job_at_once(workspace: Workspace, replicas: int) -> None:
    """The Job controller itself decides: a pod of kwok's fails with 1."""
    failing = template(run_for="")
    failing["metadata"]["annotations"] = {"demo.cotenant.dev/fail-after": "500ms"}
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    workspace.dljob("train", template=failing, replicas=replicas, podFailurePolicy={"rules": [rule]})
    status = workspace.wait_for_phase("train", Phase.FAILED)
    assert workspace.condition("train", "Failed")["reason"] == "PodFailurePolicy"
    assert status["attempts"] == 1
