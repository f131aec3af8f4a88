"""YAML that people write: the values that kubectl reads, and one error for what JSON cannot hold."""

import itertools
from typing import Any

import pytest

from cotenant_api import errors, nesting, written


def read(text: str) -> Any:
    return written.one(text, field="--filename", source="job.yaml")


def refused(text: str) -> str:
    with pytest.raises(errors.InvalidInputError) as caught:
        read(text)
    assert caught.value.field == "--filename"
    assert caught.value.value == "job.yaml"
    return caught.value.remedy


@pytest.mark.parametrize(
    "text", ["12:30:00", "1:30.5", "2024-01-01", "2024-13-01", "2024-01-01T00:00:00Z", "=", "1.2.3", "0x", "-", "a_b"]
)
def test_what_kubectl_takes_for_a_string_is_a_string(text: str) -> None:
    assert read(f"a: [{text}]") == {"a": [text]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-1_000", -1000),
        ("0x1f", 31),
        ("0b11", 3),
        ("010", 8),
        ("0o10", 8),
        ("3.5", 3.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("'7'", "7"),
        ("!!str 7", "7"),
    ],
)
def test_what_kubectl_takes_for_more_is_more(text: str, value: object) -> None:
    found = read(f"a: {text}")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_a_mapping_may_be_named_and_merged() -> None:
    assert read("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}") == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}


def test_documents_are_told_apart_and_empty_ones_left_out() -> None:
    assert written.every("---\n---\na: 1\n---\n2\n", field="f", source="s") == [{"a": 1}, 2]
    assert read("") is None
    assert refused("1\n---\n2\n") == "must hold one YAML document; it holds 2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: key 'a' is there twice"),
        ("1: 2", "line 1: '1' is no key"),
        ("yes: 2", "line 1: 'yes' is no key"),
        ("? [a]\n: 1", "line 1: a list or mapping is no key"),
        ("a: !!binary aGk=", "line 1: 'tag:yaml.org,2002:binary' is no tag of JSON"),
        ("a: !!int ''", "line 1: 'tag:yaml.org,2002:int' is no tag of JSON"),
        ("a: !!set {b}", "line 1: could not determine a constructor"),
        ("a: !!python/object:object {}", "line 1: could not determine a constructor"),
        ("a: .inf", "line 1: '.inf' is no number of JSON"),
        ("a: 1e999", "line 1: '1e999' is no number of JSON"),
        (f"a: {2**64}", f"line 1: '{2**64}' is no number of JSON"),
        ("a: &a [*a]", "line 1: an alias stands inside of what it stands for"),
        ("a: &a {<<: *a}", "line 1: an alias stands inside of what it stands for"),
        ("a: [", "line 1: while parsing a flow node"),
        ("a: \x00", "special characters are not allowed"),
        ('a: "\\ud800"', "surrogates not allowed"),
    ],
)
def test_what_is_no_value_of_json_is_refused_with_its_line(text: str, said: str) -> None:
    assert said in refused(text)


@pytest.mark.parametrize("text", ["[" * 10_000, "{a: " * 10_000, "- " * 10_000 + "a"])
def test_what_is_nested_too_deep_is_refused(text: str) -> None:
    assert f"is nested deeper than {nesting.MAX_DEPTH} levels" in refused(text)


@pytest.mark.parametrize("inner", ["[*{before}, *{before}]", "{{<<: [*{before}, *{before}]}}"])
def test_aliases_that_repeat_each_other_do_not_fill_the_memory(inner: str) -> None:
    names = [f"a{number}" for number in range(40)]
    lines = [f"{name}: &{name} {inner.format(before=before)}" for before, name in itertools.pairwise(names)]
    assert f"more than {written.MAX_NODES} values" in refused("\n".join(["a0: &a0 {x: 1}", *lines]))


def test_aliases_do_not_nest_deeper_than_brackets_may() -> None:
    lines = [f"a{number}: &a{number} [*a{number - 1}]" for number in range(1, 100)]
    assert "is nested deeper" in refused("\n".join(["a0: &a0 x", *lines]))


@pytest.mark.parametrize(
    "string", ["1e3", "08", "0o10", "y", "N", "12:30:00", "2024-01-01", "yes", "7", ".inf", "~", "", "=", "<<", "plain"]
)
def test_a_string_is_written_so_that_it_is_read_as_one(string: str) -> None:
    shown = written.text({"a": string, string: 1.5})
    assert read(shown) == {"a": string, string: 1.5}


@pytest.mark.parametrize("string", ["y", "n", "1e3"])
def test_what_kubectl_takes_for_more_than_a_string_is_written_in_quotes(string: str) -> None:
    assert written.text([string]) == f"- '{string}'\n"
