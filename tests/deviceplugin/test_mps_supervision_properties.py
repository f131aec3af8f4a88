"""Whatever is seen in whatever order, a supervisor keeps its promises. What is seen rests on NVIDIA's answers."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_api.gpunode import MPS, Mode
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import steps, supervision
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.mps.seen import Seen
from mps_kit import active, exchanges, heard, programs

POLICY = supervision.Policy()
PIDS = st.integers(min_value=100, max_value=104)
CLIENTS = st.frozensets(st.integers(min_value=1, max_value=3), max_size=3).map(lambda pids: tuple(sorted(pids)))


@st.composite
def servers(draw: st.DrawFn) -> Server:
    """Return what the agent makes of the recorded answers of a driver, with any PIDs and number of clients.

    A server at FAULT that has clients was seen on a GPU, but its list of clients was not recorded: it is drawn.
    """
    driver, state = draw(st.sampled_from(heard.recordings()))
    seen = heard.observed(driver, state, server=draw(PIDS), clients=draw(CLIENTS))
    if seen.state is MPS.FAULT:
        seen = dataclasses.replace(seen, clients=draw(CLIENTS))
    fatal = seen.pid is not None and draw(st.booleans()) and draw(st.booleans())
    return dataclasses.replace(seen, faults=FATAL if fatal else ())


FATAL = tuple(active.kept("580.159.04")["fatal"])
SEEN = st.builds(
    Seen,
    server=servers(),
    compute_mode=st.sampled_from(list(ComputeMode)),
    processes=st.frozensets(st.integers(min_value=1, max_value=4), max_size=2),
    before=st.sampled_from([None, ComputeMode.DEFAULT]),
    event=st.booleans(),
)
WANTED = st.sampled_from([Mode.SHARED, Mode.WHOLE, Mode.EXCLUDED, None])
HISTORY = st.lists(st.tuples(SEEN, WANTED, st.floats(min_value=0, max_value=70)), min_size=1, max_size=12)


def decided(
    history: list[tuple[Seen, Mode | None, float]],
) -> list[tuple[Seen, Mode | None, supervision.Decision]]:
    """One supervisor's decisions."""
    state, now, made = supervision.State(), 1000.0, []
    for seen, wanted, after in history:
        now += after
        decision = supervision.decide(state, seen, wanted, now=now, policy=POLICY)
        state = decision.state
        made.append((seen, wanted, decision))
    return made


READ = {
    exchanges.State.NO_SERVER: (MPS.STOPPED, None, ()),
    exchanges.State.STARTING: (MPS.STARTING, 100, ()),
    exchanges.State.ENDING: (MPS.FAULT, 100, ()),
    active.ACTIVE: (MPS.ACTIVE, 100, (1, 3)),
}
"""State, PID and clients that the agent reads, by what was recorded."""


@pytest.mark.parametrize(("driver", "state"), heard.recordings())
def test_whole_answers_of_a_driver_are_read(driver: str, state: str) -> None:
    seen = heard.observed(driver, state, server=100, clients=(1, 3))
    assert (seen.state, seen.pid, seen.clients) == READ[state]
    assert seen.initializes is (state == exchanges.State.STARTING)
    assert not seen.outdated


def test_a_server_is_seen_in_each_state_and_each_driver_is_there() -> None:
    assert {state for _, state in heard.recordings()} == set(READ)
    assert {driver.partition(".")[0] for driver, _ in heard.recordings()} == set(programs.DRIVERS)


@given(HISTORY)
def test_nothing_is_changed_under_a_process_that_uses_the_gpu(
    history: list[tuple[Seen, Mode | None, float]],
) -> None:
    changes = steps.StartServer | steps.StopServer | steps.SetComputeMode
    for seen, _, decision in decided(history):
        assert not (seen.users and any(isinstance(action, changes) for action in decision.actions))


@given(HISTORY)
def test_shared_gpu_is_ready_only_behind_an_active_server_and_a_closed_mode(
    history: list[tuple[Seen, Mode | None, float]],
) -> None:
    for seen, wanted, decision in decided(history):
        if wanted is Mode.SHARED and decision.ready:
            assert seen.server.state is MPS.ACTIVE
            assert seen.compute_mode is ComputeMode.EXCLUSIVE_PROCESS
            assert not decision.actions


@given(HISTORY)
def test_whole_gpu_is_ready_only_without_a_server(
    history: list[tuple[Seen, Mode | None, float]],
) -> None:
    for seen, wanted, decision in decided(history):
        if wanted is Mode.WHOLE and decision.ready:
            assert (seen.server.pid, seen.compute_mode) == (None, ComputeMode.DEFAULT)


@given(HISTORY)
def test_what_is_not_ready_says_why_or_does_something(
    history: list[tuple[Seen, Mode | None, float]],
) -> None:
    for _, _, decision in decided(history):
        assert decision.ready or decision.reason or decision.actions


@given(HISTORY)
def test_only_clients_of_the_server_are_ended_through_it_and_only_whom_a_fault_hit_is_named_for_eviction(
    history: list[tuple[Seen, Mode | None, float]],
) -> None:
    for seen, _, decision in decided(history):
        for action in decision.actions:
            if isinstance(action, steps.TerminateClients):
                assert action.pids <= frozenset(seen.server.clients)
            if isinstance(action, steps.EvictStayers):
                assert action.pids <= seen.users


@given(HISTORY)
def test_server_that_initializes_is_waited_for_and_only_it(
    history: list[tuple[Seen, Mode | None, float]],
) -> None:
    for seen, _, decision in decided(history):
        if decision.starts:
            assert seen.server.initializes
            assert not decision.ready


@given(st.lists(st.floats(min_value=0.1, max_value=5), min_size=60, max_size=60))
def test_server_that_never_gets_ready_is_replaced_within_a_bound(pauses: list[float]) -> None:
    stuck = Seen(
        server=Server(state=MPS.STARTING, pid=100, reason="server 100 says INITIALIZING", initializes=True),
        compute_mode=ComputeMode.EXCLUSIVE_PROCESS,
    )
    state, now = supervision.State(), 1000.0
    for step in [*pauses, POLICY.starting_seconds]:
        decision = supervision.decide(state, stuck, Mode.SHARED, now=now, policy=POLICY)
        if decision.actions:
            assert decision.actions == (steps.StopServer(),)
            assert now - 1000.0 <= POLICY.starting_seconds + 5
            return
        state, now = decision.state, now + step
    decision = supervision.decide(state, stuck, Mode.SHARED, now=now, policy=POLICY)
    assert decision.actions == (steps.StopServer(),)
