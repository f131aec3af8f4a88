"""Whose run times are believed: nobody's for long who is wrong, and nobody's for the pods of others."""

from typing import Any

from cotenant_api.names import Namespace, PodUID
from cotenant_extender import tenures
from cotenant_extender.ledger import ledger, runs
from cotenant_extender.queue import ends, roster
from extender import builders
from extender.builders import NOW
from extender.queueing import lift, lifted, ran, tenant, waiting_for

DAY = 24 * 3600


def like(namespace: str, share: int = 40) -> tenures.Likeness:
    return tenures.Likeness(Namespace(namespace), ("Job", share))


def unknown_end(source: ledger.Ledger) -> float:
    """In how many seconds a pod of no known kind is expected to end that has begun just now."""
    raw = builders.bound("it", 40, "n0", "GPU-n0-1", namespace="victim")
    raw["status"]["startTime"] = builders.timestamp(NOW)
    builders.put(source, raw)
    held = roster.Roster()
    assert held.update(source, source.seen())
    return float(ends.expected(held, source.runs, now=NOW).min()) - NOW


def test_many_short_runs_of_one_namespace_are_one_vote_on_how_long_pods_of_others_run() -> None:
    source = builders.cluster()
    for namespace in ("honest", "other"):
        ran(source, 40, 5000, 5000, 5000, namespace=namespace)
    ran(source, 40, *[100] * 2 * runs.KEPT, namespace="poisons")
    assert unknown_end(source) == 5000


def test_a_namespace_of_many_kinds_displaces_its_own_alone() -> None:
    source = builders.cluster()
    ran(source, 40, 100, 200, 300, namespace="honest")
    epoch = source.runs.epoch
    for share in range(1, 101):
        ran(source, share, 100, 100, 100, namespace="poisons")
    assert source.runs.of(like("honest")) == runs.Known(typical=200, longest=300)
    assert source.runs.of(like("poisons", 1)) is None
    assert source.runs.of(like("poisons", 100)) is not None
    assert source.runs.epoch == epoch


def test_numbers_of_kinds_that_were_displaced_are_given_out_again_in_another_epoch() -> None:
    source = builders.cluster()
    ran(source, 40, 100, 200, 300, namespace="honest")
    for number in range(2 * runs.KINDS):
        ran(source, number + 1, 100, namespace="poisons")
    assert source.runs.epoch >= 1
    assert source.runs.of(like("honest")) == runs.Known(typical=200, longest=300)


def test_a_run_that_ends_at_once_counts_as_a_minute() -> None:
    source = builders.cluster()
    ran(source, 40, 1, 1, 1)
    assert source.runs.of(like("team")) == runs.Known(typical=60, longest=60)


def guest(name: str, **changes: Any) -> dict[str, Any]:
    """A pod whose like has run for 100 s."""
    return builders.of_job(builders.pod(name, 10, **changes))


def let_in(source: ledger.Ledger, *, seconds: float) -> None:
    """The pod `long` is let in as a guest, and has run for so many seconds when the queue looks again."""
    builders.put(source, guest("long"))
    assert lifted(source) == ["long"]
    lift(source, "long")
    raw = builders.of_job(builders.bound("long", 10, "n0", "GPU-n0-0", version=3))
    raw["status"]["startTime"] = builders.timestamp(NOW)
    builders.put(source, raw)
    assert lifted(source, now=NOW + seconds) == []


def waiting() -> ledger.Ledger:
    """GPUs are held for a job, and pods like the guest have run for 100 s."""
    source = waiting_for(100, tenant("t", 50, "GPU-n0-0", 1000))
    ran(source, 10, 100, 100, 100, ended=NOW - 9)
    return source


def test_who_overstays_the_end_by_which_it_was_let_in_costs_its_namespace_the_trust() -> None:
    source = waiting()
    let_in(source, seconds=201)
    ran(source, 10, 100, 100, 100, ended=NOW + 201)
    builders.put(source, guest("again", version=2), guest("bounded", activeDeadlineSeconds=300))
    assert lifted(source, now=NOW + 201) == ["bounded"]
    assert ends.at_the_latest(source.pods[PodUID("uid-again")], source.runs, now=NOW) == float("inf")
    ran(source, 10, 100, 100, 100, ended=NOW + 201 + DAY)
    assert source.runs.of(like("team", 10)) is not None


def test_who_stays_for_less_than_twice_as_long_is_believed_on() -> None:
    source = waiting()
    let_in(source, seconds=200)
    builders.put(source, guest("again"))
    assert lifted(source, now=NOW + 200) == ["again"]


def test_a_namespace_that_lost_the_trust_costs_others_nothing() -> None:
    source = waiting()
    ran(source, 10, 100, 100, 100, ended=NOW - 9, namespace="honest")
    let_in(source, seconds=201)
    assert source.runs.of(like("honest", 10)) is not None
    assert source.runs.of(like("team", 10)) is None


def past_its_deadline(*, seconds: float) -> ledger.Ledger:
    """A guest with a deadline of 90 s and a grace period of 10 s has run for so many seconds."""
    source = waiting()
    changes = {"activeDeadlineSeconds": 90, "terminationGracePeriodSeconds": 10}
    builders.put(source, guest("bounded", **changes))
    assert lifted(source) == ["bounded"]
    lift(source, "bounded", **changes)
    raw = builders.of_job(builders.bound("bounded", 10, "n0", "GPU-n0-0", version=3, **changes))
    raw["status"]["startTime"] = builders.timestamp(NOW)
    builders.put(source, raw, guest("again", activeDeadlineSeconds=80), now=NOW + seconds)
    return source


def test_a_deadline_that_kubelet_may_yet_enforce_is_believed() -> None:
    source = past_its_deadline(seconds=160)
    assert lifted(source, now=NOW + 160) == ["again"]


def test_a_deadline_that_passed_while_the_pod_ran_on_costs_its_namespace_the_trust_in_deadlines() -> None:
    source = past_its_deadline(seconds=161)
    assert lifted(source, now=NOW + 161) == []
    assert ends.at_the_latest(source.pods[PodUID("uid-again")], source.runs, now=NOW) == float("inf")
    source.runs.review(source.pods, now=NOW + 162 + DAY)
    assert ends.at_the_latest(source.pods[PodUID("uid-again")], source.runs, now=NOW) == NOW + 80
