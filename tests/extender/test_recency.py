"""Which news of an object are believed."""

from typing import NamedTuple

from cotenant_extender.ledger import recency


class Known(NamedTuple):
    """An object of this version."""

    version: int


def test_of_the_objects_that_are_gone_the_latest_are_remembered() -> None:
    found = recency.Recency[str](gone_limit=2)
    assert [found.forget(key) for key in "abc"] == [True, True, True]
    assert [found.believes(key, Known(1), known=None) for key in "abc"] == [True, False, False]
    assert not found.forget("c")


def test_a_key_that_may_be_used_again_is_not_remembered() -> None:
    found = recency.Recency[str]()
    assert found.forget("a")
    assert found.believes("a", Known(1), known=None)


def test_before_any_list_whatever_is_newer_than_the_object_is_believed() -> None:
    found = recency.Recency[str]()
    assert found.believes("a", Known(1), known=Known(0))
    assert not found.believes("a", Known(1), known=Known(2))


def test_what_a_list_had_seen_already_is_older_than_it_is() -> None:
    found = recency.Recency[str]()
    found.begin()
    found.end(7)
    assert not found.believes("a", Known(7), known=Known(3))
    assert found.believes("a", Known(8), known=Known(3))
