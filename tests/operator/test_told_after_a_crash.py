"""That a workload was made is told once, also where the operator was killed between the creation and its event."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from cotenant_operator.kube import api
from operator_kit import faults, objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

LIVES = (
    pytest.param("jobs", {}, id="training"),
    pytest.param("deployments", {"workloadType": "Inference"}, id="inference"),
)


def crash_once(cluster: Cluster, *, concerns: Callable[[api.Request], bool], effect: bool) -> None:
    """The operator is killed when it first sends such a request, which takes effect or not."""
    faults = [Fault(effect=effect, status=-1)]
    cluster.server.fault = lambda request: faults.pop() if faults and concerns(request) else None


def created(cluster: Cluster) -> list[str]:
    """Messages of the events that tell of a creation."""
    return [event["message"] for event in cluster.server.all("events") if event["reason"] == "Created"]


@pytest.mark.parametrize(("plural", "fields"), LIVES)
async def test_killed_after_the_creation_the_operator_still_tells_of_it(
    cluster: Cluster, plural: str, fields: dict[str, str]
) -> None:
    crash_once(cluster, concerns=lambda request: request.method != "GET" and plural in request.path, effect=True)
    cluster.apply(objects.dljob(**fields))
    await cluster.run("create_pods", "place", "run_pods")
    assert len(created(cluster)) == 1


@pytest.mark.parametrize("effect", [True, False])
@pytest.mark.parametrize(("plural", "fields"), LIVES)
async def test_killed_while_it_tells_the_operator_tells_it_once(
    cluster: Cluster, plural: str, fields: dict[str, str], effect: bool
) -> None:
    crash_once(cluster, concerns=lambda request: request.path.endswith("/events"), effect=effect)
    cluster.apply(objects.dljob(**fields))
    await cluster.run("create_pods", "place", "run_pods")
    assert len(created(cluster)) == 1
    assert len(cluster.server.all(plural)) == 1


async def test_killed_after_the_creation_of_a_second_attempt_the_operator_still_tells_of_both(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("gang", replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    crash_once(
        cluster, concerns=lambda request: request.method == "POST" and request.path.endswith("/jobs"), effect=True
    )
    await cluster.run("fail")
    await cluster.advance(10)
    told = created(cluster)
    assert [message.split(":")[0] for message in told] == ["created Job gang-1", "created Job gang-2"]
    assert cluster.events().count("AttemptFailed") == 1


async def test_an_attempt_that_failed_while_the_operator_was_down_is_told_also_after_the_backoff(
    cluster: Cluster,
) -> None:
    cluster.apply(objects.dljob("gang", replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    cluster.fail()
    cluster.time.seconds += 60
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert cluster.events() == ["Created", "AttemptFailed", "Created"]


async def test_a_restart_after_it_was_told_tells_nothing_again(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.requests.clear()
    cluster.restart()
    await cluster.start()
    await cluster.settle()
    assert [request.path for request in cluster.server.requests if faults.decides_something(request)] == []


async def lived(fields: dict[str, Any], *, fault_at: int, effect: bool, down_seconds: int) -> tuple[int, Counter[str]]:
    """A gang or a single replica that fails once and then succeeds: how many writes there were, and what was told."""
    cluster = Cluster()
    for plural, value in (("packingpolicies", objects.policy()), ("gpunodes", objects.gpu_node())):
        cluster.apply(value, plural=plural)
    cluster.apply(objects.config_map(), plural="configmaps")
    await cluster.start()
    cluster.down_seconds = down_seconds
    faulty = cluster.server.fault = faults.AtWrite(fault_at, Fault(effect=effect, status=-1))
    cluster.apply(objects.dljob("gang", **fields))
    await cluster.run("create_pods", "place", "run_pods", "fail")
    await cluster.advance(20)
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    return faulty.writes, Counter(cluster.events())


@pytest.mark.parametrize("down_seconds", [0, 15, 400])
@pytest.mark.parametrize("effect", [True, False])
async def test_killed_at_any_write_and_away_for_any_time_the_operator_tells_the_same(
    effect: bool, down_seconds: int
) -> None:
    gang = {"replicas": 2}
    writes, expected = await lived(gang, fault_at=0, effect=False, down_seconds=0)
    assert expected == Counter(Created=2, AttemptFailed=1, Completed=1)
    for number in range(1, writes + 1):
        _, found = await lived(gang, fault_at=number, effect=effect, down_seconds=down_seconds)
        assert found == expected, f"killed at write {number}"


async def test_what_is_told_of_an_attempt_is_told_once_whatever_is_known_of_its_end_later(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("gang", replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    told = faults.AtWrite(1, Fault(effect=True, status=-1), counts=lambda request: request.path.endswith("/events"))
    cluster.server.fault = told
    cluster.down_seconds = 400
    cluster.fail()
    await cluster.deliver()
    # While the operator is away, the pods of the attempt are taken away, and with them what they said.
    for pod in cluster.server.all("pods"):
        cluster.server.delete("pods", pod["metadata"]["name"])
    await cluster.step()
    await cluster.settle()
    assert told.writes > 1
    assert cluster.events().count("AttemptFailed") == 1
