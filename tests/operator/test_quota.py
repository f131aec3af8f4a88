"""Quotas: a gang starts whole or not at all, oldest first; missing pods say why. Against a cluster in memory."""

import json
from typing import Any

import pytest

from cotenant_operator import labels
from operator_kit import faults, objects, quotas
from operator_kit.cluster import Cluster
from operator_kit.gangs import SHARE, WHOLE, alive, gang, limit, occupy, queued, set_spec, suspended
from operator_kit.server import Fault

Json = dict[str, Any]


async def test_a_gang_waits_until_its_quota_has_room_for_all_of_it(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    await occupy(cluster)
    cluster.apply(gang())
    await cluster.run("create_pods")
    assert suspended(cluster)
    assert queued(cluster) == ("False", "QuotaExceeded")
    message = cluster.condition("Queued")["message"]
    assert message == f"{SHARE}: 4 pods ask for 400, 300 of 400 are left in ResourceQuota team-gpus"
    assert "QuotaExceeded" in cluster.events()
    await cluster.run("succeed", "count_quota", "create_pods", "place", "run_pods", "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"


async def test_a_gang_that_fits_starts_at_once(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400", pods="10")
    cluster.apply(gang())
    await cluster.settle()
    assert not suspended(cluster)
    await cluster.run("create_pods", "place", "run_pods", "succeed")
    assert cluster.dljob()["status"]["phase"] == "Succeeded"
    assert cluster.events() == ["Created", "NoModel", "Completed"]


async def test_without_a_quota_nothing_is_suspended_and_nothing_more_is_asked(cluster: Cluster) -> None:
    cluster.apply(gang())
    cluster.server.requests.clear()
    await cluster.settle()
    assert not suspended(cluster)
    created = [request for request in cluster.server.requests if request.path.endswith("/jobs")]
    assert [dict(request.body or {})["spec"]["suspend"] for request in created] == [False]
    await cluster.run("create_pods", "place", "run_pods")
    await cluster.advance(3600)
    await cluster.run("succeed")
    assert not [
        request for request in cluster.server.requests if request.path.endswith("/events") and request.method == "GET"
    ]
    assert not [
        request for request in cluster.server.requests if request.method == "PATCH" and "/jobs/" in request.path
    ]


async def test_a_quota_that_does_not_limit_what_the_pods_ask_for_suspends_nothing(cluster: Cluster) -> None:
    cluster.apply(quotas.quota("storage", **{"requests.storage": "10Gi", "services": "1"}), plural="resourcequotas")
    cluster.apply(gang())
    cluster.server.requests.clear()
    await cluster.settle()
    assert not [
        request for request in cluster.server.requests if request.method == "PATCH" and "/jobs/" in request.path
    ]


async def test_defaults_of_a_limit_range_count_as_admission_counts_them(cluster: Cluster) -> None:
    limit(cluster, **{"requests.cpu": "6", "limits.memory": "8Gi"})
    defaults = quotas.limit_range(requests={"cpu": "2"}, limits={"cpu": "4", "memory": "1Gi"})
    cluster.apply(defaults, plural="limitranges")
    cluster.apply(gang())
    await cluster.settle()
    assert suspended(cluster)
    expected = "requests.cpu: 4 pods ask for 8, ResourceQuota team-gpus allows 6 in all: raise it, or ask for less"
    assert cluster.condition("Queued")["message"] == expected
    cluster.server.delete("limitranges", "team-defaults")
    await cluster.advance(31)
    assert not suspended(cluster)


async def test_limit_ranges_are_asked_for_where_a_gang_waits_and_rarely(cluster: Cluster) -> None:
    def asked() -> int:
        return sum(request.path.endswith("/limitranges") for request in cluster.server.requests)

    cluster.apply(gang("free"))
    await cluster.settle()
    assert asked() == 0
    limit(cluster, gpu_share="300")
    for name in ("one", "two", "three"):
        cluster.apply(gang(name))
    cluster.apply(objects.dljob("single", **WHOLE))
    await cluster.settle()
    assert asked() == 1
    await cluster.advance(600)
    assert asked() <= 2


async def test_a_gang_starts_where_limit_ranges_may_not_be_read(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.server.fault = lambda request: Fault(effect=False, status=403) if "limitranges" in request.path else None
    cluster.apply(gang())
    await cluster.settle()
    assert not suspended(cluster)


async def test_a_quota_that_is_too_small_for_ever_says_so(cluster: Cluster) -> None:
    limit(cluster, gpu_share="300")
    cluster.apply(gang())
    await cluster.settle()
    message = cluster.condition("Queued")["message"]
    assert (
        message == f"{SHARE}: 4 pods ask for 400, ResourceQuota team-gpus allows 300 in all: raise it, or ask for less"
    )


@pytest.mark.parametrize("change", ["raised", "deleted"])
async def test_a_gang_goes_on_when_its_quota_is_changed(cluster: Cluster, change: str) -> None:
    limit(cluster, gpu_share="300")
    cluster.apply(gang())
    await cluster.settle()
    if change == "raised":
        quotas.resize(cluster.server, gpu_share="400")
    else:
        cluster.server.delete("resourcequotas", "team-gpus")
    await cluster.settle()
    assert not suspended(cluster)


async def test_the_users_own_suspend_wins(cluster: Cluster) -> None:
    limit(cluster, gpu_share="300")
    cluster.apply(gang())
    await cluster.settle()
    set_spec(cluster, suspend=True)
    await cluster.settle()
    quotas.resize(cluster.server, gpu_share="400")
    await cluster.advance(600)
    assert suspended(cluster)
    assert cluster.dljob()["status"]["phase"] == "Suspended"
    set_spec(cluster, suspend=False)
    await cluster.settle()
    assert not suspended(cluster)


async def test_suspend_of_a_job_that_kueue_manages_is_never_touched(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    value = gang()
    value["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    cluster.apply(value)
    await cluster.advance(600)
    assert suspended(cluster)
    assert queued(cluster) == ("True", "WaitingForAdmission")
    cluster.server.change("jobs", "train-1", lambda job: job["spec"].update(suspend=False))
    quotas.resize(cluster.server, gpu_share="100")
    await cluster.run("create_pods")
    for _ in range(4):
        await cluster.advance(30)
    assert not suspended(cluster)
    assert queued(cluster) == ("False", "QuotaExceeded")


async def test_pods_that_others_took_the_room_of_stop_the_gang_after_a_while(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    # Somebody else's pod comes between, and no watch has told of it.
    stolen(cluster)
    await cluster.run("create_pods")
    assert alive(cluster, "train") == 3
    await cluster.advance(9)
    assert not suspended(cluster)
    await cluster.advance(1)
    assert suspended(cluster)
    assert queued(cluster) == ("False", "QuotaExceeded")
    assert "exceeded quota: team-gpus" in cluster.condition("Queued")["message"]
    await cluster.run("stop_suspended", "count_quota")
    assert alive(cluster, "train") == 0


def stolen(cluster: Cluster) -> None:
    """A pod of nobody's that holds 100."""
    container = {"name": "main", "resources": {"limits": {"cotenant.dev/gpu-share": "100"}}}
    metadata = {"name": "thief", "ownerReferences": [{"uid": "nobody"}]}
    pod = {"metadata": metadata, "spec": {"containers": [container], "nodeName": "n1"}}
    assert quotas.refuse(cluster.server, pod) is None
    cluster.server.put("pods", pod, phase="Running")


def start(cluster: Cluster) -> None:
    """What the Job controller writes when it takes a Job up that was resumed."""
    time = cluster.time.text()
    cluster.server.change("jobs", "train-1", lambda job: job.update(status={"startTime": time}))


def refuse(cluster: Cluster, message: str) -> None:
    """A FailedCreate event of the Job."""
    quotas.tell(cluster.server, cluster.server.find("jobs", "train-1") or {}, message, time=cluster.time.text())


async def refused(cluster: Cluster, times: int) -> list[float]:
    """Let admission refuse every pod of a gang that fits by the numbers; how long it waited before each try."""
    waits = []
    for _ in range(times):
        assert not suspended(cluster)
        start(cluster)
        refuse(cluster, 'Error creating: pods "x" is forbidden: exceeded quota: hidden')
        await cluster.settle()
        while not suspended(cluster):
            await cluster.advance(5)
        cluster.server.change("jobs", "train-1", lambda job: job.update(status={}))
        begun = cluster.time.seconds
        while suspended(cluster):
            await cluster.advance(5)
        waits.append(cluster.time.seconds - begun)
    return waits


async def test_one_refusal_is_one_setback_while_the_job_controller_is_away(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    start(cluster)
    refuse(cluster, 'Error creating: pods "x" is forbidden: exceeded quota: hidden')
    await cluster.advance(10)
    assert suspended(cluster)
    # It writes nothing from here on: neither that the gang is suspended, nor when it starts again.
    for _ in range(60):
        await cluster.advance(10)
    note = cluster.attempts()[0]["metadata"]["annotations"][labels.QUOTA_SETBACK]
    assert (suspended(cluster), json.loads(note)["count"]) == (False, 1)


async def test_time_between_tries_doubles_and_is_bounded_also_across_restarts(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    waits = await refused(cluster, 3)
    cluster.restart()
    await cluster.start()
    waits += await refused(cluster, 3)
    assert waits == [10, 20, 40, 80, 160, 160]


async def test_a_gang_that_was_refused_is_tried_sooner_where_there_is_more_room(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    await refused(cluster, 4)
    start(cluster)
    refuse(cluster, "exceeded quota: hidden")
    await cluster.settle()
    await cluster.advance(10)
    assert suspended(cluster)
    cluster.server.change("jobs", "train-1", lambda job: job.update(status={}))
    quotas.resize(cluster.server, gpu_share="500")
    await cluster.settle()
    assert suspended(cluster)
    await cluster.advance(10)
    assert not suspended(cluster)


async def test_a_gang_that_is_refused_for_what_its_template_does_not_name_waits_as_long(cluster: Cluster) -> None:
    """As where a LimitRange gives containers a request for CPU."""
    cluster.apply(quotas.quota(**{"requests.cpu": "1"}), plural="resourcequotas")
    cluster.apply(gang())
    await cluster.settle()
    assert await refused(cluster, 3) == [10, 20, 40]


async def test_a_single_replica_says_why_its_pod_is_missing_until_it_is_there(cluster: Cluster) -> None:
    limit(cluster, gpu_share="50")
    cluster.apply(objects.dljob(**WHOLE))
    await cluster.run("create_pods")
    assert queued(cluster) == ("True", "Submitted")
    await cluster.advance(10)
    assert queued(cluster) == ("False", "QuotaExceeded")
    assert cluster.condition("Queued")["message"].startswith("pods is forbidden: exceeded quota: team-gpus")
    assert not suspended(cluster)
    quotas.resize(cluster.server, gpu_share="100")
    await cluster.run("create_pods", "place")
    assert queued(cluster) == ("False", "Placed")


async def test_another_refusal_of_pods_is_no_quota_and_stops_no_gang(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    start(cluster)
    refuse(
        cluster,
        'Error creating: pods "train-1-0-" is forbidden: error looking up service account team/trainer: not found',
    )
    await cluster.settle()
    await cluster.advance(10)
    await cluster.advance(300)
    assert not suspended(cluster)
    assert queued(cluster) == ("False", "PodCreationFailed")
    assert "service account team/trainer: not found" in cluster.condition("Queued")["message"]


async def test_it_is_asked_seldom_why_pods_are_missing(cluster: Cluster) -> None:
    limit(cluster, gpu_share="50")
    cluster.apply(objects.dljob(**WHOLE))
    await cluster.run("create_pods")
    cluster.server.requests.clear()
    for _ in range(60):
        await cluster.advance(10)
    asked = [
        request for request in cluster.server.requests if request.path.endswith("/events") and request.method == "GET"
    ]
    assert 10 <= len(asked) <= 21
    assert {request.query["limit"] for request in asked} == {"50"}


async def test_an_old_refusal_says_nothing_about_a_pod_that_failed_since(cluster: Cluster) -> None:
    limit(cluster, gpu_share="50")
    cluster.apply(objects.dljob(**WHOLE))
    await cluster.run("create_pods")
    await cluster.advance(20)
    quotas.resize(cluster.server, gpu_share="100")
    await cluster.run("create_pods", "place", "run_pods", "crash")
    await cluster.advance(60)
    assert queued(cluster)[1] != "QuotaExceeded"


async def test_a_deployment_says_which_of_its_pods_a_quota_refuses(cluster: Cluster) -> None:
    limit(cluster, gpu_share="200")
    cluster.apply(objects.dljob("serve", workloadType="Inference", replicas=3, **WHOLE))
    await cluster.run("create_pods", "place", "run_pods")
    await cluster.advance(10)
    assert queued(cluster, "serve") == ("False", "QuotaExceeded")
    assert cluster.dljob("serve")["status"]["phase"] == "Running"
    quotas.resize(cluster.server, gpu_share="300")
    await cluster.run("create_pods", "place", "run_pods")
    assert queued(cluster, "serve") == ("False", "Placed")


async def test_what_somebody_spoilt_on_a_job_is_no_setback(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    await occupy(cluster)
    cluster.apply(gang())
    await cluster.settle()
    spoilt = {labels.QUOTA_SETBACK: '{"v":1,"count":"many"}'}
    cluster.server.change("jobs", "train-1", lambda job: job["metadata"]["annotations"].update(spoilt))
    await cluster.run("succeed", "count_quota")
    assert not suspended(cluster)


LIFE = ("create_pods", "place", "run_pods", "succeed", "count_quota") * 2


async def live(fault_at: int, fault: Fault) -> int:
    """Two gangs in a quota for one of them, and somebody who takes room; one fault at the n-th write."""
    cluster = Cluster()
    faulty = cluster.server.fault = faults.AtWrite(fault_at, fault)
    cluster.apply(objects.policy(), plural="packingpolicies")
    cluster.apply(objects.gpu_node(), plural="gpunodes")
    limit(cluster, gpu_share="400")
    cluster.apply(gang("first"))
    cluster.time.seconds += 1
    cluster.apply(gang("second"))
    await cluster.start()
    await cluster.settle()
    stolen(cluster)
    await cluster.run("create_pods")
    await cluster.advance(10)
    await cluster.run("stop_suspended")
    cluster.server.delete("pods", "thief")
    await cluster.run("reap", "count_quota")
    for program in LIFE * 2:
        await cluster.advance(40)
        await cluster.run("stop_suspended", program)
        assert not (alive(cluster, "first") and alive(cluster, "second"))
    assert [cluster.dljob(name)["status"]["phase"] for name in ("first", "second")] == ["Succeeded", "Succeeded"]
    return faulty.writes


@pytest.mark.parametrize(
    ("effect", "status"), [(True, -1), (False, -1), (True, 0)], ids=["crash after", "crash before", "lost reply"]
)
async def test_a_fault_at_any_write_loses_no_gang(effect: bool, status: int) -> None:
    total = await live(0, Fault(effect=False, status=-1))
    assert total > 12
    for at in range(1, total + 1):
        await live(at, Fault(effect=effect, status=status))


async def test_a_gang_that_a_quota_keeps_half_started_is_stopped_where_no_event_tells_of_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Job controller's events are limited, and each pod that it makes costs one."""
    monkeypatch.setattr(quotas, "tell", lambda *_, **__: None)
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    stolen(cluster)
    await cluster.run("create_pods", "count_quota")
    await cluster.advance(30)
    assert not suspended(cluster)
    for _ in range(3):
        await cluster.advance(20)
    assert suspended(cluster)
    assert queued(cluster) == ("False", "QuotaExceeded")


async def test_a_refusal_by_a_clock_that_was_ahead_answers_for_none_that_comes_later(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()

    async def refuse_by(ahead: float) -> None:
        cluster.time.skew = ahead
        time = cluster.time.text()
        cluster.time.skew = 0
        started = {"startTime": time, "active": 2}
        cluster.server.change("jobs", "train-1", lambda job: job.setdefault("status", {}).update(started))
        quotas.tell(cluster.server, cluster.attempts()[0], "exceeded quota: hidden", time=time)
        for _ in range(4):
            await cluster.advance(10)

    await refuse_by(600)
    assert suspended(cluster)
    await cluster.run("stop_suspended")
    cluster.server.change("jobs", "train-1", lambda job: job["status"].update(active=0))
    await cluster.advance(20)
    assert not suspended(cluster)
    await refuse_by(0)
    assert suspended(cluster)


async def test_a_setback_at_the_end_of_the_calendar_stops_nobody(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    spoilt = {"v": 1, "at": "9999-12-31T23:59:59+00:00", "count": 1, "left": {}, "message": "x"}
    notes = {labels.QUOTA_SETBACK: json.dumps(spoilt), labels.SUSPEND: "true"}

    def spoil(job: Json) -> None:
        job["spec"]["suspend"] = True
        job["metadata"]["annotations"].update(notes)

    cluster.server.change("jobs", "train-1", spoil)
    await cluster.advance(60)
    assert not suspended(cluster)


async def test_a_refusal_at_the_end_of_the_calendar_is_none(cluster: Cluster) -> None:
    limit(cluster, gpu_share="400")
    cluster.apply(gang())
    await cluster.settle()
    cluster.server.change(
        "jobs", "train-1", lambda job: job.setdefault("status", {}).update(startTime=cluster.time.text())
    )
    quotas.tell(cluster.server, cluster.attempts()[0], "exceeded quota: x", time="9999-12-31T23:59:59Z")
    await cluster.advance(60)
    assert not suspended(cluster)
