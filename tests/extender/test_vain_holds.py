"""GPUs are not held for a job that can start nowhere, nor for long for one that does not start on them."""

from typing import Any

import pytest

from cotenant_api.names import Namespace, NodeName
from cotenant_extender import records
from cotenant_extender.ledger import drift, ledger
from cotenant_extender.queue import holds, vain
from extender import builders, queueing
from extender.builders import NOW
from extender.queueing import held, lifted, told, words

Object = dict[str, Any]
HOURS, LOOK_SECONDS = 3600.0, 10.0


def asking(raw: Object, **requests: str) -> Object:
    """The pod, requesting this of its node, too."""
    raw["spec"]["containers"][0]["resources"].setdefault("requests", {}).update(requests)
    return raw


def beside(name: str, node: str = "n0", **changes: Any) -> Object:
    """A pod without a share that runs on a node; by default it never ends."""
    changes = {"restartPolicy": "Always"} | changes
    return builders.pod(name, 0, node=node, phase="Running", gates=(), **changes)


def of(raw: Object, kind: str) -> Object:
    """The pod of a controller of this kind."""
    raw["metadata"]["ownerReferences"] = [{"kind": kind, "controller": True}]
    return raw


def cluster(*, nodes: int = 1, gpus: int = 2, allocatable: Object | None = None) -> ledger.Ledger:
    """Nodes with 64 CPUs and 256 GiB."""
    source = builders.cluster(nodes=0, queue={"maxWaitSeconds": 60, "scaleUpAfterSeconds": 86400})
    for number in range(nodes):
        builders.add_node(source, f"n{number}", gpus=gpus)
        source.node(records.node_record(builders.node(f"n{number}", gpus=gpus, allocatable=allocatable or {})))
    return source


def passes(source: ledger.Ledger, *, since: float, seconds: float) -> list[str]:
    """Look at the queue every ten seconds, for so long; names of pods that were earmarked."""
    made, now = [], since
    while now <= since + seconds:
        for name in source.order:
            source.lease(NodeName(name), now, now=now)
        made += lifted(source, now=now)
        now += LOOK_SECONDS
    return made


def greedy(name: str = "greedy", share: int = 200, *, cpu: str = "64", **changes: Any) -> Object:
    """A job that requests all CPUs of a node, and has waited too long."""
    return asking(builders.pod(name, share, created=NOW - 100, **changes), cpu=cpu)


LASTING = [
    beside("d"),
    of(beside("d", restartPolicy="Never"), "DaemonSet"),
    of(beside("d", restartPolicy="Never"), "Node"),
]


@pytest.mark.parametrize("lasting", LASTING, ids=["restarted", "daemon", "mirror"])
@pytest.mark.parametrize(
    ("requests", "allocatable", "lacks"),
    [
        ({"cpu": "64"}, {}, "it requests 64 CPUs, and no node that it may use has more than 63.9 CPUs"),
        (
            {"memory": "256Gi"},
            {},
            "it requests 262144 MiB of memory, and no node that it may use has more than 262080 MiB",
        ),
        ({}, {"pods": "1"}, "no node that it may use takes another pod"),
    ],
    ids=["cpu", "memory", "pods"],
)
def test_nothing_is_held_where_pods_that_never_end_leave_too_little(
    lasting: Object, requests: dict[str, str], allocatable: dict[str, str], lacks: str
) -> None:
    """Its GPUs were held for ever, and expected to be used at once."""
    source = cluster(allocatable=allocatable)
    builders.put(source, lasting, asking(builders.pod("never", 200, created=NOW - 100), **requests))
    _, message = told(source, "never")
    assert held(source) == []
    remedy = "request less of it, or move such pods to other nodes"
    assert f"no GPU is held for it, as {lacks} beside pods that never end: {remedy}" in message
    assert drift.differences(source) == []


def test_what_a_job_requests_together_no_node_has() -> None:
    source = cluster(nodes=2)
    builders.put(source, asking(beside("d0"), cpu="10"), asking(beside("d1", "n1"), memory="100Gi"))
    builders.put(source, asking(builders.pod("never", 50, created=NOW - 100), cpu="60", memory="200Gi"))
    _, message = told(source, "never")
    assert held(source) == []
    assert "no node that it may use has 60 CPUs, 204800 MiB of memory and room for a pod at once" in message


@pytest.mark.parametrize(
    "other",
    [
        beside("o", restartPolicy="Never"),
        of(beside("o", restartPolicy="OnFailure"), "Job"),
        beside("o", activeDeadlineSeconds=10),
        beside("o", deleting=True),
    ],
    ids=["ends", "job", "deadline", "deleted"],
)
def test_gpus_are_held_where_what_is_missing_may_leave(other: Object) -> None:
    source = cluster()
    builders.put(source, other, greedy())
    assert lifted(source) == []
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]


