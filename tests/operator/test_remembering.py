"""A memory that namespaces share: who fills it forgets their own."""

from cotenant_operator.parsing.remembering import Remembered


def test_namespace_that_fills_the_memory_leaves_what_others_have() -> None:
    found: Remembered[int] = Remembered(10)
    found.put("team", "a", 1)
    found.put("team", "b", 2)
    for number in range(10_000):
        found.put("evil", str(number), number)
    assert (found.get("team", "a"), found.get("team", "b")) == (1, 2)
    assert len(found) == 10
    assert sorted(found.values()) == [1, 2, *range(9992, 10_000)]


def test_the_one_unused_for_longest_goes_first() -> None:
    found: Remembered[int] = Remembered(2)
    found.put("team", "a", 1)
    found.put("team", "b", 2)
    assert found.get("team", "a") == 1
    found.put("team", "c", 3)
    assert (found.get("team", "a"), found.get("team", "b"), found.get("team", "c")) == (1, None, 3)


def test_value_that_is_forgotten_makes_room() -> None:
    found: Remembered[int] = Remembered(1)
    found.put("team", "a", 1)
    found.put("team", "a", 2)
    found.forget("team", "a")
    found.forget("team", "a")
    found.put("evil", "b", 3)
    assert (len(found), found.get("team", "a"), found.get("evil", "b")) == (1, None, 3)
