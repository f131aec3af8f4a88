"""What is kept beside held GPUs: CPU, memory and pods of their nodes, and the GPUs that count for a namespace."""

import random
from typing import Any

import pytest

from cotenant_api import names, rootless
from cotenant_api.names import NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records, verbs
from cotenant_extender.ledger import ledger
from extender import builders, queueing
from extender.builders import NOW
from extender.streams import Job, Stream

HOURS = 3600.0


def asks(share: int, *, cpu: str = "100m", memory: str = "64Mi") -> dict[str, Any]:
    """The containers of a pod that requests so much of its node."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {names.GPU_SHARE: str(share)}}
    return {"containers": [{"name": "main", "resources": resources, "securityContext": rootless.PROVEN}]}


def cluster(*, nodes: int = 1, pods: int = 110, **spec: Any) -> ledger.Ledger:
    """Nodes with two GPUs, 64 CPUs and 256 GiB."""
    source = builders.cluster(nodes=0, queue={"maxWaitSeconds": 60, "scaleUpAfterSeconds": 86400}, **spec)
    for index in range(nodes):
        builders.add_node(source, f"n{index}", gpus=2)
        raw = builders.node(f"n{index}", gpus=2, allocatable={"pods": str(pods)})
        source.node(records.node_record(raw))
    return source


def small_jobs(share: int, *, every: float, seed: int = 1, **fields: Any) -> list[Job]:
    """Jobs that come for two hours, and run for 100 to 200 seconds each."""
    chance = random.Random(seed)  # noqa: S311 - a history that is the same each time
    count = int(2 * HOURS / every)
    return [
        Job(f"small{index}", share, every * index, chance.uniform(100, 200), dict(fields)) for index in range(count)
    ]


@pytest.mark.parametrize(
    ("each", "large", "pods"),
    [
        (asks(20, cpu="16"), asks(100, cpu="60"), 110),
        (asks(20, memory="64Gi"), asks(100, memory="200Gi"), 110),
        (asks(20), asks(100), 2),
    ],
    ids=["cpu", "memory", "pods"],
)
@pytest.mark.parametrize("deadline", [None, 200])
def test_what_a_job_needs_of_a_node_is_kept_beside_its_gpu(
    each: dict[str, Any], large: dict[str, Any], pods: int, deadline: int | None
) -> None:
    """It was never placed: jobs on the node's other GPU took what others gave back."""
    stream = Stream(cluster(pods=pods))
    ends = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    jobs = [*small_jobs(20, every=25, **each, **ends), Job("large", 100, 60, 100, large)]
    stream.run(jobs, seconds=2 * HOURS, until="large")
    assert stream.waited["large"] <= 60 + 2 * 200 + 10


def test_it_is_kept_on_each_node_of_a_gang() -> None:
    stream = Stream(cluster(nodes=2))
    gang = builders.gang("g", 2)
    pair = [Job(f"large{index}", 100, 100, 100, asks(100, cpu="60") | {"annotations": gang}) for index in range(2)]
    stream.run([*small_jobs(20, every=11, **asks(20, cpu="16")), *pair], seconds=2 * HOURS, until="large1")
    assert max(stream.waited["large0"], stream.waited["large1"]) <= 60 + 2 * 200 + 10


def waiting_for_cpu(**changes: Any) -> ledger.Ledger:
    """A job of 40 CPUs waits for the 30 that `t` has on GPU 0 for 600 seconds; GPU 1 is empty, and held for it."""
    source = cluster()
    first = queueing.tenant("t", 100, "GPU-n0-0", 600, **asks(100, cpu="30"))
    builders.put(source, first, builders.pod("old", 100, created=NOW - 61, **asks(100, cpu="40")))
    assert queueing.lifted(source) == []
    builders.put(source, builders.pod("newer", 30, **{**asks(30, cpu="1"), **changes}))
    return source


def test_a_newer_job_takes_none_of_the_cpu_that_is_free_for_it() -> None:
    source = waiting_for_cpu()
    queueing.end(source, "t")
    assert queueing.lifted(source, now=NOW + 1) == ["old", "newer"]