def test_a_pod_that_is_deleted_leaves_and_one_that_comes_lasts() -> None:
    source = cluster()
    builders.put(source, beside("d"), greedy())
    assert lifted(source) == []
    assert held(source) == []
    builders.put(source, beside("d", deleting=True, version=2))
    now = NOW + holds.HOPELESS_SECONDS + 1
    passes(source, since=now, seconds=0)
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]
    builders.put(source, beside("e"))
    passes(source, since=now + 1, seconds=0)
    assert held(source) == []
    assert drift.differences(source) == []


def test_gpus_of_a_node_that_has_enough_beside_them_are_held() -> None:
    source = cluster(nodes=2)
    builders.put(source, beside("d"), builders.bound("t", 100, "n1", "GPU-n1-0"), greedy())
    assert lifted(source) == []
    assert held(source) == ["GPU-n1-0", "GPU-n1-1"]


def test_a_gang_that_can_start_nowhere_leaves_the_cluster_to_others() -> None:
    """All 32 GPUs were empty for 48 hours."""
    source, gang = cluster(nodes=4, gpus=8), builders.gang("g", 4)
    builders.put(source, *(beside(f"d{number}", f"n{number}") for number in range(4)))
    builders.put(source, *(greedy(f"m{number}", 800, annotations=gang) for number in range(4)))
    builders.put(source, builders.pod("small", 10))
    assert lifted(source) == ["small"]
    assert held(source) == []


def test_a_gang_whose_pods_do_not_fit_together_is_told_so() -> None:
    source, gang = cluster(), builders.gang("g", 2)
    builders.put(source, beside("d"), *(greedy(f"m{number}", 50, cpu="32", annotations=gang) for number in range(2)))
    _, message = told(source, "m0")
    assert held(source) == []
    assert "as nodes never have enough for all 2 pods at once beside pods that never end" in message


def test_the_next_job_that_waits_too_long_has_its_turn() -> None:
    """One job that could start nowhere had the only hold: another was passed by 288 smaller ones in 24 hours."""
    source = cluster(nodes=2, gpus=1)
    builders.put(source, beside("d"), beside("e", "n1"), greedy(share=100))
    builders.put(source, builders.bound("s", 40, "n1", "GPU-n1-0"), builders.bound("r", 40, "n0", "GPU-n0-0"))
    builders.put(source, builders.pod("big", 100, created=NOW - 90))
    assert lifted(source) == []
    assert [hold.holders for hold in source.holds] == [{"uid-big"}]


def in_vain(*, nodes: int = 1) -> ledger.Ledger:
    """GPUs are held for a job beside a pod without a share, which may end and has 100m of each node."""
    source = cluster(nodes=nodes)
    builders.put(source, *(beside(f"o{n}", f"n{n}", restartPolicy="Never") for n in range(nodes)))
    builders.put(source, greedy())
    assert lifted(source) == []
    return source


def test_a_hold_is_given_up_when_its_job_waits_for_nobody_and_does_not_start() -> None:
    """Two GPUs were empty for ten days, while 40 small jobs waited."""
    source = in_vain()
    builders.put(source, builders.pod("small", 10))
    assert passes(source, since=NOW, seconds=vain.IDLE_SECONDS - 20) == []
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]
    assert passes(source, since=NOW + vain.IDLE_SECONDS, seconds=30) == ["small"]
    assert held(source) == []
    _, message = words(source, "greedy", now=NOW + vain.IDLE_SECONDS + 30)
    assert "no GPU is held for it, as some stood empty for it in vain, until 2027-01-15 08:20 UTC" in message
    assert "look whether pods without a share have the CPU, memory or pods that it needs" in message


def test_the_pause_doubles_up_to_a_day() -> None:
    accounts, kind, now, pauses = vain.Vain(), "kind", NOW, list[float]()
    for _ in range(10):
        accounts.begin(kind, now=now)
        while not accounts.wasted(kind, Namespace("team"), awaits=False, idle=True, now=now):
            now += LOOK_SECONDS
        pauses.append(accounts.give_up(kind, {}, now=now) - now)
        assert accounts.pauses(kind, dict, now=now + pauses[-1] - 1) == now + pauses[-1]
        now += pauses[-1] + 1
        assert accounts.pauses(kind, dict, now=now) is None
    assert pauses[:8] == [vain.PAUSE_SECONDS * 2**times for times in range(8)]
    assert pauses[8:] == [vain.LONGEST_PAUSE_SECONDS] * 2


