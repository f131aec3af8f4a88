"""Turns of kinds of nodes with the autoscaler."""

import math

import numpy as np

from cotenant_extender.queue import showing
from extender.builders import NOW


def test_there_is_a_turn_for_every_kind_and_those_that_were_there_stay() -> None:
    turns = showing._Turns()
    turns.cover(2)
    turns.begun[1] = NOW
    for count, expected in ((5, 5), (3, 5), (6, 6)):
        turns.cover(count)
        assert [len(values) for values in (turns.begun, turns.full_since, turns.vain)] == [expected] * 3
    assert turns.begun.tolist() == [-math.inf, NOW, *[-math.inf] * 4]
    assert not turns.vain.any()


def test_each_turn_in_vain_counts_once_and_a_node_that_comes_ends_the_count() -> None:
    turns, kind, never = showing._Turns(), np.array([0]), np.array([-math.inf])
    turns.cover(1)
    now, lasted = NOW, []
    for _ in range(4):
        began = now
        while turns.begun[0] <= began or turns.begun[0] == -math.inf:
            now += showing.PATIENCE_SECONDS / 4
            turns.end(kind, never, now=now)
        lasted.append(round((now - began) / showing.PATIENCE_SECONDS, 1))
    assert turns.vain.tolist() == [4]
    assert lasted == sorted(lasted)
    turns.end(kind, np.array([now + 1]), now=now + 2)
    assert turns.vain.tolist() == [0]
