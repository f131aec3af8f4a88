"""Slots that namespaces share: one that hangs leaves most of them to the others."""

import asyncio

from cotenant_extender import slots
from extender import virtual


class _Crowd:
    """Requests that hold a slot until they are told to end; `under_way`: their namespaces, as they began."""

    def __init__(self, of: slots.Slots) -> None:
        self.of, self.under_way = of, list[str]()
        self.tasks: list[asyncio.Task[None]] = []
        self._end = asyncio.Semaphore(0)

    async def begin(self, *namespaces: str) -> None:
        self.tasks += [asyncio.ensure_future(self._hold(namespace)) for namespace in namespaces]
        await asyncio.sleep(0.01)

    async def end(self, count: int) -> None:
        """The oldest end, one after the other."""
        for _ in range(count):
            self._end.release()
        await asyncio.sleep(0.01)

    async def _hold(self, namespace: str) -> None:
        async with self.of.of(namespace):
            self.under_way.append(namespace)
            await self._end.acquire()


@virtual.time
async def test_a_namespace_alone_holds_its_part_and_the_next_one_gets_as_large_a_part_of_the_rest() -> None:
    crowd = _Crowd(slots.Slots(96, part=2))
    await crowd.begin(*["a"] * 200)
    await crowd.begin(*["b"] * 200)
    assert [crowd.under_way.count(name) for name in "ab"] == [32, 22]


@virtual.time
async def test_where_few_namespaces_hang_a_slot_is_left_for_the_next() -> None:
    crowd = _Crowd(slots.Slots(96, part=2))
    for number in range(8):
        await crowd.begin(*[f"n{number}"] * 100)
    await crowd.begin("last")
    assert crowd.under_way[-1] == "last"


@virtual.time
async def test_where_no_slot_is_left_the_next_one_goes_to_a_namespace_that_has_none() -> None:
    crowd = _Crowd(slots.Slots(96, part=2))
    for number in range(8):
        await crowd.begin(*[f"n{number}"] * 100)
    await crowd.begin(*(f"single{number}" for number in range(9)))
    assert len(crowd.under_way) == 96
    await crowd.end(6)
    assert crowd.under_way[-1] == "single8"


@virtual.time
async def test_all_get_their_turn_and_namespaces_take_turns() -> None:
    crowd = _Crowd(slots.Slots(3, part=1))
    await crowd.begin(*"aaaaabbbbb")
    await crowd.end(10)
    assert sorted(crowd.under_way) == sorted("aaaaabbbbb")
    assert set(crowd.under_way[:4]) == {"a", "b"}
    await crowd.begin("c")
    assert crowd.under_way[-1] == "c"


@virtual.time
async def test_who_is_cancelled_while_it_waits_takes_no_slot() -> None:
    crowd = _Crowd(slots.Slots(2, part=1))
    await crowd.begin("a", "a", "a", "a")
    assert crowd.under_way == ["a"]
    crowd.tasks[1].cancel()
    crowd.tasks[2].cancel()
    await asyncio.sleep(0.01)
    await crowd.end(2)
    assert crowd.under_way == ["a", "a"]
    assert all(task.done() for task in crowd.tasks)


@virtual.time
async def test_who_is_cancelled_just_when_it_gets_its_turn_gives_it_to_the_next() -> None:
    of = slots.Slots(2, part=1)
    first = of.of("a")
    await first.__aenter__()
    crowd = _Crowd(of)
    await crowd.begin("a", "a")
    await first.__aexit__(None, None, None)
    crowd.tasks[0].cancel()
    await asyncio.sleep(0.01)
    assert crowd.under_way == ["a"]


def test_items_of_different_namespaces_take_turns() -> None:
    assert slots.in_turns(["a1", "a2", "a3", "b1", "c1", "c2"], lambda item: item[0]) == [
        "a1",
        "b1",
        "c1",
        "a2",
        "c2",
        "a3",
    ]
