"""Jobs that a host port or an anti-affinity keeps away: whose leaving serves them, and when they are tried again."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender import records
from cotenant_extender.ledger import ledger, verdicts
from cotenant_extender.packing import conflicts
from extender import builders
from extender.builders import NOW
from extender.queueing import evicted, held, run

Object = dict[str, Any]

HOST = "kubernetes.io/hostname"
TRAIN: Object = {"matchLabels": {"app": "train"}}


def serving(port: int = 80, share: int = 100, **details: Any) -> Object:
    """The spec of a container with a host port."""
    limits = {names.GPU_SHARE: str(share)} if share else {}
    ports = [{"containerPort": 1, "hostPort": port, **details}]
    return {"containers": [builders.container({"limits": limits}, ports=ports)]}


def apart(selector: Object | None = None, **changes: Any) -> Object:
    """The spec of an anti-affinity, by default against pods with the label app=train on one host."""
    term = {"labelSelector": TRAIN if selector is None else selector, "topologyKey": HOST} | changes
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def full(*, nodes: int = 2) -> ledger.Ledger:
    """Nodes with one GPU, of an extender that answers kube-scheduler."""
    source = builders.cluster(nodes=nodes, gpus=1)
    source.hosts.tries.start()
    return source


def runs(source: ledger.Ledger, name: str, node: str = "n0", share: int = 100, **changes: Any) -> None:
    raw = builders.bound(name, share, node, f"GPU-{node}-0", **changes)
    raw["status"]["startTime"] = builders.timestamp(NOW - 3600)
    builders.put(source, raw)


def refused(source: ledger.Ledger, name: str = "high", *accepted: str, share: int = 100, **changes: Any) -> None:
    """A pod of priority 5 that kube-scheduler tried; it named these nodes."""
    changes = {"priority": 5, **changes}
    builders.put(source, builders.pod(name, share, **changes))
    builders.put(source, builders.pod(name, share, gates=(), version=2, **changes))
    if accepted:
        named = [NodeName(node) for node in accepted]
        verdicts.asked(source, PodUID(f"uid-{name}"), named, left=False, now=NOW)
    builders.put(source, builders.pod(name, share, gates=(), version=3, unschedulable="none", **changes))


def test_who_holds_the_port_leaves_for_a_job_of_higher_priority() -> None:
    source = full()
    runs(source, "other", "n0")
    runs(source, "holder", "n1", **serving())
    refused(source, **serving())
    assert (evicted(source), held(source)) == (["holder"], ["GPU-n1-0"])


def test_who_must_be_apart_leaves_for_a_job_of_higher_priority() -> None:
    source = full()
    runs(source, "other", "n0")
    runs(source, "train", "n1", labels={"app": "train"})
    refused(source, **apart())
    assert evicted(source) == ["train"]


def test_who_wants_to_be_apart_from_the_job_leaves_for_it() -> None:
    source = full()
    runs(source, "other", "n0")
    runs(source, "shy", "n1", **apart())
    refused(source, labels={"app": "train"})
    assert evicted(source) == ["shy"]


def test_all_who_are_in_the_way_leave_and_nobody_leaves_in_vain() -> None:
    source = full()
    runs(source, "one", "n0", 40, labels={"app": "train"})
    runs(source, "two", "n0", 30, labels={"app": "train"})
    runs(source, "beside", "n0", 20)
    refused(source, share=50, **apart())
    assert sorted(evicted(source)) == ["one", "two"]


@pytest.mark.parametrize("changes", [{"priority": 5}, {"annotations": {names.MINIMUM_RUN_SECONDS: "9999"}}])
def test_nobody_leaves_a_node_where_one_who_is_in_the_way_stays(changes: Object) -> None:
    source = full()
    runs(source, "low", "n0", 40)
    runs(source, "holder", "n0", 40, **serving(), **changes)
    refused(source, **serving())
    assert evicted(source) == []


def test_nobody_leaves_a_node_where_a_pod_without_a_share_is_in_the_way() -> None:
    source = full()
    runs(source, "low", "n0", 40)
    builders.put(source, builders.pod("web", 0, node="n0", phase="Running", **serving(share=0)))
    refused(source, **serving())
    assert evicted(source) == []


def test_the_job_is_tried_again_when_who_was_in_the_way_has_gone() -> None:
    source = full(nodes=1)
    runs(source, "holder", "n0", 40, **serving(share=40))
    refused(source, **serving(), priority=0)
    assert run(source).lifts == ()
    source.pod_gone(PodUID("uid-holder"))
    source.gpunode(
        records.gpunode_record(builders.gpunode("n0", gpus=1, version=2)), now=NOW, tells_of=source.graves.doubtful
    )
    assert [lift.record.name for lift in run(source).lifts] == ["high"]


@pytest.mark.parametrize("finished", [True, False])
def test_the_leaving_of_another_pod_changes_nothing(finished: bool) -> None:
    source = full(nodes=1)
    runs(source, "holder", "n0", 10, **serving(share=10))
    runs(source, "other", "n0", 40)
    refused(source, share=50, **serving(share=50), priority=0)
    assert run(source).lifts == ()
    if finished:
        runs(source, "other", "n0", 40, phase="Succeeded", version=2)
    else:
        source.pod_gone(PodUID("uid-other"))
    assert run(source).lifts == ()
    runs(source, "holder", "n0", 10, phase="Succeeded", version=3, **serving(share=10))
    assert [lift.record.name for lift in run(source).lifts] == ["high"]


def test_an_extender_that_does_not_lead_keeps_no_pods_that_have_ended() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    runs(source, "one", "n0", 40)
    runs(source, "two", "n0", 40)
    source.pod_gone(PodUID("uid-one"))
    runs(source, "two", "n0", 40, phase="Succeeded", version=2)
    assert not source.hosts.departures


def member(spec: Object, namespace: str = "team", **labels: str) -> conflicts.Member:
    return conflicts.Member(namespace, labels, conflicts.exclusion(namespace, spec))


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (serving(80), serving(80), True),
        (serving(80), serving(81), False),
        (serving(80), serving(80, protocol="UDP"), False),
        (serving(80, hostIP="10.0.0.1"), serving(80), True),
        (serving(80, hostIP="10.0.0.1"), serving(80, hostIP="10.0.0.2"), False),
        (serving(80, hostIP="10.0.0.1"), serving(80, hostIP="10.0.0.1"), True),
        ({}, serving(80), False),
        ({}, {}, False),
    ],
)
def test_pods_with_the_same_host_port_cannot_be_on_one_node(one: Object, other: Object, conflict: bool) -> None:
    assert conflicts.conflict(member(one), member(other)) is conflict
    assert conflicts.conflict(member(other), member(one)) is conflict


@pytest.mark.parametrize(
    ("spec", "namespace", "conflict"),
    [
        (apart(), "team", True),
        (apart(), "other", False),
        (apart(namespaces=["other"]), "other", True),
        (apart(namespaces=["other"]), "team", False),
        (apart(namespaceSelector={}), "other", True),
        (apart(namespaceSelector={"matchLabels": {"a": "b"}}), "team", False),
        (apart(topologyKey="topology.kubernetes.io/zone"), "team", False),
        (apart({}), "team", True),
        (apart({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["train"]}]}), "team", False),
        (apart({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), "team", True),
    ],
)
def test_pods_that_anti_affinity_keeps_apart_cannot_be_on_one_node(
    spec: Object, namespace: str, conflict: bool
) -> None:
    wanting, there = member(spec), member({}, namespace, app="train")
    assert conflicts.conflict(wanting, there) is conflict
    assert conflicts.conflict(there, wanting) is conflict
