"""Whatever a daemon says, whenever and how often: without a proof nothing begins, with one a fault does, once."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from cotenant_api.gpunode import MPS, Mode
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import proof, supervision
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.mps.seen import Seen
from cotenant_deviceplugin.mps.steps import EvictStayers, TerminateClients
from deviceplugin.observed import GPU, STOPPED, active, at_fault

POLICY = supervision.Policy()
SAID = "Client process 1 encountered a fatal GPU error."
LINES = st.sampled_from([(), (), (SAID,), ("Server is handling a fatal GPU error.", SAID)])
RESIDENT = 1
"""A client that stays: who is hurt where a line is believed that lies."""
OTHERS = st.frozensets(st.integers(min_value=2, max_value=5), max_size=3)


@dataclass(frozen=True)
class Step:
    """One observation, and what is wanted then."""

    seen: Seen
    wanted: Mode | None
    after: float


def _server(draw: st.DrawFn, *, occupied: bool) -> Server:
    """One without a fault: it may start, be silent or be absent, and nobody's clients are all gone."""
    if not occupied and draw(st.booleans()):
        return draw(st.sampled_from([STOPPED, Server(state=MPS.STARTING, pid=99, initializes=True), active(pid=99)]))
    if draw(st.booleans()):
        return Server(state=MPS.STARTING, pid=100, reason="did not answer")
    return active(RESIDENT, *sorted(draw(OTHERS))) if occupied else active()


@st.composite
def unproven(draw: st.DrawFn) -> list[Step]:
    """Observations in which nothing tells of a fault but lines."""
    vacant, occupied = draw(st.integers(min_value=0, max_value=5)), draw(st.integers(min_value=0, max_value=12))
    steps = []
    for index in range(vacant + occupied):
        server = _server(draw, occupied=index >= vacant)
        seen = Seen(
            server=replace(server, faults=draw(LINES)),
            compute_mode=draw(st.sampled_from([ComputeMode.EXCLUSIVE_PROCESS, *ComputeMode])),
            processes=frozenset({RESIDENT}) if index >= vacant else frozenset(),
        )
        wanted = draw(st.sampled_from([Mode.SHARED, Mode.SHARED, Mode.SHARED, Mode.WHOLE, None]))
        steps.append(Step(seen, wanted, draw(st.floats(min_value=0, max_value=70))))
    return steps


def decided(steps: list[Step]) -> list[supervision.Decision]:
    """One supervisor's decisions."""
    state, now, made = supervision.State(), 1000.0, []
    for step in steps:
        now += step.after
        decision = supervision.decide(state, step.seen, step.wanted, now=now, policy=POLICY)
        state = decision.state
        made.append(decision)
    return made


def silent(steps: list[Step]) -> list[Step]:
    """The same without a line."""
    return [replace(step, seen=replace(step.seen, server=replace(step.seen.server, faults=()))) for step in steps]


def effect(decision: supervision.Decision) -> supervision.Decision:
    """All of a decision that anybody notices but an administrator."""
    return replace(decision, unproven=(), state=replace(decision.state, heard=proof.NOTHING))


@given(unproven())
def test_text_alone_begins_no_fault_and_ends_nobody(steps: list[Step]) -> None:
    ends = TerminateClients | EvictStayers
    for decision in decided(steps):
        assert decision.fault is None
        assert not any(isinstance(action, ends) for action in decision.actions)


@given(unproven())
def test_text_alone_changes_nothing_that_is_decided(steps: list[Step]) -> None:
    assert [effect(each) for each in decided(steps)] == [effect(each) for each in decided(silent(steps))]


@given(unproven())
def test_text_that_nothing_proves_is_told_once_or_waits(steps: list[Step]) -> None:
    shared = [replace(step, wanted=Mode.SHARED) for step in steps]
    decisions = decided(shared)
    said = sum(bool(step.seen.server.faults) for step in shared)
    waiting = len(decisions[-1].state.heard.lines) if decisions else 0
    assert sum(len(each.unproven) for each in decisions) + waiting == said
    assert waiting <= proof.LOOKS


@dataclass(frozen=True)
class Fault:
    """A fault and how it is seen.

    Attributes:
        proof: what shows it beside the line.
        line_at, proof_at: the looks at which they are seen.
        after: clients that have come when all of that time are gone.
        lasts: for how many looks the server says FAULT.
    """

    proof: str
    line_at: int
    proof_at: int
    after: frozenset[int]
    lasts: int


FAULTS = st.builds(
    Fault,
    proof=st.sampled_from(["event", "loss", "status", "ended"]),
    line_at=st.just(5),
    proof_at=st.integers(min_value=5 - proof.LOOKS, max_value=5 + proof.LOOKS),
    after=st.frozensets(st.integers(min_value=7, max_value=9), max_size=2),
    lasts=st.integers(min_value=1, max_value=3),
)


def _look(fault: Fault, at: int) -> Server:
    over = at >= fault.proof_at
    match fault.proof:
        case "status" if fault.proof_at <= at < fault.proof_at + fault.lasts:
            return at_fault(1, 2)
        case "ended" if over:
            return STOPPED if at == fault.proof_at else active(*sorted(fault.after), pid=101)
        case "loss" | "status" if over:
            return active(*sorted(fault.after))
    return active(1, 2)


@given(FAULTS)
def test_fault_with_a_proof_begins_once_in_whichever_order_it_is_seen(fault: Fault) -> None:
    gpu, began, told = GPU(), 0, 0
    for at in range(20):
        server = replace(_look(fault, at), faults=(SAID,) if at == fault.line_at else ())
        decision = gpu.see(server, event=fault.proof == "event" and at == fault.proof_at)
        began += decision.fault is not None
        told += len(decision.unproven)
    assert (began, told) == (1, 0)
