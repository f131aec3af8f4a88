"""Lines of a stream, however it is cut, and those that are too long."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import lines

LONGEST = 5


def told(parts: list[bytes]) -> tuple[list[bytes], lines.Lines]:
    made = lines.Lines(LONGEST)
    return [line for part in parts for line in made.feed(part)], made


@given(st.lists(st.text("ab", max_size=9), max_size=6), st.lists(st.integers(0, 60), max_size=8))
def test_lines_are_the_same_however_the_stream_is_cut(texts: list[str], cuts: list[int]) -> None:
    stream = "".join(f"{text}\n" for text in texts).encode()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    found, made = told([stream[begin:end] for begin, end in itertools.pairwise(places)])
    assert found == [text.encode() for text in texts if len(text) <= LONGEST]
    assert made.left_out == sum(len(text) > LONGEST for text in texts)
    assert made.rest() == b""


def test_what_follows_a_line_that_is_too_long_is_read() -> None:
    found, made = told([b"aaaa", b"aaaa", b"\nb", b"\n"])
    assert (found, made.left_out) == ([b"b"], 1)


def test_nothing_of_a_line_that_is_too_long_is_kept() -> None:
    _, made = told([b"aaa"] * 100)
    assert made.rest() == b""


@pytest.mark.parametrize("parts", [[b"abc"], [b"x\nab", b"c"]])
def test_what_has_not_ended_is_the_rest(parts: list[bytes]) -> None:
    assert told(parts)[1].rest() == b"abc"
