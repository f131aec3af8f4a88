"""One answer serves all who asked before it was begun, and nobody who asked later."""

import asyncio

import pytest

from cotenant_api import errors
from cotenant_deviceplugin.sharing import Shared


class _Question:
    """Answers with the number of the asking, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.failing: int | None = None

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        self.begun.set()
        await self.go.wait()
        if number == self.failing:
            raise errors.TemporaryError("not now", delay_seconds=1)
        return number


async def test_who_asks_while_an_answer_is_under_way_gets_a_later_one() -> None:
    question = _Question()
    shared = Shared(question)
    first = asyncio.create_task(shared())
    await question.begun.wait()
    later = [asyncio.create_task(shared()) for _ in range(5)]
    await asyncio.sleep(0)
    question.go.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2] * 5
    assert question.asked == 2


async def test_an_answer_is_not_kept_for_who_asks_afterwards() -> None:
    question = _Question()
    question.go.set()
    shared = Shared(question)
    assert [await shared(), await shared()] == [1, 2]


async def test_after_a_failure_the_next_who_waits_asks_again() -> None:
    question = _Question()
    shared = Shared(question)
    question.failing = 1
    first = asyncio.create_task(shared())
    await question.begun.wait()
    second = asyncio.create_task(shared())
    await asyncio.sleep(0)
    question.go.set()
    with pytest.raises(errors.TemporaryError):
        await first
    assert await second == 2


async def test_who_is_cancelled_while_asking_leaves_the_question_to_the_next() -> None:
    question = _Question()
    shared = Shared(question)
    first = asyncio.create_task(shared())
    await question.begun.wait()
    second = asyncio.create_task(shared())
    await asyncio.sleep(0)
    first.cancel()
    question.go.set()
    assert await second == 2
    with pytest.raises(asyncio.CancelledError):
        await first
