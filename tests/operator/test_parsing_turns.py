"""Who reads next: one at a time, and no namespace waits for more than one turn of each other."""

import asyncio

import pytest

from cotenant_api import errors
from cotenant_operator.parsing.turns import Turns


class Readers:
    """Reads that end when they are told to, and the order in which they began."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.began: list[str] = []
        self.reading = 0
        self._end = asyncio.Event()
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str) -> None:
        """Come one after the other; the namespace is the letter of the name."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._read(name))
            await asyncio.sleep(0)

    async def all_read(self) -> None:
        """Let everybody who waits read in turn."""
        self._end.set()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _read(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.reading += 1
            assert self.reading == 1
            self.began.append(name)
            try:
                await self._end.wait()
            finally:
                self.reading -= 1


async def test_namespaces_take_turns_however_many_one_has_waiting() -> None:
    readers = Readers(Turns())
    await readers.come("a1", "a2", "a3", "a4", "b1", "c1", "b2")
    await readers.all_read()
    assert readers.began == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_honest_namespace_waits_for_the_one_that_reads_and_one_more_at_most() -> None:
    readers = Readers(Turns())
    await readers.come(*(f"h{number}" for number in range(60)), "t1")
    await readers.all_read()
    assert readers.began.index("t1") <= 2


async def test_namespace_with_too_many_is_told_to_come_back_and_another_is_not() -> None:
    readers = Readers(Turns(per_namespace=2, in_all=2))
    await readers.come("a1", "a2", "a3", "a4", "b1", "b2")
    await readers.all_read()
    assert readers.began == ["a1", "a2", "b1", "a3"]
    with pytest.raises(errors.TemporaryError, match="2 graphs of namespace a wait to be read already"):
        await readers.tasks["a4"]
    with pytest.raises(errors.TemporaryError, match="namespace b"):
        await readers.tasks["b2"]


async def test_who_gives_up_waiting_keeps_nobody_waiting() -> None:
    readers = Readers(Turns())
    await readers.come("a1", "b1", "c1")
    readers.tasks["b1"].cancel()
    await readers.all_read()
    assert readers.began == ["a1", "c1"]
    assert len(readers.turns) == 0


async def test_who_gives_up_in_the_moment_of_his_turn_passes_it_on() -> None:
    readers = Readers(Turns())
    await readers.come("a1", "b1", "c1")
    readers.tasks["a1"].cancel()
    await asyncio.sleep(0)
    readers.tasks["b1"].cancel()
    await readers.all_read()
    assert readers.began[-1] == "c1"


async def test_turn_is_free_again_after_a_failure() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError):
        async with turns.turn("a"):
            raise ZeroDivisionError
    async with turns.turn("b"):
        assert len(turns) == 0


async def test_as_many_as_may_hold_the_lock_at_once_and_no_more() -> None:
    turns, end, reading = Turns(at_once=2), asyncio.Event(), 0

    async def read(namespace: str) -> None:
        nonlocal reading
        async with turns.turn(namespace):
            reading += 1
            await end.wait()

    tasks = [asyncio.create_task(read(namespace)) for namespace in "aaab"]
    await asyncio.sleep(0)
    assert (reading, len(turns)) == (2, 2)
    end.set()
    await asyncio.gather(*tasks)
    assert (reading, len(turns)) == (4, 0)


async def test_who_would_be_told_to_come_back_is_told_before_asking() -> None:
    readers = Readers(Turns(per_namespace=1))
    await readers.come("a1", "a2")
    with pytest.raises(errors.TemporaryError, match="1 graphs of namespace a wait"):
        readers.turns.check("a")
    readers.turns.check("b")
    await readers.all_read()
