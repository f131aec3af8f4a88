"""What is known of groups: by graph, by class, by timings, and from an earlier run."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_runtime import graphs, groups, layout
from cotenant_runtime.gate import Group
from cotenant_runtime.graphs import Estimate, Rates
from cotenant_runtime.groups import SAMPLES, Book, Key, Sample

KEY = Key("model:layer", "Forward")
RATES = Rates(units=100, elements_per_unit=1000, flops_per_second=1e12, bytes_per_second=1e11, launch_seconds=0)
EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples" / "graphs"


@pytest.mark.parametrize(
    ("module", "expected"),
    [("Conv2d", "conv"), ("LSTM", "rnn"), ("BatchNorm2d", "norm"), ("MaxPool2d", "pool"), ("ReLU", "elementwise")],
)
def test_a_module_has_the_class_of_its_operators(module: str, expected: str) -> None:
    assert graphs.operator_class(module) == expected


def test_before_timings_matrix_work_counts_as_heavy_and_the_rest_as_light() -> None:
    book = Book()
    book.add(KEY, module="Linear")
    book.add(Key("model:act", "Forward"), module="ReLU")
    assert book.group(KEY).fill == layout.FULL_FILL
    assert book.group(Key("model:act", "Forward")).fill == 0


def test_the_graph_says_more_than_the_class() -> None:
    book = Book(priors={("matmul", "Forward"): Estimate(duration_ns=7, fill=30)})
    book.add(KEY, module="Linear")
    assert book.group(KEY) == Group(duration_ns=7, fill=30)


def test_timings_replace_what_was_known_by_their_medians() -> None:
    book = Book()
    book.add(KEY, module="Linear")
    for duration, fill in [(10, 500), (1000, 900), (20, 600), (15, 400), (30, 500)]:
        book.time(KEY, Sample(duration, fill))
    assert book.group(KEY) == Group(duration_ns=20, fill=500)
    book.time(KEY, Sample(10**9, 0))
    assert book.group(KEY).duration_ns == 20


def test_where_the_device_cannot_tell_the_fill_it_stays_as_it_was() -> None:
    book = Book(priors={("matmul", "Forward"): Estimate(duration_ns=7, fill=30)})
    book.add(KEY, module="Linear")
    book.time(KEY, Sample(40, None))
    assert book.group(KEY) == Group(duration_ns=40, fill=30)


def test_a_group_that_was_never_added_counts_as_heavy() -> None:
    assert Book().group(KEY).fill == layout.FULL_FILL


def test_what_one_run_has_learned_the_next_one_knows() -> None:
    first = Book()
    for _ in range(SAMPLES):
        first.time(KEY, Sample(40, 700))
    second = Book()
    second.restore(groups.from_json(groups.to_json(first.settled())))
    assert second.group(KEY) == Group(duration_ns=40, fill=700)
    assert not second.wants(KEY)


def test_rows_of_a_cache_that_are_out_of_range_are_left_out() -> None:
    rows: list[Any] = [
        ["a", "Forward", 1, 2],
        ["b", "Forward", -1, 2],
        ["c", "Forward", 1, 1001],
        ["d", "Forward", True, 2],
        ["e", 3, 1, 2],
        ["f", "Forward", 1],
        "g",
    ]
    assert groups.from_json(json.dumps({"v": 1, "groups": rows})) == {Key("a", "Forward"): Group(1, 2)}


@pytest.mark.parametrize("text", ["[]", "{}", '{"v": 2, "groups": []}', '{"v": 1, "groups": 3}', "nonsense"])
def test_a_cache_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a document|Expecting value"):
        groups.from_json(text)


def test_the_digest_tells_models_apart() -> None:
    assert groups.digest(["a", "bc"]) != groups.digest(["ab", "c"])


def test_an_estimate_is_the_formula_above_it() -> None:
    one = {"class": "matmul", "phase": "Forward", "flops": 10**9, "outputElements": 50_000, "repeat": 3}
    assert graphs.estimates([one], RATES) == {("matmul", "Forward"): Estimate(duration_ns=2_000_000, fill=500)}


def test_operators_that_take_the_time_decide_the_fill_of_their_class() -> None:
    long = {"class": "matmul", "phase": "Forward", "flops": 10**10, "outputElements": 10**6}
    short = {"class": "matmul", "phase": "Forward", "flops": 10**3, "outputElements": 100}
    assert graphs.estimates([long, short], RATES)[("matmul", "Forward")].fill >= 999


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json*"))[:3], ids=lambda path: path.name)
def test_graph_documents_of_the_examples_are_read(path: Path) -> None:
    found = graphs.estimates(graphs.read(path), RATES)
    assert found
    assert all(0 < one.fill <= layout.FULL_FILL and one.duration_ns >= 0 for one in found.values())


numbers = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3), st.booleans())


@given(st.lists(st.dictionaries(st.sampled_from(["flops", "bytesRead", "repeat", "outputElements", "class"]), numbers)))
def test_whatever_a_graph_says_estimates_stay_in_range(operators: list[dict[str, Any]]) -> None:
    for one in graphs.estimates(operators, RATES).values():
        assert 0 <= one.fill <= layout.FULL_FILL
        assert 0 <= one.duration_ns <= layout.MAX_SPAN_NS


@pytest.mark.parametrize(
    "content",
    [b"[]", b'{"operators": []}', b'{"operators": 3}', b"\x00", b" " * (graphs.MAX_BYTES + 1)],
)
def test_a_file_that_is_no_graph_document_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "graph.json"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"must be a graph document|Expecting value|decode"):
        graphs.read(file)


def test_an_archive_that_explodes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "graph.json.gz"
    file.write_bytes(gzip.compress(bytes(graphs.MAX_BYTES + 1)))
    with pytest.raises(ValueError, match="at most"):
        graphs.read(file)
