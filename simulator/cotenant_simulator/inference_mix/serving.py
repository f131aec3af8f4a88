"""One replica that answers requests in the order in which they come, at a speed that changes. Exact, in one pass. Pure.

Between changes the replica does `speed` seconds of work in a second, so that by time t it could have done

    V(t) = integral of speed up to t

seconds of work. In this virtual time it is a server of speed 1: request n, which comes at a_n with work w, is done at

    D_n = max(D_{n-1}, V(a_n)) + w        (Lindley 1952)        = n w + max over k <= n of (V(a_k) - (k - 1) w)

and in real time at the t for which V(t) = D_n. A request during which the speed changes is slowed from then on.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant_predictor.trees import Array


class Speed(NamedTuple):
    """What a replica does from a time on: seconds of work, counted alone, in a second. More than 0."""

    seconds: float
    speed: float


def arrivals(rate: float, *, until: float, seed: Sequence[int]) -> Array:
    """Draw independent times from 0 to `until` seconds at which requests come, `rate` in a second on average.

    Given how many come, they are uniform over the time: which is the same as exponential times between them.
    """
    chance = np.random.default_rng(list(seed))
    times: Array = np.sort(chance.uniform(0.0, until, size=chance.poisson(rate * until)))
    return times


def latencies(times: Array, *, work: float, speeds: Sequence[Speed]) -> Array:
    """Seconds from each request's coming to its answer, shape (n,).

    Args:
        times: when requests come, ascending; none before the first of `speeds`.
        work: seconds that each takes alone.
        speeds: in order; the last holds for ever.
    """
    starts = np.array([one.seconds for one in speeds])
    rates = np.array([one.speed for one in speeds])
    possible = np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(starts))])
    come = _at(times, starts, rates, possible)
    done_before = work * np.arange(len(times))
    done = done_before + work + np.maximum.accumulate(come - done_before) if len(times) else come
    spans = np.searchsorted(possible, done, side="right") - 1
    ends = starts[spans] + (done - possible[spans]) / rates[spans]
    waited: Array = ends - times
    return waited


def _at(times: Array, starts: Array, rates: Array, possible: Array) -> Array:
    """V of each time."""
    spans = np.searchsorted(starts, times, side="right") - 1
    found: Array = possible[spans] + (times - starts[spans]) * rates[spans]
    return found
