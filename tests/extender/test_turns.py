"""However many others are tried before, and whatever happens meanwhile, everybody gets a turn; passes are counted."""

import itertools
from collections.abc import Callable

import pytest

from cotenant_extender.ledger import ledger
from cotenant_extender.queue import passes, planning
from extender import builders
from extender.builders import NOW
from extender.queueing import end

NODES = 20
STUCK = 120
TRIES = 30
"""How many jobs a pass tries before it is late."""
SWEEP = STUCK // TRIES + 1


class Passes:
    """Passes of one queue over a full cluster, each cut after `TRIES` tries.

    Attributes:
        tries: has an element for every job that was tried in vain.
    """

    def __init__(self, source: ledger.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.queue, self.count = source, planning.Queue(), 0
        self.tries: list[int] = []
        self._began = 0
        tried = self.queue._memory.failed

        def counted(*arguments: object) -> None:
            self.tries.append(1)
            tried(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(self.queue._memory, "failed", counted)

    def __call__(self) -> passes.Plan:
        """Do a pass, which is late after `TRIES` tries."""
        assert self.source.policy is not None
        self._began = len(self.tries)
        self.count += 1
        now = NOW + 0.3 * self.count
        return self.queue.plan(self.source, self.source.policy, now=now, late=self._late)

    def _late(self, part: float) -> bool:
        return len(self.tries) - self._began >= part * TRIES

    def until(self, holds: Callable[[passes.Plan], bool], *, between: Callable[[], None] = lambda: None) -> int:
        """Return after how many passes a plan is as wanted."""
        for number in range(1, 200):
            if holds(self()):
                return number
            between()
        raise AssertionError("nobody ever gets a turn")


def lifts(name: str) -> Callable[[passes.Plan], bool]:
    """Whether a plan lifts this pod."""
    return lambda plan: name in [lift.record.name for lift in plan.lifts if lift.earmark is not None]


lifts_tail = lifts("tail")


def full_of_stuck(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Full GPUs, and first in the line jobs of many kinds that pass every screen, and that no node takes."""
    source = builders.cluster(nodes=NODES, gpus=1)
    for number in range(NODES):
        builders.put(source, builders.bound(f"b{number}", 60, f"n{number}", f"GPU-n{number}-0"))
    for number in range(STUCK):
        raw = builders.pod(f"s{number}", 40, created=NOW - 50, priority=3, nodeSelector={"disk": "nvme"})
        raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{100 + number}m"
        builders.put(source, raw)
    found = Passes(source, monkeypatch)
    while found().cut:
        pass
    return found


class Ends:
    """Pods end one after the other, on all nodes but the first in turn; another like it is bound in each's place."""

    def __init__(self, source: ledger.Ledger) -> None:
        self._source, self._count = source, 0
        self._names = {node: f"b{node}" for node in range(1, NODES)}

    def __call__(self) -> None:
        """Let one end."""
        self._count += 1
        node = sorted(self._names)[self._count % len(self._names)]
        self._names[node] = self._replaced(node, share=60)

    def last(self, node: int, *, share: int) -> None:
        """Let the one on a node end, for one that stays."""
        self._replaced(node, share=share)
        del self._names[node]

    def _replaced(self, node: int, *, share: int) -> str:
        end(self._source, self._names[node])
        name = f"c{node}-{self._count}"
        builders.put(self._source, builders.bound(name, share, f"n{node}", f"GPU-n{node}-0"))
        return name


def test_after_one_event_everybody_is_tried_once_on_what_it_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = full_of_stuck(monkeypatch)
    Ends(found.source)()
    builders.put(found.source, builders.pod("tail", 30))
    before = len(found.tries)
    assert found.until(lifts_tail) <= 2 * SWEEP
    assert len(found.tries) - before <= STUCK


def test_the_last_of_the_line_gets_its_turn_although_something_ends_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = full_of_stuck(monkeypatch)
    ends = busy(found)
    builders.put(found.source, builders.pod("tail", 30))
    assert found.until(lifts_tail, between=ends) <= (SWEEP + 1) * (planning.PATIENCE + 1)


def test_what_is_freed_after_others_have_caught_up_is_offered_to_the_last_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = full_of_stuck(monkeypatch)
    ends, turn = busy(found), (SWEEP + 1) * (planning.PATIENCE + 1)
    builders.put(found.source, builders.pod("tail", 45))
    for _ in range(2 * turn):
        assert not lifts_tail(found())
        ends()
    ends.last(5, share=50)
    assert found.until(lifts_tail, between=ends) <= turn


def test_after_four_passes_in_a_row_that_were_cut_others_catch_up_until_all_had_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = full_of_stuck(monkeypatch)
    begin, passes = found.queue._memory.begin, list[bool]()

    def noted(source: ledger.Ledger, *, catches_up: bool) -> None:
        passes.append(catches_up)
        begin(source, catches_up=catches_up)

    monkeypatch.setattr(found.queue._memory, "begin", noted)
    ends = Ends(found.source)
    for _ in range(3 * (planning.PATIENCE + SWEEP)):
        ends()
        found()
    *turns, _ = [(catching_up, len(list(some))) for catching_up, some in itertools.groupby(passes)]
    assert {count for catching_up, count in turns if not catching_up} == {4}
    assert {count for catching_up, count in turns if catching_up} <= set(range(1, SWEEP + 1))


def test_room_is_made_for_a_priority_although_something_ends_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = full_of_stuck(monkeypatch)
    ends = busy(found)
    builders.put(found.source, builders.pod("high", 100, priority=5))
    assert found.until(lambda plan: bool(plan.evictions), between=ends) <= (SWEEP + 1) * (planning.PATIENCE + 1)


def busy(found: Passes) -> Ends:
    """Pods have been ending for a while."""
    ends = Ends(found.source)
    for _ in range(10):
        ends()
        found()
    return ends
