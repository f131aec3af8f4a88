"""That a workload was made is told once, also where the operator was killed between the creation and its event."""

from collections.abc import Callable

import pytest

from cotenant_operator.kube import api
from operator_kit import objects
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
    assert [request.path for request in cluster.server.requests if request.method != "GET"] == []
