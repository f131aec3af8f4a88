"""Kubernetes quantities."""

from decimal import Decimal

import pytest

from cotenant_api import errors, quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("8Gi", str(8 * 2**30)),
        ("512Mi", str(512 * 2**20)),
        ("1k", "1000"),
        ("500m", "0.5"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("4e9", "4000000000"),
        ("1E", "1000000000000000000"),
        ("1E3", "1000"),
        ("1Ei", str(2**60)),
        ("+7", "7"),
    ],
)
def test_a_quantity_is_the_number_that_kubernetes_reads(text: str, value: str) -> None:
    assert quantity.parse(text, field="x") == Decimal(value)


@pytest.mark.parametrize("text", ["", "x", "-1", "1 Gi", "1gi", "Gi", "1e", "NaN", "Infinity", "1KiB"])
def test_what_is_no_quantity_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"^spec\.gpuMemory: "):
        quantity.parse(text, field="spec.gpuMemory")


def test_mebibytes_are_rounded_up_so_that_a_booking_is_never_too_small() -> None:
    assert quantity.mebibytes("1Mi", field="x") == 1
    assert quantity.mebibytes(str(2**20 + 1), field="x") == 2


def test_a_fraction_is_no_count() -> None:
    with pytest.raises(errors.InvalidInputError, match="must be a whole number"):
        quantity.integer("500m", field="x")


def test_cpu_is_counted_in_thousandths() -> None:
    assert quantity.millis("2", field="x") == 2000
    assert quantity.millis("100m", field="x") == 100


def test_an_exponent_beyond_reason_is_refused_and_costs_nothing() -> None:
    with pytest.raises(errors.InvalidInputError):
        quantity.mebibytes("1e999999999", field="x")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e60", quantity.MAX),
        ("1e999999", quantity.MAX),
        ("99999999999999999999Ei", quantity.MAX),
        ("500m", Decimal("0.5")),
    ],
)
def test_what_kubernetes_has_let_in_counts_as_it_counts_it(text: str, value: Decimal) -> None:
    assert quantity.counted(text, field="x") == value


def test_an_exponent_of_many_digits_stands_for_nothing_or_for_almost_nothing() -> None:
    assert quantity.counted("0e999999", field="x") == 0
    assert 0 < quantity.counted("1e-999999", field="x") < Decimal("1e-9")
