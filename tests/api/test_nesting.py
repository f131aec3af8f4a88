"""Depth of JSON: what the API server takes and Python's decoder does not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api import nesting

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\[]{}') | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a"\\[]{}'), inner),
)


def nested(value: Any, levels: int) -> bytes:
    return b'{"a":[' * (levels // 2) + json.dumps(value).encode() + b"]}" * (levels // 2)


@given(VALUES)
def test_what_is_not_deep_is_left_as_it_is(value: Any) -> None:
    data = json.dumps(value).encode()
    assert nesting.bounded(data) == data


@given(VALUES)
def test_what_is_deep_can_be_decoded(value: Any) -> None:
    found = json.loads(nesting.bounded(nested(value, 5000)))
    levels = 0
    while not isinstance(found, str):
        found, levels = (found["a"] if isinstance(found, dict) else found[0]), levels + 1
    assert (found, levels) == (nesting.MARK, nesting.CUT_DEPTH)


@pytest.mark.parametrize("levels", [2, nesting.MAX_DEPTH])
def test_as_many_levels_as_are_allowed_are_kept(levels: int) -> None:
    data = nested('[{"\\', levels)
    assert nesting.bounded(data) == data


def test_what_stands_beside_a_deep_part_is_kept() -> None:
    deep = nested("x", 3000).decode()
    text = f'{{"items":[{{"n":"a]\\"}}","deep":{deep},"m":[{deep},1]}},{{"n":"b"}}],"metadata":{{"continue":"c"}}}}'
    found = json.loads(nesting.bounded(text.encode()))
    assert found["metadata"] == {"continue": "c"}
    assert [item["n"] for item in found["items"]] == ['a]"}', "b"]
    assert found["items"][0]["m"][1] == 1


PARTS = st.lists(
    st.sampled_from(["spike", "flat", "text"]).flatmap(lambda kind: st.tuples(st.just(kind), st.integers(1, 80)))
)


@given(st.integers(0, 70), PARTS)
def test_what_has_too_many_levels_is_cut_and_nothing_else(around: int, parts: list[tuple[str, int]]) -> None:
    made: list[Any] = []
    for kind, count in parts:
        spike: Any = []
        for _ in range(count - 1):
            spike = [spike]
        made.append({"spike": spike, "flat": [[]] * count, "text": '"[' * count}[kind])
    value: Any = made
    for _ in range(around):
        value = [value]
    data = json.dumps(value).encode()
    found = nesting.bounded(data)
    deep = levels_of(value) > nesting.MAX_DEPTH
    assert (nesting.MARK.encode() in found) is deep
    assert (found == data) is not deep
    assert levels_of(json.loads(found)) <= nesting.MAX_DEPTH


def levels_of(value: Any) -> int:
    level, inner = 0, [value]
    while inner := [one for one in inner if isinstance(one, list)]:
        level, inner = level + 1, [each for one in inner for each in one]
    return level


@pytest.mark.parametrize("deep", [b"[]", b"[[]]", b'{"a":[]}'])
def test_no_result_is_longer_than_what_was_cut(deep: bytes) -> None:
    data = b"[" * nesting.MAX_DEPTH + b",".join([deep] * 1000) + b"]" * nesting.MAX_DEPTH
    assert len(nesting.bounded(data)) < len(data)
