"""Revisions of the page: who has seen one is told what is newer, and all of it in the end."""

import json
import random

import pytest

from cotenant_dashboard.view.parts import Parts


def test_who_has_seen_nothing_is_told_everything() -> None:
    parts = Parts()
    parts.put("a", {"x": 1})
    parts.put("b", {"x": 2})
    change = parts.since(None)
    assert (change.whole, change.revision) == (True, 2)
    assert {key: json.loads(text) for key, text in change.parts.items()} == {"a": {"x": 1}, "b": {"x": 2}}


def test_what_is_as_it_was_is_no_news() -> None:
    parts = Parts()
    parts.put("a", {"x": 1})
    parts.put("a", {"x": 1})
    parts.remove("b")
    assert parts.revision == 1


def test_who_has_seen_a_revision_is_told_what_is_newer_in_order() -> None:
    parts = Parts()
    for key in "abc":
        parts.put(key, {"x": 1})
    seen = parts.revision
    parts.put("c", {"x": 2})
    parts.put("a", {"x": 2})
    parts.remove("b")
    change = parts.since(seen)
    assert (change.whole, list(change.parts), change.gone) == (False, ["c", "a"], ("b",))


def test_a_part_that_comes_back_is_not_gone() -> None:
    parts = Parts()
    parts.put("a", {})
    parts.remove("a")
    parts.put("a", {})
    change = parts.since(1)
    assert (list(change.parts), change.gone) == (["a"], ())


@pytest.mark.parametrize("revision", [-1, 3, 10**9])
def test_a_revision_of_another_page_is_none(revision: int) -> None:
    parts = Parts()
    parts.put("a", {})
    assert parts.since(revision).whole


def test_who_missed_more_than_is_kept_is_told_everything() -> None:
    parts = Parts(gone_limit=2)
    for key in "abc":
        parts.put(key, {})
    seen = parts.revision
    for key in "abc":
        parts.remove(key)
    assert parts.since(seen).whole
    assert parts.since(seen + 1).gone == ("b", "c")


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_who_asks_now_and_then_knows_what_there_is(seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311 -- the same each time
    parts, seen = Parts(), None
    known: dict[str, int] = {}
    there: dict[str, int] = {}
    for turn in range(300):
        key = chosen.choice("abcdef")
        if chosen.random() < 0.3:
            there.pop(key, None)
            parts.remove(key)
        else:
            there[key] = turn
            parts.put(key, {"x": turn})
        if chosen.random() < 0.2:
            change = parts.since(seen)
            known = {} if change.whole else known
            known |= {key: json.loads(text)["x"] for key, text in change.parts.items()}
            for gone in change.gone:
                known.pop(gone, None)
            seen = change.revision
            assert known == there
