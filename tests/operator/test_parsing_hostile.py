"""Hostile documents, given to the process as it runs in the operator: each gets a verdict, and none much memory."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant_api import errors
from cotenant_operator.parsing import process, tasks
from operator_kit import hostile, objects

MAX_MIB = 256
"""Of a child, what it shares with the process that started it included."""
CORPUS = {name: (task, data) for name, task, data in (*hostile.graphs(), *hostile.files())}
READ = {
    "as many operators as may be",
    "as many, packed again",
    "lines",
    "one line",
    "lists in an unknown key",
    "objects in an unknown key",
    "text of 32 bits",
    "one operator of many dimensions",
    "many unknown operators",
    "a long chain",
    "a join of one tensor, often",
    "a maximum of one tensor, often",
    "filled",
    "a range",
    "repeated",
    "padded",
}
"""What is large, and allowed: the rest is refused."""


class Asking:
    """Asks the process from a test that is no coroutine."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.process = process.Process()
        self.runner.run(self.process.start())

    def answer(self, task: tasks.Task, data: bytes) -> tasks.Answer:
        """The verdict; where the reader crashes, that of the second time."""
        try:
            return self.runner.run(self.process.ask("team", task, data))
        except errors.TemporaryError:
            for known in self.process.faults.values():
                known.again_at = 0.0
            return self.runner.run(self.process.ask("team", task, data))

    def close(self) -> None:
        """End it."""
        self.runner.run(self.process.close())
        self.runner.close()


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    found = Asking()
    yield found
    found.close()


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_document_gets_a_verdict_and_little_memory(asking: Asking, name: str) -> None:
    task, data = CORPUS[name]
    found = asking.answer(task, data)
    assert found.fault is None
    if found.problem is not None:
        assert task.source in found.problem
    assert (found.problem is None) == (name in READ), found.problem
    assert asking.process.peak_kib < MAX_MIB * 1024


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_document_gets_a_verdict_and_little_memory(asking: Asking, data: st.DataObject) -> None:
    task, text = data.draw(st.sampled_from([entry for entry in CORPUS.values() if len(entry[1]) < 100_000]))
    damaged = bytearray(text)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged) - 1))
        damaged[start : start + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    assert asking.answer(task, bytes(damaged)).fault is None
    assert asking.process.peak_kib < MAX_MIB * 1024


def test_honest_graph_is_read_after_all_of_them(asking: Asking) -> None:
    task = tasks.Task(kind=tasks.Kind.PREDICTION, source="graph")
    assert asking.answer(task, objects.toy_graph().packed()).prediction is not None
