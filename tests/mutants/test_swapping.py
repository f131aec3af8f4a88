"""A function's code is exchanged in a process that imported it; what that cannot show is imported anew."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from mutants import lines, mutation, swapping

SOURCE = """
import functools

LIMIT = 3


def plain(value, least=1):
    return [each for each in value if each > least]


@functools.cache
def cached(value):
    return value + 1


class Thing:
    kind = 1

    def __init__(self, value):
        self._value = value

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, wanted):
        self._value = wanted + 1
"""


def imported(path: Path) -> dict[str, Any]:
    path.write_text(SOURCE)
    return runpy.run_path(str(path))


@pytest.mark.parametrize(
    ("old", "new", "use", "before", "after"),
    [
        ("each > least", "each >= least", lambda names: names["plain"]([1, 2]), [2], [1, 2]),
        ("value + 1", "value - 1", lambda names: names["cached"].__wrapped__(5), 6, 4),
        ("return self._value", "return 7", lambda names: names["Thing"](5).value, 5, 7),
    ],
)
def test_the_body_of_a_function_is_exchanged(
    tmp_path: Path, old: str, new: str, use: Any, before: Any, after: Any
) -> None:
    path = tmp_path / "x.py"
    names = imported(path)
    assert use(names) == before
    change = swapping.change(SOURCE, SOURCE.replace(old, new), path)
    assert change is not None
    swap = swapping.swap(swapping.functions(tmp_path), path, change)
    assert swap is not None
    swap.make()
    assert use(names) == after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("least=1", "least=2"),
        ("@functools.cache", "@functools.lru_cache(1)"),
        ("kind = 1", "kind = 2"),
        ("class Thing:", "class Thing(int):"),
    ],
)
def test_an_edit_outside_of_the_body_of_a_function_is_left_to_an_import(old: str, new: str) -> None:
    assert swapping.change(SOURCE, SOURCE.replace(old, new), Path("x.py")) is None


def test_a_setter_is_not_taken_for_the_getter_of_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    names = imported(path)
    change = swapping.change(SOURCE, SOURCE.replace("wanted + 1", "wanted * 10"), path)
    assert change is not None
    swap = swapping.swap(swapping.functions(tmp_path), path, change)
    assert swap is not None
    swap.make()
    thing = names["Thing"](5)
    assert thing.value == 5
    thing.value = 5
    assert thing.value == 50


def test_what_imports_run_is_tried_with_every_test_and_every_seed() -> None:
    ran = lines.Ran(
        {"a::t": 2.0, "b/test_x.py::t": 3.0, "c::t": 0.1, "seed 0": 1.0}, {"x.py": {1: [lines.AT_IMPORT], 2: ["a::t"]}}
    )
    mutants = [
        mutation.Mutant(group="g", name="f", file="x.py", first=n, last=n, old="", new="", content="")
        for n in (1, 2, 3)
    ]
    found = [[ran.covering(mutant, slow=slow) for slow in (False, True)] for mutant in mutants]
    assert found == [[["c::t"], ["b/test_x.py::t", "a::t"]], [[], ["a::t"]], [[], []]]
    assert [ran.seeds(mutant) for mutant in mutants] == [["seed 0"], [], []]
    assert (ran.at_import("x.py", [0, 1]), ran.at_import("x.py", [2])) == (True, False)
