"""A pod that has its GPUs and does not start: what is told, and after which time it gives them back."""

from typing import Any

import pytest

from cotenant_operator import labels
from cotenant_operator.state import carried, starts
from operator_kit import objects
from operator_kit.cluster import Cluster

Json = dict[str, Any]

BACK_OFF = {
    "reason": "ImagePullBackOff",
    "message": 'Back-off pulling image "x/y:1": ErrImagePull: failed to pull and unpack image "x/y:1": not found',
}
WORDS = f"container main: ImagePullBackOff: {BACK_OFF['message']}"


def waiting(cluster: Cluster, state: Json, *, pod: int = 0) -> str:
    """Kubelet's word on the container of a pod that has its GPUs; the pod's name."""
    name: str = cluster.server.all("pods")[pod]["metadata"]["name"]
    said = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": state}}]}
    cluster.server.change("pods", name, lambda value: value["status"].update(said))
    return name


def shown(cluster: Cluster) -> tuple[str, str, str]:
    """Phase, and reason and message of the condition Queued: what `kubectl get` shows."""
    status = cluster.dljob()["status"]
    (queued,) = [item for item in status["conditions"] if item["type"] == "Queued"]
    return status["phase"], queued["reason"], queued["message"]


async def placed(cluster: Cluster, **spec: Any) -> None:
    cluster.apply(objects.dljob(**spec))
    await cluster.run("create_pods", "place")


