"""Documents: canonical text, versions, and errors that name the field."""

import pytest

from cotenant_api import errors, placement
from cotenant_api.documents import canonical

EARMARK = '{"gpus":["GPU-1"],"node":"n1","v":1}'


def test_a_document_is_written_compact_with_sorted_keys() -> None:
    assert placement.Earmark(node="n1", gpus=("GPU-1",)).to_json() == EARMARK  # type: ignore[arg-type]


def test_what_is_written_is_read_back() -> None:
    earmark = placement.Earmark.from_json(EARMARK, source="x")
    assert earmark.to_json() == EARMARK


def test_unknown_keys_are_ignored() -> None:
    text = '{"v":1,"node":"n1","gpus":["GPU-1"],"addedLater":true}'
    assert placement.Earmark.from_json(text, source="x").to_json() == EARMARK


def test_a_higher_major_version_is_refused_with_the_remedy() -> None:
    with pytest.raises(errors.UnsupportedVersionError, match=r"x\.v: 2: this release reads version 1"):
        placement.Earmark.from_json('{"v":2}', source="x")


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^earmark: '\{': must be JSON"):
        placement.Earmark.from_json("{", source="earmark")


@pytest.mark.parametrize("text", ["[]", "1", "null", '"x"'])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="must be a JSON object"):
        placement.Earmark.from_json(text, source="earmark")


def test_deeply_nested_json_is_refused_and_not_a_crash() -> None:
    with pytest.raises(errors.InvalidInputError):
        placement.Earmark.from_json("[" * 200_000, source="earmark")


def test_a_wrong_field_is_named_with_its_path() -> None:
    text = (
        '{"v":1,"podUID":"u","node":"n","container":"c","policyGeneration":1,"backend":"MPS",'
        '"gpus":[{"uuid":"GPU-1","share":101,"activeThreadPercentage":60,"memoryMiB":1}]}'
    )
    with pytest.raises(
        errors.InvalidInputError, match=r"placement\.gpus\[0\]\.share: 101: .*less than or equal to 100"
    ):
        placement.Placement.from_json(text, source="placement")


def test_a_long_value_is_shortened_in_the_message() -> None:
    error = errors.InvalidInputError("field", "x" * 10_000, "remedy")
    assert len(str(error)) < 300


def test_infinities_are_not_written() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"a": float("inf")})
