"""Pods that may run as root get no part of a GPU, unless the policy lets them."""

from collections import Counter
from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.pod import PackedReason
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import obstacles, order
from extender import builders
from extender.builders import NOW
from extender.queueing import evicted, held, lifted, member, queue, run, told


def root(name: str, share: int = 40, **changes: Any) -> builders.Object:
    """A pod that does not say whom it runs as."""
    container = builders.container({"limits": {names.GPU_SHARE: str(share)}}, securityContext=None)
    return builders.pod(name, share, containers=[container], **changes)


def test_a_pod_that_may_be_root_is_told_the_line_to_add_and_blocks_nobody() -> None:
    source = builders.cluster()
    builders.put(source, root("a", 60), builders.pod("b", 40))
    reason, message = told(source, "a")
    assert reason is PackedReason.INVALID_REQUEST
    assert message.startswith("spec.containers[main].securityContext: may run as root")
    assert "add runAsNonRoot: true" in message
    assert "add allowPrivilegeEscalation: false" in message


def test_a_pod_that_may_be_root_does_not_keep_others_of_its_kind_waiting() -> None:
    source = builders.cluster()
    builders.put(source, root("a", 40), builders.pod("b", 40))
    assert lifted(source) == ["b"]


def test_root_gets_its_share_as_soon_as_the_policy_lets_anybody_in() -> None:
    source = builders.cluster()
    builders.put(source, root("a"))
    assert lifted(source) == []
    source.policy_changed(builders.in_force(tenantUser="Any"))
    assert lifted(source) == ["a"]


@pytest.mark.parametrize(("share", "policy"), [(100, {}), (40, {"placement": "Exclusive"})])
def test_root_may_have_whole_gpus(share: int, policy: dict[str, Any]) -> None:
    source = builders.cluster(**policy)
    builders.put(source, root("a", share))
    assert lifted(source) == ["a"]


def test_root_in_a_user_namespace_may_share() -> None:
    source = builders.cluster()
    builders.put(source, root("a", hostUsers=False))
    assert lifted(source) == ["a"]


def test_one_member_that_may_be_root_keeps_its_gang_waiting() -> None:
    source = builders.cluster()
    notes = builders.gang("g", 2)
    builders.put(source, root("a", annotations=notes), builders.pod("b", annotations=notes))
    assert lifted(source) == []
    assert told(source, "b")[1].startswith("spec.containers[main].securityContext: may run as root")


def test_nobody_is_evicted_for_a_pod_that_may_be_root() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("low", 90, "n0", "GPU-n0-0"), root("a", 40, priority=1000))
    assert evicted(source) == []


def test_no_autoscaler_is_shown_a_pod_that_may_be_root_and_no_gpu_is_held_for_it() -> None:
    source = builders.cluster()
    builders.put(source, builders.bound("low", 90, "n0", "GPU-n0-0"), root("a", 40))
    for later in (60, 7200):
        assert run(source, now=NOW + later).lifts == ()
        assert held(source) == []


def test_pods_too_many_and_pods_that_are_refused_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source, looked_at = builders.cluster(nodes=2), list[str]()
    asked = obstacles.obstacle

    def obstacle(source: ledger.Ledger, entry: order.Entry, *, now: float) -> tuple[PackedReason, str] | None:
        looked_at.append(entry.members[0].name)
        return asked(source, entry, now=now)

    assert source.policy is not None
    monkeypatch.setattr(obstacles, "obstacle", obstacle)
    builders.put(source, *(member(f"m{number:02}", 10, size=2, created=NOW - 9999) for number in range(20)))
    builders.put(source, *(root(f"r{number:02}") for number in range(20)))
    builders.put(source, builders.pod("last", 1, created=NOW))
    passes = [queue(source).plan(source, source.policy, now=NOW, late=lambda _: True) for _ in range(99)]
    assert [lift.record.name for plan in passes for lift in plan.lifts] == ["m00", "m01", "last"]
    found = Counter(looked_at)
    assert {name for name, count in found.items() if name > "m01" and name.startswith("m")} == set()
    assert {found[name] for name in found if name.startswith("r")} == {1}
