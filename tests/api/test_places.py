"""A pod's place in the queue: what one component writes, another reads."""

import pytest

from cotenant_api import places


@pytest.mark.parametrize("position", [1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 103, 111, 1002, 50_000])
def test_a_place_that_was_told_is_read(position: int) -> None:
    assert places.position(places.told("2 GPUs hold 3 jobs", position)) == position


@pytest.mark.parametrize(
    "message",
    [
        "",
        "others go first",
        "0th in the queue",
        "4th in the queue",
        "; 4th in the queue and more",
        "; -4th in the queue",
    ],
)
def test_a_message_without_a_place_has_none(message: str) -> None:
    assert places.position(message) is None


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (21, "21st"), (113, "113th")]
)
def test_ordinals_are_english(number: int, words: str) -> None:
    assert places.ordinal(number) == words