def test_who_ends_before_the_job_is_expected_to_start_may_use_what_is_kept() -> None:
    source = waiting_for_cpu(activeDeadlineSeconds=100)
    assert queueing.lifted(source, now=NOW + 1) == ["newer"]
    builders.put(source, builders.pod("endless", 30, **asks(30, cpu="1")))
    assert queueing.lifted(source, now=NOW + 2) == []


def test_a_newer_job_uses_what_the_job_does_not_need() -> None:
    source = cluster()
    first = queueing.tenant("t", 60, "GPU-n0-0", 600, **asks(60))
    beside = queueing.tenant("u", 60, "GPU-n0-1", 900, **asks(60))
    old = builders.pod("old", 100, created=NOW - 61, **asks(100, cpu="40"))
    builders.put(source, first, beside, old)
    assert queueing.lifted(source) == []
    assert queueing.held(source) == ["GPU-n0-0"]
    builders.put(source, builders.pod("much", 30, **asks(30, cpu="24")))
    reason, message = queueing.told(source, "much", now=NOW + 1)
    assert reason is PackedReason.WAITING_FOR_TURN
    assert "1 is on a node whose free cpu, memory or pods are kept for a job that waits longer" in message
    builders.put(source, builders.pod("little", 30, **asks(30, cpu="20")))
    assert queueing.lifted(source, now=NOW + 2) == ["little"]


def test_a_higher_priority_uses_what_is_kept() -> None:
    source = waiting_for_cpu(priority=5)
    assert queueing.lifted(source, now=NOW + 1) == ["newer"]


def test_nothing_is_kept_of_a_node_whose_cpu_pods_without_a_share_have() -> None:
    """Nobody knows when they end. The GPU is held, and the node's other GPU is used."""
    source = cluster()
    plain = builders.pod(
        "plain", 0, node="n0", phase="Running", containers=[{"resources": {"requests": {"cpu": "30"}}}]
    )
    builders.put(source, plain, builders.pod("old", 100, created=NOW - 61, **asks(100, cpu="40")))
    assert queueing.lifted(source) == []
    assert len(queueing.held(source)) == 1
    builders.put(source, builders.pod("newer", 30, **asks(30, cpu="10")))
    assert queueing.lifted(source, now=NOW + 1) == ["newer"]


def test_what_is_kept_is_told_when_the_pods_without_a_share_have_gone() -> None:
    source = cluster()
    plain = builders.pod(
        "plain", 0, node="n0", phase="Running", containers=[{"resources": {"requests": {"cpu": "30"}}}]
    )
    first = queueing.tenant("t", 100, "GPU-n0-0", 600, **asks(100, cpu="10"))
    builders.put(source, plain, first, builders.pod("old", 100, created=NOW - 61, **asks(100, cpu="60")))
    assert queueing.lifted(source) == []
    assert source.seen().kept == {}
    source.pod_gone(PodUID("uid-plain"))
    assert queueing.lifted(source, now=NOW + 1) == []
    assert list(source.seen().kept) == ["n0"]


def test_the_cpu_that_victims_leave_is_kept_for_the_job_that_evicts_them() -> None:
    source = cluster()
    queueing.runs(source, "low", 100, "GPU-n0-0", **asks(100, cpu="40"))
    queueing.runs(source, "top", 60, "GPU-n0-1", priority=2000, **asks(60, cpu="1"))
    builders.put(source, builders.pod("high", 100, priority=10, **asks(100, cpu="60")))
    assert queueing.evicted(source, now=NOW + 1) == ["low"]
    builders.put(source, builders.pod("equal", 30, priority=10, **asks(30, cpu="20")))
    assert queueing.lifted(source, now=NOW + 2) == []
    queueing.end(source, "low")
    assert queueing.lifted(source, now=NOW + 3) == ["high"]


