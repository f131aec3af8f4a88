"""Work on a DLJob that fails again and again, for no reason that a decision knows. Against a cluster in memory."""

from collections.abc import Callable

from cotenant_api import names
from cotenant_operator.kube import api
from cotenant_operator.loop import controller
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

DENIED = Fault(effect=False, status=403, message="admission webhook changes.example denied the request: no edits")
SECONDS = 60.0
"""The longest pause between two tries."""


def is_a_change(request: api.Request) -> bool:
    return request.method == "PATCH" and request.path.endswith("/jobs/train-1")


async def tries(cluster: Cluster, count: int = 5) -> None:
    for _ in range(count):
        await cluster.advance(SECONDS)


async def cluster_with_a_change(cluster: Cluster, fault: Callable[[api.Request], Fault | None]) -> None:
    """A DLJob that runs and is to be suspended, which somebody else refuses."""
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    cluster.server.fault = fault
    cluster.server.change("dljobs", "train", lambda job: job["spec"].update(suspend=True))
    await cluster.settle()


async def test_what_another_controller_refuses_again_and_again_is_told_in_its_words(cluster: Cluster) -> None:
    await cluster_with_a_change(cluster, lambda request: DENIED if is_a_change(request) else None)
    assert "Stalled" not in [one["type"] for one in cluster.dljob()["status"]["conditions"]]
    await tries(cluster)
    told = cluster.condition("Stalled")
    assert (told["status"], told["reason"]) == ("True", "ReconcileError")
    assert DENIED.message in told["message"]


async def test_a_fault_of_the_operator_is_told_without_what_it_held(cluster: Cluster) -> None:
    def broken(request: api.Request) -> None:
        if is_a_change(request):
            raise ValueError(names.GROUP)

    await cluster_with_a_change(cluster, broken)
    await tries(cluster)
    told = cluster.condition("Stalled")
    assert (told["status"], told["reason"]) == ("True", "ReconcileError")
    assert "a fault of the operator (ValueError)" in told["message"]
    assert names.GROUP not in told["message"]


async def test_it_is_taken_back_when_the_work_goes_well(cluster: Cluster) -> None:
    await cluster_with_a_change(cluster, lambda request: DENIED if is_a_change(request) else None)
    await tries(cluster)
    cluster.server.fault = lambda _: None
    await tries(cluster)
    told = cluster.condition("Stalled")
    assert (told["status"], told["reason"]) == ("False", "Progressing")
    assert cluster.condition("Suspended")["status"] == "True"


async def test_it_is_told_once(cluster: Cluster) -> None:
    await cluster_with_a_change(cluster, lambda request: DENIED if is_a_change(request) else None)
    await tries(cluster)
    before = len([request for request in cluster.server.requests if request.path.endswith("/status")])
    await tries(cluster, 10)
    assert len([request for request in cluster.server.requests if request.path.endswith("/status")]) == before


async def test_it_is_told_with_the_fourth_failure(cluster: Cluster) -> None:
    await cluster_with_a_change(cluster, lambda request: DENIED if is_a_change(request) else None)
    await tries(cluster)
    sent = cluster.server.requests
    told = next(place for place, request in enumerate(sent) if "ReconcileError" in str(request.body))
    assert sum(map(is_a_change, sent[:told])) == controller.TOLD_AFTER


async def test_what_could_not_be_told_is_told_with_the_next_failure(cluster: Cluster) -> None:
    def refuses(request: api.Request) -> Fault | None:
        return DENIED if is_a_change(request) or request.path.endswith("/status") else None

    await cluster_with_a_change(cluster, refuses)
    await tries(cluster)
    cluster.server.fault = lambda request: DENIED if is_a_change(request) else None
    await tries(cluster, 1)
    assert cluster.condition("Stalled")["reason"] == "ReconcileError"


async def test_a_status_that_is_refused_as_well_ends_nothing(cluster: Cluster) -> None:
    def refuses(request: api.Request) -> Fault | None:
        return DENIED if is_a_change(request) or request.path.endswith("/status") else None

    await cluster_with_a_change(cluster, refuses)
    await tries(cluster)
    cluster.server.fault = lambda _: None
    await tries(cluster)
    assert cluster.condition("Suspended")["status"] == "True"


async def test_a_fault_that_hits_the_telling_as_well_ends_nothing(cluster: Cluster) -> None:
    def broken(request: api.Request) -> None:
        if request.method == "PATCH":
            raise ValueError

    await cluster_with_a_change(cluster, broken)
    await tries(cluster)
    cluster.server.fault = lambda _: None
    await tries(cluster)
    assert cluster.condition("Suspended")["status"] == "True"


async def test_conflicts_are_no_failure(cluster: Cluster) -> None:
    conflict = Fault(effect=False, status=409)
    await cluster_with_a_change(cluster, lambda request: conflict if is_a_change(request) else None)
    await tries(cluster, 10)
    assert "Stalled" not in [one["type"] for one in cluster.dljob()["status"]["conditions"]]
