"""The arrays of the line say what a list of its entries says, whatever comes and goes."""

import random

import pytest

from cotenant_extender.queue import columns


def drawn(draw: random.Random) -> columns.Row:
    kind = draw.randrange(columns.NO_KIND, 5)
    flags = (draw.random() < 0.5 for _ in range(3))
    return columns.Row(kind, draw.randrange(-3, 4), draw.uniform(0, 100), *flags)


def told(found: columns.Columns) -> list[tuple[object, ...]]:
    parts = (found.kind, found.priority, found.since, found.aged, found.gated, found.barred)
    return list(zip(*(part.tolist() for part in parts), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_entries_that_come_and_go_anywhere_leave_the_others_in_order(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    expected = [drawn(draw) for _ in range(draw.randrange(100))]
    found = columns.Columns()
    found.read(expected)
    for _ in range(300):
        if expected and draw.random() < 0.4:
            place = draw.randrange(len(expected))
            del expected[place]
            found.take(place)
        else:
            place, row = draw.randrange(len(expected) + 1), drawn(draw)
            expected.insert(place, row)
            found.put(place, row)
        assert len(found) == len(expected)
    assert told(found) == expected


def test_an_empty_line_has_empty_arrays_again() -> None:
    found = columns.Columns()
    assert (len(found), told(found)) == (0, [])
    found.read([columns.Row(1, 0, 0.0, False, True, False)])
    found.take(0)
    assert told(found) == []
    found.read([])
    assert len(found) == 0