@pytest.mark.parametrize("limit", [1, 2])
def test_what_is_held_counts_for_the_namespace_of_its_job(limit: int) -> None:
    """The job was never placed: the namespace's own small jobs kept it at its limit."""
    stream = Stream(cluster(nodes=2, maxGPUsPerNamespace=limit))
    jobs = [*small_jobs(40, every=40), Job("large", 100 * limit, 10, 100)]
    stream.run(jobs, seconds=2 * HOURS, until="large")
    assert stream.waited["large"] <= 60 + 2 * 200 + 10


def test_a_namespace_at_its_limit_keeps_no_gpus_from_others_for_long() -> None:
    stream = Stream(cluster(nodes=2, maxGPUsPerNamespace=2))
    others = [Job(f"other{index}", 100, 500 + 200 * index, 150, {"namespace": "others"}) for index in range(30)]
    stream.run([*small_jobs(40, every=40), Job("large", 200, 10, 100), *others], seconds=2 * HOURS)
    assert all(stream.waited[job.name] <= 200 for job in others)
    assert stream.idle <= 2 * 2 * 200


def at_its_limit(**guest: Any) -> ledger.Ledger:
    """Of two GPUs that a namespace may be on, `t` has one for 600 seconds; two others are held for `old`."""
    source = cluster(nodes=2, maxGPUsPerNamespace=2)
    other = {"namespace": "others"}
    builders.put(source, queueing.tenant("t", 60, "GPU-n0-0", 600))
    builders.put(source, queueing.tenant("u", 60, "GPU-n0-1", 6000, **other))
    builders.put(source, builders.pod("old", 200, created=NOW - 61))
    assert queueing.lifted(source) == []
    assert queueing.held(source) == ["GPU-n1-0", "GPU-n1-1"]
    builders.put(source, builders.pod("newer", 30, **guest))
    return source


def test_a_newer_job_of_the_namespace_does_not_keep_it_at_its_limit() -> None:
    source = at_its_limit()
    assert queueing.lifted(source, now=NOW + 1) == []
    reason, message = queueing.words(source, "newer", now=NOW + 1)
    assert reason is PackedReason.WAITING_FOR_TURN
    assert "maxGPUsPerNamespace beside what is held for a job of the namespace that waits longer" in message


def test_a_guest_of_the_namespace_is_let_in_and_bound_where_its_namespace_is() -> None:
    source = at_its_limit(activeDeadlineSeconds=100)
    assert queueing.lifted(source, now=NOW + 1) == ["newer"]
    assert queueing.booked(source)["GPU-n0-0"] == 90
    queueing.lift(source, "newer", activeDeadlineSeconds=100)
    record = source.pods[PodUID("uid-newer")]
    assert verbs.filter_nodes(source, record, [NodeName("n0"), NodeName("n1")]).chosen == ("n0",)


def test_a_newer_job_of_another_namespace_is_not_bounded_by_it() -> None:
    source = at_its_limit(namespace="others")
    assert queueing.lifted(source, now=NOW + 1) == ["newer"]


def test_who_was_refused_for_what_is_held_is_tried_when_nothing_is() -> None:
    source = at_its_limit()
    assert queueing.lifted(source, now=NOW + 1) == []
    source.pod_gone(PodUID("uid-old"))
    assert [*queueing.lifted(source, now=NOW + 2), *queueing.lifted(source, now=NOW + 2)] == ["newer"]


@pytest.mark.parametrize(("priority", "after"), [(5, []), (0, ["GPU-n1-0", "GPU-n1-1"])])
def test_gpus_are_not_held_beside_a_limit_that_higher_priorities_use_up(priority: int, after: list[str]) -> None:
    source = at_its_limit()
    second = queueing.tenant("second", 60, "GPU-n0-0", 600, priority=priority)
    queueing.end(source, "t")
    builders.put(source, second, builders.pod("other", 100, namespace="others"))
    lifted = [*queueing.lifted(source, now=NOW + 1), *queueing.lifted(source, now=NOW + 2)]
    assert queueing.held(source) == after
    assert ("other" in lifted) is not bool(after)
