"""Gangs of lower priority leave for others: as few as need to."""

from cotenant_extender.ledger import ledger
from extender import builders
from extender.builders import NOW
from extender.queueing import evicted, runs


def crowded(source: ledger.Ledger, name: str, share: int, node: str, *, ran: float, gang: str = "") -> None:
    """A pod of a gang of two that has run for so many seconds."""
    notes = builders.gang(gang, 2) if gang else {}
    runs(source, name, share, f"GPU-{node}-0", started=NOW - ran, annotations=notes, priority=0 if gang else 9)


def test_who_shares_a_gpu_that_a_gang_leaves_need_not_leave_it() -> None:
    source = builders.cluster(nodes=7, gpus=1)
    for index in (0, 2, 3, 4, 5, 6):
        crowded(source, f"fixed{index}", 50, f"n{index}", ran=900_000)
    crowded(source, "g0", 50, "n0", ran=102, gang="g")
    crowded(source, "g1", 50, "n1", ran=400, gang="g")
    crowded(source, "h0", 50, "n1", ran=101, gang="h")
    crowded(source, "h1", 50, "n4", ran=10_000, gang="h")
    for index, (name, ran) in enumerate((("x", 103), ("y", 104)), start=2):
        crowded(source, f"{name}0", 50, f"n{index}", ran=ran, gang=name)
        crowded(source, f"{name}1", 50, f"n{index + 3}", ran=100_000, gang=name)
    builders.put(source, *(builders.pod(f"p{n}", 50, priority=5, annotations=builders.gang("p", 2)) for n in range(2)))
    assert evicted(source) == ["g0", "g1"]


def test_the_other_gpus_that_a_gang_leaves_are_used_before_another_gang_is_evicted() -> None:
    source = builders.cluster(nodes=10, gpus=1)
    for index, name in enumerate("abcde"):
        crowded(source, f"{name}0", 100, f"n{index}", ran=100 + index, gang=name)
        crowded(source, f"{name}1", 100, f"n{index + 5}", ran=200 + index, gang=name)
    builders.put(source, *(builders.pod(f"p{n}", 100, priority=5, annotations=builders.gang("p", 2)) for n in range(2)))
    assert evicted(source) == ["a0", "a1"]


def test_nobody_leaves_for_a_pod_of_a_gang_for_which_another_label_has_room() -> None:
    source = builders.cluster(nodes=3, gpus=1, tenancy="Label", tenancyLabel="team")
    runs(source, "low0", 100, "GPU-n0-0", labels={"team": "a"})
    runs(source, "low2", 100, "GPU-n2-0", labels={"team": "b"}, started=NOW - 99)
    runs(source, "stays", 50, "GPU-n1-0", labels={"team": "b"}, priority=9)
    for number, team in enumerate("ab"):
        notes = builders.gang("p", 2)
        builders.put(source, builders.pod(f"p{number}", 50, priority=5, labels={"team": team}, annotations=notes))
    assert evicted(source) == ["low2"]