@pytest.mark.parametrize("size", [1, 2])
def test_another_job_of_the_kind_does_not_begin_anew(size: int) -> None:
    """The jobs of one sweep took turns, each for ten minutes."""
    source = cluster()
    builders.put(source, beside("o", restartPolicy="Never"))
    for number in range(4):
        gang = builders.gang(f"g{number}", size) if size > 1 else {}
        names = [f"g{number}-{index}" for index in range(size)]
        builders.put(source, *(greedy(name, 200 // size, cpu=str(64 // size), annotations=gang) for name in names))
    passes(source, since=NOW, seconds=vain.IDLE_SECONDS + 60)
    assert held(source) == []
    assert passes(source, since=NOW + vain.IDLE_SECONDS + 70, seconds=vain.PAUSE_SECONDS / 2) == []
    assert held(source) == []


def test_jobs_that_differ_in_a_byte_waste_less_each_time() -> None:
    """They would take turns, for ten minutes each, and then the first had its turn again."""
    source = in_vain()
    builders.put(source, *(asking(greedy(f"greedy{number}"), memory=str(10**9 + number)) for number in range(12)))
    now, wasted = NOW, 0.0
    while now < NOW + 4 * HOURS:
        passes(source, since=now, seconds=0)
        wasted += LOOK_SECONDS * bool(held(source))
        now += LOOK_SECONDS
    assert wasted < HOURS


def test_a_node_that_comes_ends_the_pause() -> None:
    source = in_vain()
    passes(source, since=NOW, seconds=vain.IDLE_SECONDS + 30)
    assert held(source) == []
    now = NOW + vain.IDLE_SECONDS + 40
    builders.add_node(source, "n1", gpus=2)
    builders.put(source, beside("e", "n1", restartPolicy="Never"))
    passes(source, since=now, seconds=holds.HOPELESS_SECONDS + 10)
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]


def test_what_others_take_and_give_back_ends_one_pause() -> None:
    """Whoever can put pods on nodes could have GPUs held for ever."""
    source, now, wasted, there = in_vain(nodes=2), NOW, 0.0, False
    while now < NOW + 3 * HOURS:
        if bool(held(source)) is not there:
            there = not there
            large = asking(beside("large", "n1", uid=f"uid-{now}"), cpu="60")
            if there:
                builders.put(source, large)
                uid = records.pod_record(large).uid
            else:
                source.pod_gone(uid)
        passes(source, since=now, seconds=0)
        wasted += LOOK_SECONDS * bool(held(source))
        now += LOOK_SECONDS
    assert wasted < 5.5 * vain.IDLE_SECONDS


def test_a_job_that_is_placed_settles_the_account_of_its_kind() -> None:
    source = in_vain()
    passes(source, since=NOW, seconds=vain.IDLE_SECONDS + 30)
    now = NOW + vain.IDLE_SECONDS + 40
    queueing.end(source, "o0")
    assert passes(source, since=now, seconds=0) == ["greedy"]
    assert queueing.queue(source).reservation._vain._accounts == {}


def test_a_job_that_waits_for_others_keeps_what_is_held() -> None:
    """Held GPUs that stand empty are how a job gets several: until those end for whom it waits."""
    source = cluster()
    builders.put(source, queueing.tenant("t", 100, "GPU-n0-0", 2 * HOURS), builders.pod("pair", 200, created=NOW - 100))
    passes(source, since=NOW, seconds=HOURS)
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]


def test_gpus_do_not_stand_empty_for_ever_for_a_job_that_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vain, "AWAITING_SECONDS", HOURS)
    source = cluster()
    tenant = builders.bound("t", 100, "n0", "GPU-n0-0")
    tenant["status"]["startTime"] = builders.timestamp(NOW - 100 * 24 * HOURS)
    builders.put(source, tenant, builders.pod("pair", 200, created=NOW - 100))
    passes(source, since=NOW, seconds=vain.AWAITING_SECONDS - 60)
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]
    builders.put(source, builders.pod("small", 10, created=NOW + HOURS))
    assert passes(source, since=NOW + HOURS, seconds=120) == ["small"]


def test_a_job_that_waits_for_a_tenant_and_for_a_pod_without_a_share_keeps_no_empty_gpu() -> None:
    """Nobody knows when the latter ends: it does not count that the tenant leaves."""
    source = cluster()
    builders.put(source, beside("o", restartPolicy="Never"), queueing.tenant("t", 100, "GPU-n0-0", HOURS), greedy())
    passes(source, since=NOW, seconds=vain.IDLE_SECONDS - 20)
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]
    passes(source, since=NOW + vain.IDLE_SECONDS, seconds=40)
    assert held(source) == []


def test_time_for_which_nobody_looked_counts_little() -> None:
    source = in_vain()
    passes(source, since=NOW, seconds=100)
    passes(source, since=NOW + 10 * HOURS, seconds=100)
    assert held(source) == ["GPU-n0-0", "GPU-n0-1"]
