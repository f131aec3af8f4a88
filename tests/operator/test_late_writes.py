"""A write whose reply was lost may arrive at any later time, after any other: it undoes nothing and begins nothing."""

from collections.abc import Callable

import pytest

from cotenant_operator import labels
from cotenant_operator.kube import api
from operator_kit import extractions, objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

CONFLICT, CREATED = 409, 201


def delay(cluster: Cluster, concerns: Callable[[api.Request], bool]) -> None:
    """The next such request gets no answer, and arrives when the test says so."""
    faults = [Fault(effect=False, status=0, late=True)]
    cluster.server.fault = lambda request: faults.pop() if faults and concerns(request) else None


def patches(plural: str, text: str = "") -> Callable[[api.Request], bool]:
    """Whether a request patches an object of a kind, and says something."""
    return lambda request: request.method == "PATCH" and f"/{plural}/" in request.path and text in str(request.body)


def creates(plural: str) -> Callable[[api.Request], bool]:
    """Whether a request creates an object of a kind."""
    return lambda request: request.method == "POST" and request.path.endswith(f"/{plural}")


async def given_up_and_tried_again(cluster: Cluster) -> None:
    """The operator gives a request up that is under way, and sends it once more."""
    await cluster.settle()
    assert len(cluster.server.late) == 1
    await cluster.advance(60)


def suspend(cluster: Cluster, *, wanted: bool) -> None:
    """The user stops the DLJob, or lets it go on."""
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(suspend=wanted))


def suspended(cluster: Cluster) -> list[bool]:
    """Whether each Job is."""
    return [bool(job["spec"].get("suspend")) for job in cluster.attempts()]