async def test_a_job_whose_image_cannot_be_pulled_does_not_run(cluster: Cluster) -> None:
    await placed(cluster)
    assert shown(cluster)[:2] == ("Running", "Placed")
    name = waiting(cluster, BACK_OFF)
    await cluster.settle()
    assert shown(cluster) == ("Starting", "PodsNotStarting", f"pod {name} on node {objects.NODE}: {WORDS}")
    ready = next(item for item in cluster.dljob()["status"]["conditions"] if item["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodsNotStarting")
    told = [event for event in cluster.server.all("events") if event["reason"] == "PodsNotStarting"]
    assert [(event["type"], event["message"]) for event in told] == [("Warning", ready["message"])]


async def test_a_job_that_starts_after_all_runs(cluster: Cluster) -> None:
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.settle()
    await cluster.run("run_pods")
    assert shown(cluster)[:2] == ("Running", "Placed")


async def test_of_a_gang_one_member_that_does_not_start_is_named(cluster: Cluster) -> None:
    await placed(cluster, replicas=2)
    await cluster.run("run_pods")
    name = waiting(cluster, BACK_OFF, pod=1)
    await cluster.settle()
    phase, _, message = shown(cluster)
    assert phase == "Starting"
    assert message.startswith(f"pod {name} on node ")


async def test_a_service_with_a_replica_that_is_ready_runs(cluster: Cluster) -> None:
    await placed(cluster, replicas=2, workloadType="Inference")
    waiting(cluster, BACK_OFF, pod=1)
    await cluster.settle()
    assert shown(cluster)[0] == "Starting"
    waiting(cluster, {"reason": "ContainerCreating"}, pod=1)
    await cluster.run("run_pods")
    waiting(cluster, BACK_OFF, pod=1)
    await cluster.settle()
    assert shown(cluster)[0] == "Running"


def seconds_not_started(cluster: Cluster) -> float:
    told = cluster.work.metrics.text().decode().splitlines()
    (line,) = [line for line in told if line.startswith("cotenant_operator_not_started_seconds ")]
    return float(line.rpartition(" ")[2])


async def test_a_metric_says_how_long_one_has_not_started(cluster: Cluster) -> None:
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.settle()
    await cluster.advance(100)
    assert seconds_not_started(cluster) == 100
    await cluster.run("run_pods")
    assert seconds_not_started(cluster) == 0


async def test_without_a_timeout_the_pod_keeps_its_gpus(cluster: Cluster) -> None:
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.advance(7 * 24 * 3600)
    assert cluster.dljob()["status"]["attempts"] == 1
    assert shown(cluster)[0] == "Starting"


@pytest.mark.parametrize("state", [BACK_OFF, {"reason": "ContainerCreating"}], ids=["not pulled", "being created"])
async def test_after_the_timeout_its_gpus_go_to_others_and_the_next_attempt_waits(
    cluster: Cluster, state: Json
) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await placed(cluster, backoffLimit=0)
    waiting(cluster, state)
    await cluster.advance(299)
    assert labels.ENDED not in cluster.attempts()[0]["metadata"]["annotations"]
    await cluster.advance(2)
    await cluster.run("enforce_deadlines")
    ended = carried.end(cluster.attempts()[0]["metadata"]["annotations"][labels.ENDED])
    assert ended is not None
    assert (ended.cause, ended.failures) == (carried.Cause.NEVER_STARTED, 0)
    assert ended.message.endswith("queue.startTimeoutSeconds is 300")
    assert cluster.server.all("pods") == []
    assert shown(cluster)[1] == "RestartBackoff"
    await cluster.advance(10)
    assert len(cluster.attempts()) == 2


async def test_a_pod_that_runs_is_not_ended_by_the_timeout(cluster: Cluster) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await placed(cluster)
    await cluster.run("run_pods")
    await cluster.advance(3600)
    assert (cluster.dljob()["status"]["attempts"], shown(cluster)[0]) == (1, "Running")


async def test_a_pod_that_is_not_placed_is_not_ended_by_the_timeout(cluster: Cluster) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    cluster.apply(objects.dljob())
    await cluster.run("create_pods")
    await cluster.advance(3600)
    assert (cluster.dljob()["status"]["attempts"], shown(cluster)[0]) == (1, "Queued")


NOTHING: Json = {"name": "main", "state": {}}


def status(*containers: Json, phase: str = "Pending", **more: Any) -> Json:
    return {"phase": phase, "containerStatuses": list(containers), **more}


def container(kind: str, **state: Any) -> Json:
    return {"name": "main", "state": {kind: state}}


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_is_about_to_start_is_not_hindered(reason: str) -> None:
    assert starts.hindrance(status(container("waiting", reason=reason))) is None


@pytest.mark.parametrize("reason", ["ErrImagePull", "CreateContainerConfigError", "RunContainerError", "AnyOther"])
def test_any_other_reason_is_told_with_the_last_line_of_its_message(reason: str) -> None:
    said = container("waiting", reason=reason, message='first\nsecret "s" not found\n')
    assert starts.hindrance(status(said)) == f'container main: {reason}: secret "s" not found'


def test_an_init_container_that_fails_again_and_again_is_told_of() -> None:
    init = {"name": "fetch", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    found = status(container("waiting", reason="PodInitializing"), initContainerStatuses=[init])
    assert starts.hindrance(found) == "container fetch: CrashLoopBackOff"


def test_a_pod_that_runs_and_whose_container_ends_again_and_again_is_hindered_by_how_it_ends() -> None:
    last = {"terminated": {"exitCode": 1, "message": "Traceback\nModuleNotFoundError: No module named 'torch'\n"}}
    crashed = {**container("waiting", reason="CrashLoopBackOff"), "lastState": last}
    words = "container main: CrashLoopBackOff: it ends with exit code 1: ModuleNotFoundError: No module named 'torch'"
    assert starts.hindrance(status(crashed, phase="Running")) == words


def test_a_sidecar_that_ends_again_and_again_hinders_nothing_that_runs() -> None:
    sidecar = {"name": "log", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    assert starts.hindrance(status(container("running"), phase="Running", initContainerStatuses=[sidecar])) is None


async def test_a_service_whose_container_ends_again_and_again_says_how(cluster: Cluster) -> None:
    cluster.apply(objects.dljob(workloadType="Inference"))
    await cluster.run("create_pods", "place", "run_pods")
    (pod,) = cluster.server.all("pods")
    last = {"terminated": {"exitCode": 2, "message": "error: no such model"}}
    crashed = {**container("waiting", reason="CrashLoopBackOff"), "lastState": last}
    said = {"containerStatuses": [crashed], "conditions": not_ready(pod)}
    cluster.server.change("pods", pod["metadata"]["name"], lambda value: value["status"].update(said))
    deployment = cluster.server.all("deployments")[0]["metadata"]["name"]
    cluster.server.change("deployments", deployment, lambda value: value["status"].update(availableReplicas=0))
    await cluster.settle()
    phase, reason, message = shown(cluster)
    assert (phase, reason) == ("Starting", "PodsNotStarting")
    assert message.endswith("container main: CrashLoopBackOff: it ends with exit code 2: error: no such model")


def not_ready(pod: Json) -> list[Json]:
    return [item for item in pod["status"]["conditions"] if item["type"] != "Ready"]


@pytest.mark.parametrize("said", [{}, {"phase": "Pending"}, status({"name": "main"}), status(NOTHING)])
def test_a_pod_of_which_kubelet_has_said_nothing_is_idle_and_not_hindered(said: Json) -> None:
    assert starts.hindrance(said) is None
    assert starts.idle({}, said, container="main") == ""


def test_an_init_container_that_runs_is_work_and_its_end_begins_another_stretch() -> None:
    main = container("waiting", reason="PodInitializing")
    before = starts.idle({}, status(main), container="main")
    assert starts.idle({}, status(main, initContainerStatuses=[container("running")]), container="main") is None
    ended = container("terminated", finishedAt="9999-99-99 is what a node may say")
    assert starts.idle({}, status(main, initContainerStatuses=[ended]), container="main") != before


def test_each_restart_of_an_init_container_begins_another_stretch() -> None:
    def crashed(at: str) -> Json:
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
        return {"name": "fetch", "state": state, "lastState": {"terminated": {"finishedAt": at}}}

    found = {
        starts.idle({}, status(initContainerStatuses=[crashed(at)]), container="main")
        for at in ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z")
    }
    assert len(found) == 2


def test_sidecars_and_helpers_are_no_work() -> None:
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "fetch"}]}
    proxy = {"name": "proxy", "state": {"running": {}}}
    helper = {"name": "helper", "state": {"running": {}}}
    main = container("waiting", **BACK_OFF)
    assert starts.idle(spec, status(main, helper, initContainerStatuses=[proxy]), container="main") == ""
    assert starts.idle(spec, status(main, helper, initContainerStatuses=[proxy]), container=None) is None


