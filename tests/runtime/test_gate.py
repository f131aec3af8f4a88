"""The gate: who passes, who waits, and that training always goes on."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_runtime import gate
from cotenant_runtime.demand import NOTHING, Demand
from cotenant_runtime.gate import Decision, Group, Limits, Question, Reason

MS = 1_000_000
SECOND = 1000 * MS
NOW = 10**12
HEAVY = Group(duration_ns=2 * MS, fill=900)
LIGHT = Group(duration_ns=2 * MS, fill=300)
IDLE = Demand(attached=True, latest_start_ns=None, fill=500)
URGENT = Demand(attached=True, latest_start_ns=NOW, fill=500)
LIMITS = Limits()


def decided(group: Group, demand: Demand, *, launched_ns: int = 0, limits: Limits = LIMITS) -> Decision:
    state = gate.initial(now_ns=NOW, limits=limits)
    return gate.decide(state, Question(NOW, group, demand, launched_ns), limits)[0]


@pytest.mark.parametrize(
    ("group", "demand", "reason"),
    [
        (HEAVY, NOTHING, Reason.NO_NEIGHBOUR),
        (HEAVY, IDLE, Reason.NO_REQUEST),
        (LIGHT, URGENT, Reason.LIGHT),
        (HEAVY, replace(URGENT, latest_start_ns=NOW + 8 * MS), Reason.SLACK),
    ],
)
def test_a_group_passes(group: Group, demand: Demand, reason: Reason) -> None:
    assert decided(group, demand) == Decision(wait=False, reason=reason)


def test_a_heavy_group_waits_while_a_request_needs_the_device() -> None:
    assert decided(HEAVY, URGENT) == Decision(wait=True, reason=Reason.REQUEST, at_most_ns=LIMITS.longest_wait_ns)


def test_slack_that_is_shorter_than_the_group_and_the_stated_delay_is_none() -> None:
    assert decided(HEAVY, replace(URGENT, latest_start_ns=NOW + 6 * MS)).wait


def test_a_group_that_is_light_beside_half_the_device_is_heavy_beside_all_of_it() -> None:
    assert decided(LIGHT, replace(URGENT, fill=1000)).wait


def test_a_group_that_fills_a_tenth_passes_in_any_case() -> None:
    assert not decided(Group(duration_ns=MS, fill=100), replace(URGENT, fill=1000)).wait


def test_launched_work_is_bounded_while_a_job_with_an_slo_is_attached() -> None:
    assert decided(HEAVY, IDLE, launched_ns=4 * MS).reason is Reason.LAUNCHED
    assert not decided(HEAVY, IDLE, launched_ns=3 * MS).wait
    assert not decided(HEAVY, NOTHING, launched_ns=400 * MS).wait


def test_a_group_that_is_longer_than_the_stated_delay_passes_when_nothing_else_is_launched() -> None:
    assert not decided(Group(duration_ns=50 * MS, fill=900), IDLE).wait


def test_a_single_wait_ends_at_its_bound() -> None:
    state = gate.initial(now_ns=NOW, limits=LIMITS)
    decision, state = gate.decide(state, Question(NOW, HEAVY, URGENT), LIMITS)
    later = NOW + LIMITS.longest_wait_ns
    decision, state = gate.decide(state, Question(later, HEAVY, URGENT), LIMITS)
    assert decision == Decision(wait=False, reason=Reason.BOUND)
    assert state.waited_ns == LIMITS.longest_wait_ns


def test_after_a_wait_at_its_bound_the_next_one_is_as_long_as_running_has_paid_for() -> None:
    state = replace(gate.initial(now_ns=NOW, limits=LIMITS), credit_ns=0)
    decision, _ = gate.decide(state, Question(NOW + 10 * MS, HEAVY, URGENT), LIMITS)
    assert decision == Decision(wait=True, reason=Reason.REQUEST, at_most_ns=90 * MS)


def test_a_clock_that_goes_back_gives_and_takes_nothing() -> None:
    state = gate.initial(now_ns=NOW, limits=LIMITS)
    _, state = gate.decide(state, Question(NOW, HEAVY, URGENT), LIMITS)
    _, after = gate.decide(state, Question(NOW - SECOND, HEAVY, URGENT), LIMITS)
    assert (after.waited_ns, after.credit_ns, after.at_ns) == (0, LIMITS.longest_wait_ns, NOW)


demands = st.builds(
    Demand,
    attached=st.booleans(),
    latest_start_ns=st.none() | st.integers(0, 2**62),
    fill=st.integers(1, 1000),
)
asked = st.tuples(
    st.integers(0, 3 * SECOND),
    st.builds(Group, duration_ns=st.integers(0, SECOND), fill=st.integers(0, 1000)),
    demands,
    st.integers(0, SECOND),
)
bounds = st.builds(
    Limits,
    delay_ns=st.integers(0, SECOND),
    longest_wait_ns=st.integers(1, 5 * SECOND),
    least_fraction=st.floats(0.01, 1),
)


@given(st.lists(asked, max_size=60), bounds)
def test_over_any_time_waiting_stays_within_what_was_promised(
    questions: list[tuple[int, Group, Demand, int]], limits: Limits
) -> None:
    """Time passes in pieces: at most `at_most_ns` while the gate says wait, anything else while it says pass."""
    now, waited, state = NOW, 0, gate.initial(now_ns=NOW, limits=limits)
    for pause, group, demand, launched in questions:
        decision, state = gate.decide(state, Question(now, group, demand, launched), limits)
        charged = decision.wait and decision.reason is Reason.REQUEST
        passed = min(pause, decision.at_most_ns) if charged else pause
        now, waited = now + passed, waited + (passed if charged else 0)
        assert 0 <= state.credit_ns <= limits.longest_wait_ns
        assert decision.at_most_ns >= 0 or not decision.wait
        assert waited <= limits.longest_wait_ns + (1 - limits.least_fraction) * (now - NOW) + 1


@given(st.lists(asked, max_size=60), bounds)
def test_a_group_that_is_asked_for_until_it_passes_does_so_within_the_longest_wait(
    questions: list[tuple[int, Group, Demand, int]], limits: Limits
) -> None:
    now, state = NOW, gate.initial(now_ns=NOW, limits=limits)
    for pause, group, demand, _ in questions:
        now += pause
        begin = now
        while True:
            decision, state = gate.decide(state, Question(now, group, demand), limits)
            if not decision.wait:
                break
            now += decision.at_most_ns
        assert now - begin <= limits.longest_wait_ns


@given(asked, bounds)
def test_without_a_neighbour_nothing_ever_waits(question: tuple[int, Group, Demand, int], limits: Limits) -> None:
    pause, group, _, launched = question
    state = gate.initial(now_ns=NOW, limits=limits)
    assert not gate.decide(state, Question(NOW + pause, group, NOTHING, launched), limits)[0].wait


@given(asked, bounds, st.integers(1, SECOND))
def test_a_later_latest_start_never_makes_a_group_wait_that_passed(
    question: tuple[int, Group, Demand, int], limits: Limits, more: int
) -> None:
    _, group, demand, launched = question
    state = gate.initial(now_ns=NOW, limits=limits)
    later = replace(demand, latest_start_ns=None if demand.latest_start_ns is None else demand.latest_start_ns + more)
    first = gate.decide(state, Question(NOW, group, demand, launched), limits)[0]
    second = gate.decide(state, Question(NOW, group, later, launched), limits)[0]
    assert first.wait or not second.wait


DAY = 24 * 3600 * SECOND
GROUP = Group(duration_ns=300 * MS, fill=1000)


def always(now: int, _draw: random.Random) -> Demand:
    return Demand(attached=True, latest_start_ns=now, fill=1000)


def often(now: int, draw: random.Random) -> Demand:
    return Demand(attached=True, latest_start_ns=now if draw.random() < 0.7 else None, fill=draw.randint(1, 1000))


def wild(now: int, draw: random.Random) -> Demand:
    return Demand(attached=draw.random() < 0.9, latest_start_ns=draw.choice([None, 0, now, now + SECOND]), fill=1000)


@pytest.mark.parametrize("neighbour", [always, often, wild])
def test_training_is_never_stuck_in_a_simulated_day(neighbour: object) -> None:
    """Whatever the neighbour asks for, a tenth of the day is training's, and no group starts later than a second."""
    assert callable(neighbour)
    draw = random.Random(1)  # noqa: S311 - no secret
    now, ran, state = 0, 0, gate.initial(now_ns=0, limits=LIMITS)
    while now < DAY:
        begin = now
        while True:
            decision, state = gate.decide(state, Question(now, GROUP, neighbour(now, draw)), LIMITS)
            if not decision.wait:
                break
            now += max(1, decision.at_most_ns if neighbour is always else draw.randint(1, decision.at_most_ns))
        assert now - begin <= LIMITS.longest_wait_ns
        now, ran = now + GROUP.duration_ns, ran + GROUP.duration_ns
    assert ran >= 0.1 * now - LIMITS.longest_wait_ns