async def test_a_suspension_that_arrives_after_the_job_was_resumed_is_refused(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    delay(cluster, patches("jobs", "'suspend': True"))
    suspend(cluster, wanted=True)
    await cluster.deliver()
    await given_up_and_tried_again(cluster)
    assert suspended(cluster) == [True]
    await cluster.run("stop_suspended", "reap")
    suspend(cluster, wanted=False)
    await cluster.settle()
    assert suspended(cluster) == [False]
    assert cluster.server.arrive() == CONFLICT
    assert suspended(cluster) == [False]


async def test_a_resumption_that_arrives_after_the_job_was_suspended_again_is_refused(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    suspend(cluster, wanted=True)
    await cluster.settle()
    delay(cluster, patches("jobs", "'suspend': False"))
    suspend(cluster, wanted=False)
    await given_up_and_tried_again(cluster)
    suspend(cluster, wanted=True)
    await cluster.settle()
    assert suspended(cluster) == [True]
    assert cluster.server.arrive() == CONFLICT
    assert suspended(cluster) == [True]


async def test_a_resumption_that_was_taken_back_before_it_was_sent_again_is_refused(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    await cluster.settle()
    suspend(cluster, wanted=True)
    await cluster.settle()
    delay(cluster, patches("jobs", "'suspend': False"))
    suspend(cluster, wanted=False)
    await given_up(cluster)
    suspend(cluster, wanted=True)
    await cluster.advance(60)
    assert cluster.server.arrive() == CONFLICT
    assert suspended(cluster) == [True]


async def given_up(cluster: Cluster) -> None:
    """The operator gives a request up that is under way, and has not looked again."""
    while not cluster.server.late:
        await cluster.deliver()
        await cluster.step()


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_suspension_that_was_taken_back_before_it_was_sent_again_is_refused(
    cluster: Cluster, *, restarts: bool
) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    delay(cluster, patches("jobs", "'suspend': True"))
    suspend(cluster, wanted=True)
    await given_up(cluster)
    suspend(cluster, wanted=False)
    if restarts:
        cluster.restart()
        await cluster.start()
    await cluster.advance(60)
    assert cluster.server.arrive() == CONFLICT
    assert suspended(cluster) == [False]


async def test_a_deadline_that_was_prolonged_before_it_was_sent_again_is_refused(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(activeDeadlineSeconds=100))
    await cluster.run("create_pods", "place", "run_pods")
    delay(cluster, patches("jobs", "activeDeadlineSeconds"))
    cluster.time.seconds += 101
    await given_up(cluster)
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(activeDeadlineSeconds=1_000_000))
    await cluster.advance(60)
    assert cluster.server.arrive() == CONFLICT
    await cluster.run("enforce_deadlines", "reap")
    assert not cluster.condition("Failed")


async def test_a_template_that_was_taken_back_before_it_was_sent_again_is_refused(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run("create_pods", "place", "run_pods")
    before = cluster.server.find("deployments", "serve")
    delay(cluster, patches("deployments"))
    edit(cluster, batchSize=7)
    await given_up(cluster)
    cluster.server.change("dljobs", "serve", lambda value: value["spec"].pop("batchSize"))
    await cluster.advance(60)
    assert cluster.server.arrive() == CONFLICT
    await cluster.settle()
    assert before is not None
    assert (cluster.server.find("deployments", "serve") or {})["spec"] == before["spec"]


async def test_the_creation_of_a_deployment_that_arrives_after_it_was_rolled_does_nothing(cluster: Cluster) -> None:
    delay(cluster, creates("deployments"))
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await given_up_and_tried_again(cluster)
    await cluster.run("create_pods", "place", "run_pods", "fault_of_unknown_cause")
    rolled = cluster.server.find("deployments", "serve")
    assert rolled is not None
    assert labels.SUSPICION in rolled["metadata"]["annotations"]
    assert cluster.server.arrive() == CONFLICT
    assert cluster.server.find("deployments", "serve") == rolled


async def test_a_workload_that_runs_is_fenced_once_by_each_process(cluster: Cluster) -> None:
    cluster.apply(objects.dljob())
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=1))
    await cluster.run("create_pods", "place", "run_pods")
    assert not fenced(cluster)
    for _ in range(2):
        cluster.restart()
        await cluster.start()
        before = len(cluster.server.requests)
        await cluster.advance(60)
        assert len(fenced(cluster)) == 2
        sent = [request.path for request in cluster.server.requests[before:] if labels.FENCE in str(request.body)]
        assert sorted(path.rpartition("/")[2] for path in sent) == ["serve", "train-1"]


@pytest.mark.parametrize(("status", "fences"), [(429, 0), (500, 1), (0, 1)])
async def test_only_a_patch_that_may_have_been_carried_out_is_fenced(
    cluster: Cluster, status: int, fences: int
) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods", "place", "run_pods")
    faults = [Fault(effect=False, status=status)]
    concerns = patches("jobs", "'suspend': True")
    cluster.server.fault = lambda request: faults.pop() if faults and concerns(request) else None
    suspend(cluster, wanted=True)
    await cluster.settle()
    await cluster.advance(60)
    assert suspended(cluster) == [True]
    assert len(fenced(cluster)) == fences


@pytest.mark.parametrize("status", [403, 422])
async def test_while_a_fence_is_refused_the_status_is_written_and_nothing_else_is_done(
    cluster: Cluster, status: int
) -> None:
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    cluster.restart()
    concerns = patches("jobs")
    cluster.server.fault = lambda request: Fault(effect=False, status=status) if concerns(request) else None
    await cluster.start()
    await cluster.run("place", "run_pods")
    assert cluster.dljob()["status"]["phase"] == "Running"
    suspend(cluster, wanted=True)
    for _ in range(5):
        await cluster.advance(60)
    assert suspended(cluster) == [False]
    assert cluster.condition("Stalled")["reason"] == "ReconcileError"
    cluster.server.fault = lambda _: None
    await cluster.advance(400)
    assert suspended(cluster) == [True]


def fenced(cluster: Cluster) -> list[str]:
    """The workloads that bear a fence."""
    workloads = [*cluster.server.all("jobs"), *cluster.server.all("deployments")]
    return [each["metadata"]["name"] for each in workloads if labels.FENCE in each["metadata"]["annotations"]]


async def test_a_status_that_arrives_late_is_refused(cluster: Cluster) -> None:
    delay(cluster, patches("dljobs"))
    cluster.apply(objects.dljob())
    await given_up_and_tried_again(cluster)
    await cluster.run("create_pods", "place", "run_pods")
    before = cluster.dljob()
    assert cluster.server.arrive() == CONFLICT
    assert cluster.dljob() == before


async def test_the_creation_of_an_attempt_that_arrives_after_it_was_pruned_starts_nothing(cluster: Cluster) -> None:
    delay(cluster, creates("jobs"))
    cluster.apply(objects.dljob("gang", replicas=2, backoffLimit=9))
    await given_up_and_tried_again(cluster)
    for _ in range(4):
        await cluster.run("create_pods", "place", "run_pods", "fail")
        await cluster.advance(400)
    names = [job["metadata"]["name"] for job in cluster.attempts()]
    assert "gang-1" not in names
    assert cluster.server.arrive() == CREATED
    await cluster.settle()
    assert [job["metadata"]["name"] for job in cluster.attempts()] == names


async def test_the_creation_of_an_attempt_that_arrives_after_the_end_starts_nothing(cluster: Cluster) -> None:
    delay(cluster, creates("jobs"))
    cluster.apply(objects.dljob())
    await given_up_and_tried_again(cluster)
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    assert cluster.condition("Complete")["status"] == "True"
    cluster.server.delete("jobs", "train-1")
    await cluster.settle()
    assert cluster.server.arrive() == CREATED
    await cluster.settle()
    assert cluster.attempts() == []


async def test_a_template_that_arrives_after_a_newer_one_is_refused(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=2))
    await cluster.run("create_pods", "place", "run_pods")
    delay(cluster, patches("deployments", "'replicas': 3"))
    edit(cluster, replicas=3)
    await given_up_and_tried_again(cluster)
    edit(cluster, replicas=5)
    await cluster.advance(60)
    assert [found["spec"]["replicas"] for found in cluster.server.all("deployments")] == [5]
    assert cluster.server.arrive() == CONFLICT
    assert [found["spec"]["replicas"] for found in cluster.server.all("deployments")] == [5]


