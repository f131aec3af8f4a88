"""Allocation by arrived demand, by examples that can be checked by hand."""

import pytest

from cotenant_simulator.openb import accounts


@pytest.mark.parametrize(("arrived", "column"), [(0, 0), (4, 0), (5, 1), (14, 1), (15, 2), (1000, 100), (1304, 130)])
def test_arrived_demand_is_rounded_to_the_nearest_percent_halves_up(arrived: int, column: int) -> None:
    assert accounts.column(arrived, 1000) == column


def test_a_column_is_the_mean_over_its_arrivals_in_percent_of_capacity() -> None:
    account = accounts.Account(capacity_milli=2000)
    account.add(50, 1000)
    account.add(50, 500)
    account.add(51, 2000)
    curve = account.curve()
    assert curve[50] == 37.5
    assert curve[51] == 100
    assert curve[52] is None
    assert len(curve) == 131


def test_what_arrives_beyond_the_last_column_is_not_counted() -> None:
    account = accounts.Account(capacity_milli=1000)
    account.add(131, 500)
    assert set(account.curve()) == {None}


def test_means_leave_out_what_is_unknown() -> None:
    assert accounts.mean([1.0, None, 3.0]) == 2.0
    assert accounts.mean([None]) is None
