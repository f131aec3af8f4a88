"""Pods that end free the nodes that they kept others from, and no number of them makes a pass long."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import names
from cotenant_api.names import NodeName, PodUID
from cotenant_extender.ledger import departures, ledger, tries, verdicts
from cotenant_extender.packing import conflicts, nodeset
from extender import builders
from extender.builders import NOW

Object = dict[str, Any]

ANY, ONE, OTHER = "0.0.0.0", "10.0.0.1", "10.0.0.2"  # noqa: S104 - addresses to compare
PORTS = st.frozensets(
    st.tuples(st.sampled_from(["TCP", "UDP"]), st.sampled_from([ANY, ONE, OTHER]), st.sampled_from([80, 81])),
    max_size=4,
)


@given(one=PORTS, other=PORTS)
def test_two_sets_of_ports_meet_where_any_two_of_their_ports_do(
    one: frozenset[conflicts.Port], other: frozenset[conflicts.Port]
) -> None:
    meet = any((a[0], a[2]) == (b[0], b[2]) and (a[1] == b[1] or ANY in (a[1], b[1])) for a in one for b in other)
    first, second = (conflicts.Member("team", {}, conflicts.Exclusion(found, ())) for found in (one, other))
    assert conflicts.conflict(first, second) is meet


def with_ports(count: int) -> Object:
    """The spec of a container with so many host ports."""
    ports = [{"containerPort": 1, "hostPort": 1 + number} for number in range(count)]
    return {"containers": [builders.container({"limits": {names.GPU_SHARE: "40"}}, ports=ports)]}


def refused(source: ledger.Ledger, count: int, **spec: Any) -> list[PodUID]:
    """So many pods wait, and kube-scheduler refused n0 for each."""
    pods = [f"w{number}" for number in range(count)]
    builders.put(source, *(builders.pod(name, gates=(), **spec) for name in pods))
    rows, found = source.seen().rows, [PodUID(f"uid-{name}") for name in pods]
    mask = np.array([name == "n0" for name in rows])
    for uid in found:
        excludes = source.pods[uid].excludes is not conflicts.NOTHING
        source.hosts.tries.learn(uid, tries.Answer.of(rows, mask, silent=True, now=NOW, excludes=excludes))
    source.reconsider(found)
    return found


def leaves(source: ledger.Ledger, name: str, **spec: Any) -> None:
    """A pod that ran on n0 is gone."""
    builders.put(source, builders.bound(name, 1, "n0", "GPU-n0-0", **spec))
    source.pod_gone(PodUID(f"uid-{name}"))


@pytest.fixture
def source() -> ledger.Ledger:
    """Four nodes, of an extender that answers kube-scheduler."""
    found = builders.cluster(nodes=4, gpus=1)
    found.hosts.tries.start()
    return found


def test_pods_that_end_are_compared_with_nobody_where_neither_side_excludes_any(
    source: ledger.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(source, 300)
    for number in range(100):
        leaves(source, f"j{number}")
    contains, looks = nodeset.NodeSet.__contains__, [0]

    def counting(self: nodeset.NodeSet, name: NodeName) -> bool:
        looks[0] += 1
        return contains(self, name)

    monkeypatch.setattr(nodeset.NodeSet, "__contains__", counting)
    verdicts.settle(source, now=NOW)
    assert not source.hosts.departures
    assert looks[0] <= 300


def test_a_pass_compares_only_so_much_of_what_pods_exclude_and_the_next_goes_on(
    source: ledger.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = refused(source, 30, **with_ports(verdicts.PARTS // 10))
    leaves(source, "other", **with_ports(1))
    conflict, compared, passes = conflicts.conflict, [0], 0

    def counting(one: conflicts.Member, other: conflicts.Member) -> bool:
        compared[0] += 1
        return conflict(one, other)

    monkeypatch.setattr(conflicts, "conflict", counting)
    while source.hosts.departures:
        version, compared[0], passes = source.version, 0, passes + 1
        verdicts.settle(source, now=NOW)
        assert compared[0] <= 10
        assert source.version > version or not source.hosts.departures
    assert passes > 2
    assert [source.hosts.tries.verdict(uid) for uid in waiting] == [None] * len(waiting)


def test_only_so_many_pods_that_ended_are_remembered(source: ledger.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "LIMIT", 3)
    known = departures.Departures()
    builders.put(source, builders.bound("a", 1, "n0", "GPU-n0-0"))
    for _ in range(9):
        known.add(source.pods[PodUID("uid-a")])
    assert len(list(known.pairs(lambda _: ()))) == 3


def test_a_pass_decides_anew_where_only_so_many_pods_may_go_and_the_next_goes_on(source: ledger.Ledger) -> None:
    waiting = refused(source, 3 * verdicts.AT_ONCE, **with_ports(1))
    leaves(source, "other", **with_ports(1))
    left = [len(waiting)]
    while source.hosts.departures:
        verdicts.settle(source, now=NOW)
        left.append(sum(1 for uid in waiting if source.hosts.tries.verdict(uid) is not None))
    assert left[-1] == 0
    assert max(before - after for before, after in itertools.pairwise(left)) <= verdicts.AT_ONCE


def test_answers_that_expire_together_are_forgotten_in_several_passes(source: ledger.Ledger) -> None:
    waiting = refused(source, 3 * verdicts.AT_ONCE)
    for uid in waiting:
        source.hosts.tries.learn(
            uid, tries.Answer.of(source.seen().rows, np.ones(4, dtype=bool), silent=False, now=NOW)
        )
    passes, version = 0, -1
    while source.version != version:
        version = source.version
        verdicts.settle(source, now=NOW + tries.EXPIRES_SECONDS)
        passes += 1
    assert passes >= 3
    assert all(source.hosts.tries.verdict(uid) is None for uid in waiting)


def test_who_answers_kube_scheduler_no_longer_forgets_who_has_left(source: ledger.Ledger) -> None:
    refused(source, 1, **with_ports(1))
    leaves(source, "other", **with_ports(1))
    assert source.hosts.departures
    source.reconsider(source.hosts.stop())
    assert not source.hosts.departures
