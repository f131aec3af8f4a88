"""The gate of a training job: may the next group of operators start, or must it wait. Pure.

A group passes at once where no job with an SLO needs the device, where both fit beside each other, or where the slack
of the SLO job is longer than the group. Else it waits. Two rules bound the waiting:

- a single wait ends after `longest_wait_ns`;
- waiting is paid from an account that running fills: at most `longest_wait_ns`, plus `(1 - f) / f` of the time that the
  training ran, where `f` is the `least_fraction` of time that training keeps.

So over any time T in which the gate is asked, waiting takes at most `longest_wait_ns + (1 - f) * T`: training goes on.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from cotenant_runtime import demand as demands
from cotenant_runtime import layout


class Reason(enum.StrEnum):
    """Why a group passes or waits."""

    NO_NEIGHBOUR = "no job with an SLO is attached"
    NO_REQUEST = "no request needs the device"
    LIGHT = "the group and the requests fit beside each other"
    SLACK = "the deadline leaves time for the group"
    BOUND = "waiting has reached its bound"
    REQUEST = "a request needs the device"
    LAUNCHED = "launched work would delay a request for too long"


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the gate. Times are nanoseconds."""

    delay_ns: int = 5_000_000
    """Longest time for which launched and unfinished work may delay a request that arrives."""
    longest_wait_ns: int = 1_000_000_000
    least_fraction: float = 0.1
    light_fill: int = 100
    """Thousandths of the device that a group may fill and pass in any case."""


@dataclass(frozen=True, slots=True)
class Group:
    """What is known of the next group of operators."""

    duration_ns: int
    fill: int
    """Thousandths of the SMs, or of the cores, that it keeps busy."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the gate is asked."""

    now_ns: int
    group: Group
    demand: demands.Demand
    launched_ns: int = 0
    """Predicted time of work that is launched and not finished."""


@dataclass(frozen=True, slots=True)
class State:
    """What the gate remembers between two questions."""

    at_ns: int
    """Time of the last question."""
    credit_ns: int
    """Time that the training may still wait."""
    waiting_since_ns: int | None = None
    waited_ns: int = 0
    """Time waited since the start."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the group waits, why, and for how long at most."""

    wait: bool
    reason: Reason
    at_most_ns: int = 0


def initial(*, now_ns: int, limits: Limits) -> State:
    """Return the state of a gate that has never been asked."""
    return State(at_ns=now_ns, credit_ns=limits.longest_wait_ns)


def decide(state: State, question: Question, limits: Limits) -> tuple[Decision, State]:
    """Return what the group does now, and the state after it. Ask again while the answer is to wait."""
    now_ns = question.now_ns
    credit, waited = _charged(state, now_ns=now_ns, limits=limits)
    at = max(now_ns, state.at_ns)
    reason = _reason(question, limits)
    if reason is Reason.LAUNCHED:
        # Own work ends by itself, so it costs nothing of the account.
        return Decision(wait=True, reason=reason, at_most_ns=question.launched_ns), State(at, credit, None, waited)
    if reason is not Reason.REQUEST:
        return Decision(wait=False, reason=reason), State(at, credit, None, waited)
    since = now_ns if state.waiting_since_ns is None else state.waiting_since_ns
    left = min(credit, since + limits.longest_wait_ns - now_ns)
    if left <= 0:
        return Decision(wait=False, reason=Reason.BOUND), State(at, credit, None, waited)
    return Decision(wait=True, reason=reason, at_most_ns=left), State(at, credit, since, waited)


def _charged(state: State, *, now_ns: int, limits: Limits) -> tuple[int, int]:
    """Return credit and time waited, with the time since the last question counted as waiting or as running."""
    passed = max(0, now_ns - state.at_ns)
    if state.waiting_since_ns is not None:
        return max(0, state.credit_ns - passed), state.waited_ns + passed
    earned = int(passed * (1 - limits.least_fraction) / limits.least_fraction)
    return min(limits.longest_wait_ns, state.credit_ns + earned), state.waited_ns


def _reason(question: Question, limits: Limits) -> Reason:
    demand, group = question.demand, question.group
    ahead = question.launched_ns + group.duration_ns
    if not demand.attached:
        return Reason.NO_NEIGHBOUR
    if group.fill <= max(limits.light_fill, layout.FULL_FILL - demand.fill):
        return Reason.LIGHT
    if demand.latest_start_ns is not None and demand.latest_start_ns - question.now_ns < ahead + limits.delay_ns:
        return Reason.REQUEST
    if question.launched_ns > 0 and ahead > limits.delay_ns:
        return Reason.LAUNCHED
    return Reason.NO_REQUEST if demand.latest_start_ns is None else Reason.SLACK
