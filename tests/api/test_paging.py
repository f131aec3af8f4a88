"""Limits of the pages of a list, by what the pages before had."""

import itertools

import pytest

from cotenant_api import paging

MOST = 500


def asked(sizes: list[int], readable: int) -> list[int]:
    """Limits by which objects of these sizes are listed, where a page may have so many bytes."""
    limits, begin, limit = [], 0, MOST
    while begin < len(sizes):
        limits.append(limit)
        if limit > 1 and sum(sizes[begin : begin + limit]) > readable:
            limit = paging.smaller(limit)
        else:
            begin += limit
            limit = paging.larger(limit, MOST)
    return limits


@pytest.mark.parametrize("place", [0, 400, 9_999])
def test_one_large_object_costs_few_pages_more(place: int) -> None:
    sizes = [1] * 10_000
    sizes[place] = 15_990
    assert len(asked(sizes, 16_000)) <= 20 + 25


def test_pages_of_large_objects_are_rarely_read_in_vain() -> None:
    limits = asked([500] * 5000, 16_000)
    in_vain = sum(1 for one, following in itertools.pairwise(limits) if following < one)
    assert in_vain <= len(limits) / 4


def test_one_object_is_asked_for_at_least() -> None:
    assert paging.smaller(1) == paging.smaller(7) == 1