def edit(cluster: Cluster, **spec: int) -> None:
    """The user changes the DLJob."""
    cluster.server.change("dljobs", "serve", lambda value: value["spec"].update(spec))


@pytest.mark.parametrize("seconds", [0, 3600])
async def test_an_event_that_arrives_late_is_not_told_again(cluster: Cluster, seconds: int) -> None:
    delay(cluster, creates("events"))
    cluster.apply(objects.dljob())
    await given_up_and_tried_again(cluster)
    cluster.time.seconds += seconds
    assert cluster.server.arrive() == CONFLICT
    assert cluster.events() == ["Created"]


async def test_a_deletion_that_arrives_after_its_time_was_put_off_is_refused(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(ttlSecondsAfterFinished=100))
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    delay(cluster, lambda request: request.method == "DELETE" and "/dljobs/" in request.path)
    await cluster.advance(200)
    assert len(cluster.server.late) == 1
    cluster.server.change("dljobs", "train", lambda value: value["spec"].update(ttlSecondsAfterFinished=10_000))
    assert cluster.server.arrive() == CONFLICT
    await cluster.settle()
    assert cluster.dljob()


def deletes(plural: str) -> Callable[[api.Request], bool]:
    """Whether a request deletes an object of a kind."""
    return lambda request: request.method == "DELETE" and f"/{plural}/" in request.path


async def test_the_deletion_of_a_result_that_arrives_after_its_extraction_was_wanted_again_is_refused(
    cluster: Cluster,
) -> None:
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    cluster.apply(extractions.dljob())
    await cluster.settle()
    delay(cluster, deletes("configmaps"))

    def asks(callable_: str) -> None:
        model = {"entrypoint": {"callable": callable_, "args": {"depth": "50"}}}
        cluster.server.change("dljobs", "train", lambda value: value["spec"].update(model=model))

    asks("models:other")
    await cluster.deliver()
    while not cluster.server.late:
        await cluster.step()
        await cluster.deliver()
    asks("models:build")
    await cluster.settle()
    await cluster.advance(60)
    extractions.start(cluster)
    assert cluster.server.arrive() == CONFLICT
    extractions.write(cluster)
    extractions.succeed(cluster)
    await cluster.advance(60)
    assert len(cluster.attempts()) == 1


async def test_an_account_that_arrives_when_its_job_is_gone_is_in_the_way_until_it_is_collected(
    cluster: Cluster,
) -> None:
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    cluster.apply(extractions.dljob())
    await cluster.deliver()
    delay(cluster, creates("serviceaccounts"))
    while not cluster.server.late:
        await cluster.step()
        await cluster.deliver()
    (job,) = extractions.jobs(cluster)
    cluster.server.delete("jobs", job["metadata"]["name"])
    assert cluster.server.arrive() == CREATED
    await cluster.settle()
    await cluster.advance(60)
    assert [each["spec"]["suspend"] for each in extractions.jobs(cluster)] == [True]
    cluster.server.collect()
    await cluster.advance(400)
    assert [each["spec"]["suspend"] for each in extractions.jobs(cluster)] == [False]
