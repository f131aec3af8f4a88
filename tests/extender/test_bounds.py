"""On how many GPUs a namespace may be, and from when on."""

import math

import numpy as np
import pytest

from cotenant_api.names import Namespace
from cotenant_extender.queue import bounds

TEAM = Namespace("team")
OWN = np.array([[[True], [False]]])


def bound(most: int, *elsewhere: float) -> bounds.Bound:
    """On one node with two GPUs, it is on the first."""
    return bounds.Bound(TEAM, most, OWN, np.array(elsewhere))


@pytest.mark.parametrize(("namespace", "own"), [("team", [[[True, False], [False, True]]]), ("others", None)])
def test_one_more_tenant_of_its_own_is_the_last_on_its_gpu(namespace: str, own: object) -> None:
    found = bound(2).joined((0, 1), Namespace(namespace))
    assert found.own.tolist() == (own or [[[True, False], [False, False]]])
    assert found.until(np.array([[[5.0, 7.0], [6.0, 8.0]]])).tolist() == [[5.0, 8.0 if own else -math.inf]]


@pytest.mark.parametrize(
    ("most", "elsewhere", "count", "ready"),
    [
        (1, (), 1, 50.0),
        (2, (), 1, 10.0),
        (2, (), 2, 50.0),
        (2, (), 3, math.inf),
        (2, (30.0, 70.0), 1, 50.0),
        (1, (30.0,), 1, 50.0),
        (2, (30.0,), 2, 50.0),
    ],
)
def test_a_namespace_may_be_on_further_gpus_when_it_has_left_as_many(
    most: int, elsewhere: tuple[float, ...], count: int, ready: float
) -> None:
    seats = bounds.Seats(bound(most, *elsewhere), np.array([[[50.0], [90.0]]]), now=10.0)
    assert seats.starts(np.array([[20.0, 5.0]]), count).tolist() == [[20.0, ready]]
