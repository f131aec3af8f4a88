"""What gate and slack give together, in virtual time on a model of a device: both jobs run at half speed side by side.

The model is no measurement. It shows that the decisions keep the promise where the device does what they assume.
"""

import random
from collections import deque
from dataclasses import dataclass
from itertools import islice

import pytest

from cotenant_runtime import gate
from cotenant_runtime.demand import Demand
from cotenant_runtime.gate import Group, Limits, Question
from cotenant_runtime.serving import latest_start

TICK = 500_000
MS = 1_000_000
SERVICE = 15 * MS
GROUPS = [Group(duration_ns=duration * MS, fill=1000) for duration in (4, 12, 8, 30, 2)]
SECONDS = 60


@dataclass
class Outcome:
    """Of one run."""

    attainment: float
    multiple: float
    """Time of training as a multiple of alone."""


def simulated(*, per_second: float, deadline_ns: int, gated: bool, seed: int = 1) -> Outcome:
    """Run the two jobs; requests come by Poisson arrivals and are answered one after the other."""
    draw, limits = random.Random(seed), Limits()  # noqa: S311 - no secret
    state = gate.initial(now_ns=0, limits=limits)
    waiting: deque[int] = deque()
    arrival = round(draw.expovariate(per_second) * 1e9)
    served = left = 0
    group, trained, requests, met = 0, 0, 0, 0
    for now in range(0, SECONDS * 10**9, TICK):
        while arrival <= now:
            waiting.append(arrival)
            arrival += round(draw.expovariate(per_second) * 1e9)
        if left <= 0:
            # The first requests decide: the queue of a device that is asked for too much grows without end.
            first = [one + deadline_ns for one in islice(waiting, 20)]
            start = latest_start(first, SERVICE, now_ns=now) if first else None
            question = Question(now, GROUPS[group], Demand(attached=gated, latest_start_ns=start, fill=1000))
            decision, state = gate.decide(state, question, limits)
            if not decision.wait:
                left, group = GROUPS[group].duration_ns, (group + 1) % len(GROUPS)
        both = left > 0 and bool(waiting)
        if left > 0:
            part = TICK // 2 if both else TICK
            left, trained = left - part, trained + part
        if waiting:
            served += TICK // 2 if both else TICK
            if served >= SERVICE:
                served, requests = 0, requests + 1
                met += now + TICK <= waiting.popleft() + deadline_ns
    return Outcome(attainment=met / requests, multiple=SECONDS * 1e9 / trained)


@pytest.mark.parametrize("seed", range(3))
def test_requests_keep_their_deadline_and_training_most_of_its_speed(seed: int) -> None:
    found = simulated(per_second=10, deadline_ns=8 * SERVICE, gated=True, seed=seed)
    assert found.attainment >= 0.99
    assert found.multiple <= 1.35


def test_without_the_gate_the_same_requests_are_late() -> None:
    """With a deadline of four times the service, running side by side is not enough, and the gate is."""
    plain = simulated(per_second=10, deadline_ns=4 * SERVICE, gated=False)
    gated = simulated(per_second=10, deadline_ns=4 * SERVICE, gated=True)
    assert plain.attainment < 0.95 < gated.attainment
    assert gated.multiple <= 1.35


def test_slack_leaves_training_faster_than_a_deadline_without_slack() -> None:
    ample = simulated(per_second=20, deadline_ns=20 * SERVICE, gated=True)
    none = simulated(per_second=20, deadline_ns=SERVICE, gated=True)
    assert ample.multiple <= none.multiple
    assert ample.attainment >= 0.99


def test_requests_that_never_end_leave_training_its_least_part() -> None:
    found = simulated(per_second=200, deadline_ns=SERVICE, gated=True)
    assert found.multiple <= 1 / Limits().least_fraction * 2.2
