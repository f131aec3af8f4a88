"""Nothing waits for events: an API server that takes and gives none holds up no status, no deadline and no rollout."""

import asyncio

import pytest

from cotenant_operator import labels
from cotenant_operator.kube import api
from cotenant_operator.loop import events
from cotenant_operator.plans import actions
from cotenant_operator.state.views import Key
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

EVENT = actions.EmitEvent(uid="u", type="Normal", reason="Created", message="created", identity="i")


def refuse_events(cluster: Cluster, status: int) -> None:
    """The API server answers every request about events so; 0: not at all."""

    def fault(request: api.Request) -> Fault | None:
        return Fault(effect=False, status=status) if request.path.endswith("/events") else None

    cluster.server.fault = fault


def take_events(cluster: Cluster) -> None:
    """The API server takes events again."""
    cluster.server.fault = lambda _: None


@pytest.fixture(params=[0, 403, 429, 500, 504])
def deaf(cluster: Cluster, request: pytest.FixtureRequest) -> Cluster:
    """A cluster that takes and gives no events."""
    refuse_events(cluster, request.param)
    return cluster


async def test_a_status_is_written(deaf: Cluster) -> None:
    deaf.apply(objects.dljob())
    await deaf.run("create_pods", "place", "run_pods")
    assert deaf.dljob()["status"]["phase"] == "Running"


async def test_a_deadline_is_kept(deaf: Cluster) -> None:
    deaf.apply(objects.dljob(activeDeadlineSeconds=100))
    await deaf.run("create_pods", "place", "run_pods")
    await deaf.advance(101)
    await deaf.run("enforce_deadlines", "reap")
    await deaf.advance(60)
    assert deaf.condition("Failed")["reason"] == "DeadlineExceeded"


async def test_a_gang_of_which_pods_are_missing_is_suspended(deaf: Cluster) -> None:
    deaf.apply(objects.dljob(replicas=2))
    await deaf.run("create_pods")
    deaf.server.delete("pods", deaf.server.all("pods")[0]["metadata"]["name"])
    await deaf.advance(60)
    asked = [request for request in deaf.server.requests if request.method == "GET" and "/events" in request.path]
    deaf.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=True))
    await deaf.settle()
    assert len(asked) == 1
    assert deaf.attempts()[0]["spec"]["suspend"]
    assert deaf.dljob()["status"]["phase"] == "Suspended"


async def test_a_service_is_rolled(deaf: Cluster) -> None:
    deaf.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await deaf.run("create_pods", "place", "run_pods", "fault_of_unknown_cause")
    await deaf.advance(60)
    rolled = deaf.server.find("deployments", "serve")
    assert rolled is not None
    assert labels.SUSPICION in rolled["metadata"]["annotations"]


async def test_what_was_not_taken_is_told_later_and_in_order(cluster: Cluster) -> None:
    refuse_events(cluster, 500)
    cluster.apply(objects.dljob(activeDeadlineSeconds=10))
    await cluster.run("create_pods", "place", "run_pods")
    take_events(cluster)
    await cluster.advance(events.RETRY_SECONDS)
    await cluster.run("enforce_deadlines", "reap")
    assert cluster.events() == ["Created", "DeadlineExceeded"]


async def test_what_is_never_taken_is_given_up(cluster: Cluster) -> None:
    refuse_events(cluster, 500)
    cluster.apply(objects.dljob())
    await cluster.settle()
    for _ in range(events.TRIES):
        await cluster.advance(events.RETRY_SECONDS)
    before = len(cluster.server.requests)
    await cluster.advance(10 * events.RETRY_SECONDS)
    assert not [request for request in cluster.server.requests[before:] if request.path.endswith("/events")]


async def test_an_api_server_that_does_not_answer_is_waited_for_once_for_all() -> None:
    asked: list[Key] = []

    async def hang(key: Key, _: actions.EmitEvent) -> None:
        asked.append(key)
        await asyncio.Event().wait()

    time = 100.0
    sender = events.Events(hang, monotonic=lambda: time)
    keys = [Key("team", str(number)) for number in range(100)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(events, "SECONDS", 0.0)
        for key in keys:
            await sender.send(key, EVENT)
        assert asked == keys[:1]
        time += events.RETRY_SECONDS
        await sender.send_again(keys[1])
    assert asked == keys[:2]
