"""Random histories notice queues and ledgers with a defect, within so many histories."""

from collections.abc import Callable

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from cotenant_extender.queue import memory, vain
from extender import crowds, defective, histories, standstills

Plant = Callable[[histories.Histories], None]


class _StampsLate(memory.Memory):
    """What did not fit is stamped with the clock at the end of the pass: rows that were freed in it seem looked at."""

    def end(self) -> None:
        assert self._seen is not None
        self._clocks[self._active & (self._out | ~self._possible)] = self._seen.clock


def _loses_wake_ups(machine: histories.Histories) -> None:
    machine.queue._memory.__class__ = _StampsLate


class _Patient(vain.Vain):
    """No hold is in vain."""

    def wasted(self, *_: object, **__: object) -> bool:
        return False


def _gives_nothing_up(machine: histories.Histories) -> None:
    machine.queue.reservation._vain.__class__ = _Patient


def _preempts_nobody(machine: histories.Histories) -> None:
    machine.queue.__class__ = defective.SearchesNobody


def _overbooks(machine: histories.Histories) -> None:
    machine.source.__class__ = defective.Overbooks


@pytest.mark.parametrize(
    ("plant", "machine", "most", "seed"),
    [
        (_loses_wake_ups, crowds.Crowds, 1500, 4),
        (_overbooks, crowds.Crowds, 50, 1),
        (_preempts_nobody, crowds.Crowds, 50, 1),
        (_gives_nothing_up, standstills.Standstills, 200, 1),
    ],
)
def test_a_planted_defect_is_found(plant: Plant, machine: type[histories.Histories], most: int, seed: int) -> None:
    """The same histories each time, of a seed of which early ones show it."""

    class Wrong(machine):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            plant(self)

    hypothesis.seed(seed)(Wrong)
    settings = hypothesis.settings(
        max_examples=most, stateful_step_count=12, deadline=None, derandomize=False, database=None,
        phases=[hypothesis.Phase.generate],
    )  # fmt: skip
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Wrong, settings=settings)
