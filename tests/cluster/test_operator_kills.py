"""The operator is killed at each of its writes, before and after it takes effect: every life ends as without that."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from cluster.narrow import Proxy, View
from cluster.operators import Operators
from cluster.workloads import Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import installation, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.installation import Installation

AT_ONCE = 12
"""Namespaces side by side; each takes a GPU of its own, or two."""
SECONDS = 600
LOOK_SECONDS = 0.3
"""So many look at once that looking is what takes the time."""
NAME = "train"


@dataclass(frozen=True)
class Life:
    """A DLJob and what a kubelet makes of its pods.

    Attributes:
        spec: of the DLJob, beside model and template.
        fails: how many pods of the first attempt fail.
        phase: in which it stays.
    """

    spec: dict[str, Any]
    fails: int = 0
    phase: Phase = Phase.SUCCEEDED


@dataclass(frozen=True)
class Outcome:
    """What is left of a life: what was asked for, made and told, by name and number, and how it stands."""

    writes: int
    jobs: tuple[str, ...]
    pods: Counter[tuple[str, str]]
    events: Counter[str]
    conditions: dict[str, tuple[str, str]]


LIVES = {
    "single": Life({}),
    "gang": Life({"replicas": 4}),
    "failing-once": Life({"replicas": 2}, fails=1),
    "inference": Life({"workloadType": "Inference", "replicas": 2}, phase=Phase.RUNNING),
}


@pytest.fixture(scope="module")
def operators(installed: Installation) -> Iterator[Operators]:
    """Operators of one namespace each, in the place of the one of all."""
    installed.cluster.stop_process(installation.OPERATOR)
    with Proxy(installed.cluster) as proxy:
        yield Operators(installed.cluster, proxy)
    installation.start_operator(installed.cluster)


def test_every_life_ends_the_same_at_whichever_write_the_operator_is_killed(
    operators: Operators, installed: Installation
) -> None:
    def case(kind: str, last: int, effect: bool) -> Outcome:
        name = f"{kind}-{last}-{'after' if effect else 'before'}"
        return lived(operators, installed, LIVES[kind], View(name, last=last, takes_effect=effect))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        expected = dict(zip(LIVES, pool.map(lambda kind: case(kind, 0, False), LIVES), strict=True))
        # The longest lives first.
        cases = [
            (kind, last, effect)
            for kind in sorted(LIVES, key=lambda kind: -expected[kind].writes)
            for last in range(1, expected[kind].writes + 1)
            for effect in (False, True)
        ]
        found = list(pool.map(lambda one: case(*one), cases))
    for (kind, last, effect), outcome in zip(cases, found, strict=True):
        where = f"{kind}, killed {'after' if effect else 'before'} write {last}"
        wanted = expected[kind]
        assert outcome.jobs == wanted.jobs, where
        assert outcome.pods == wanted.pods, where
        assert outcome.events == wanted.events, where
        assert outcome.conditions == wanted.conditions, where


def lived(operators: Operators, installed: Installation, life: Life, view: View) -> Outcome:
    """A whole life in a namespace of its own; whatever is made has gone with the DLJob."""
    name = view.namespace
    space = Workspace(installed, name)
    space.create()
    model = space.graph("graph")
    with operators.running(view, name=name) as process:
        space.dljob(NAME, model=model, template=template(run_for=""), **life.spec)
        follow(space, life, lambda: bool(view.last) and dead(process))
    if view.last:
        with operators.running(View(name), name=f"{name}-next"):
            follow(space, life, lambda: False)
    outcome = outcome_of(space, len(view.writes))
    space.client.delete(space.dljobs(NAME), propagationPolicy="Foreground")
    waiting.wait_until(lambda: not left(space), f"nothing left of {name}", SECONDS, every_seconds=LOOK_SECONDS)
    space.remove()
    return outcome


def dead(process: BaseProcess) -> bool:
    """Whether it has ended."""
    return not process.is_alive()


def follow(space: Workspace, life: Life, enough: Callable[[], bool]) -> None:
    """Do what kubelets would, until the DLJob stands as it shall, or it is enough."""

    def done() -> bool:
        if enough():
            return True
        status = space.status(NAME)
        if life.phase is Phase.SUCCEEDED and status.get("phase") == Phase.RUNNING:
            end_pods(space, life)
        ready: Json = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {})
        settled = life.phase is Phase.SUCCEEDED or ready.get("status") == "True"
        return bool(status.get("phase") == life.phase and settled)

    waiting.wait_until(done, f"{space.namespace} {life.phase}", SECONDS, every_seconds=LOOK_SECONDS)


def end_pods(space: Workspace, life: Life) -> None:
    """Every pod that runs ends: of the first attempt so many with a failure."""
    pods = space.client.items(space.pods())
    failed = sum(pod["status"].get("phase") == "Failed" for pod in pods)
    wanted = life.spec.get("replicas", 1)
    running = [pod for pod in pods if pod["status"].get("phase") == "Running" and not deleted(pod)]
    # As one: a gang's members end when all have begun.
    if len(running) < wanted:
        return
    for pod in running:
        code = 1 if failed < life.fails else 0
        failed += code
        end_pod(space, pod, code=code)
        if code:
            return


def end_pod(space: Workspace, pod: Json, *, code: int) -> None:
    """Its container ends."""
    ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
    container = {**pod["status"]["containerStatuses"][0], "ready": False, "state": {"terminated": ended}}
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
    space.client.patch(f"{space.pods(pod['metadata']['name'])}/status", {"status": status})


def outcome_of(space: Workspace, writes: int) -> Outcome:
    """What is there now."""
    pods = [pod for pod in space.client.items(space.pods()) if not deleted(pod)]
    status = space.status(NAME)
    return Outcome(
        writes=writes,
        jobs=tuple(sorted(str(job["metadata"]["name"]) for job in space.client.items(space.jobs()))),
        pods=Counter((attempt_of(pod), pod["status"]["phase"]) for pod in pods),
        events=Counter(
            f"{event['reason']} {event.get('count', 1)}"
            for event in space.events()
            if event["involvedObject"]["kind"] == "DLJob"
        ),
        conditions={one["type"]: (one["status"], one["reason"]) for one in status["conditions"]},
    )


def attempt_of(pod: Json) -> str:
    """As its label says."""
    return str(pod["metadata"]["labels"].get(names.ATTEMPT_LABEL, ""))


def deleted(item: Json) -> bool:
    """Whether it is on its way out."""
    return "deletionTimestamp" in item["metadata"]


def left(space: Workspace) -> bool:
    """Whether anything is there that a DLJob owned."""
    paths = (space.dljobs(), space.jobs(), space.deployments(), space.pods())
    return any(space.client.items(path) for path in paths)