def test_a_pod_that_has_started_is_not_idle() -> None:
    assert starts.idle({}, status(container("waiting"), phase="Running"), container="main") is None


async def test_a_timeout_that_is_set_later_acts_on_those_that_wait(cluster: Cluster) -> None:
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.advance(3600)
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await cluster.settle()
    assert labels.ENDED in cluster.attempts()[0]["metadata"]["annotations"]


async def test_a_pod_that_has_started_without_a_word_of_the_watch_goes_on(cluster: Cluster) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.settle()
    cluster.run_pods()
    cluster.lose(100)
    await cluster.advance(301)
    assert labels.ENDED not in cluster.attempts()[0]["metadata"]["annotations"]
    assert shown(cluster)[0] == "Running"


async def test_an_operator_that_begins_gives_a_pod_its_whole_time(cluster: Cluster) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.advance(200)
    cluster.restart()
    await cluster.start()
    await cluster.advance(200)
    assert labels.ENDED not in cluster.attempts()[0]["metadata"]["annotations"]
    await cluster.advance(301)
    assert labels.ENDED in cluster.attempts()[0]["metadata"]["annotations"]


async def test_the_metric_goes_on_between_attempts_that_do_not_start(cluster: Cluster) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.settle()
    await cluster.advance(301)
    await cluster.run("enforce_deadlines")
    await cluster.advance(10)
    await cluster.run("create_pods", "place")
    waiting(cluster, BACK_OFF)
    await cluster.settle()
    assert seconds_not_started(cluster) == 311
    await cluster.run("run_pods")
    assert seconds_not_started(cluster) == 0


async def test_a_job_that_is_being_ended_for_not_starting_does_not_run(cluster: Cluster) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await placed(cluster)
    waiting(cluster, BACK_OFF)
    await cluster.settle()
    await cluster.advance(301)
    cluster.server.delete("pods", cluster.server.all("pods")[0]["metadata"]["name"])
    await cluster.settle()
    assert shown(cluster)[0] == "Starting"


async def test_a_member_that_failed_is_not_forgiven_for_another_that_is_late(cluster: Cluster) -> None:
    cluster.set_policy(queue={"startTimeoutSeconds": 300})
    await placed(cluster, replicas=2, backoffLimit=0)
    first = cluster.server.all("pods")[0]["metadata"]["name"]
    waiting(cluster, BACK_OFF, pod=1)
    await cluster.settle()
    ended = [{"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]
    failed = {"phase": "Failed", "containerStatuses": ended}
    cluster.server.change("pods", first, lambda value: value["status"].update(failed))
    await cluster.advance(301)
    assert labels.ENDED not in cluster.attempts()[0]["metadata"]["annotations"]
