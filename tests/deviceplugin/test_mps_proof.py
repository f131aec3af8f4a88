"""What is said of a fault is one only with a proof, in whichever order the two come."""

from dataclasses import replace

import pytest

from cotenant_api.gpunode import MPS, Mode
from cotenant_deviceplugin.mps import proof
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.mps.steps import StartServer, StopServer
from deviceplugin.observed import GPU, STOPPED, active, at_fault, pids

SAID = "Client process 1 encountered a fatal GPU error."
OTHER = "Client process 2 encountered a fatal GPU error."


def test_line_alone_is_no_fault_and_is_told_once_as_unproven() -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    decisions = [gpu.see(active(1, 2, said=SAID)), *(gpu.see(active(1, 2)) for _ in range(9))]
    assert [(each.ready, each.published, each.actions, each.fault) for each in decisions] == [
        (True, MPS.ACTIVE, (), None)
    ] * 10
    assert [each.unproven for each in decisions] == [(), (), (), (SAID,), *[()] * 6]


def test_line_is_looked_into_soon_and_only_until_it_is_dropped() -> None:
    gpu = GPU()
    gpu.see(active(1))
    seen = [gpu.see(active(1, said=SAID)), *(gpu.see(active(1)) for _ in range(proof.LOOKS))]
    assert [each.state.heard.pending for each in seen] == [*[True] * proof.LOOKS, False]


def test_lines_without_end_prove_nothing_and_each_is_told() -> None:
    gpu = GPU()
    gpu.see(active(1))
    decisions = [gpu.see(active(1, said=SAID)) for _ in range(50)]
    assert {each.fault for each in decisions} == {None}
    assert sum(len(each.unproven) for each in decisions) == 50 - proof.LOOKS


@pytest.mark.parametrize("looks", range(proof.LOOKS + 1))
def test_line_is_proven_by_an_event_so_many_looks_later(looks: int) -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    decision = gpu.see(active(1, 2, said=SAID), event=looks == 0)
    for look in range(1, looks + 1):
        assert decision.fault is None
        decision = gpu.see(active(1, 2), event=look == looks)
    assert decision.fault is not None
    assert (decision.fault.reason, decision.fault.affected, decision.unproven) == (SAID, pids(1, 2), ())


@pytest.mark.parametrize("looks", range(1, proof.LOOKS + 1))
def test_line_is_proven_by_an_event_so_many_looks_before(looks: int) -> None:
    gpu = GPU()
    gpu.see(active(1))
    gpu.see(active(1), event=True)
    for _ in range(looks - 1):
        assert gpu.see(active(1)).fault is None
    assert gpu.see(active(1, said=SAID)).fault is not None


def test_event_too_far_from_a_line_proves_nothing() -> None:
    gpu = GPU()
    gpu.see(active(1), event=True)
    for _ in range(proof.LOOKS):
        gpu.see(active(1))
    assert gpu.see(active(1, said=SAID)).fault is None
    for _ in range(proof.LOOKS):
        gpu.see(active(1))
    assert gpu.see(active(1), event=True).fault is None


def test_event_alone_is_left_to_the_gpus_health() -> None:
    gpu = GPU()
    gpu.see(active(1))
    assert [gpu.see(active(1), event=True).fault for _ in range(3)] == [None] * 3


def test_line_is_proven_by_the_loss_of_all_clients_at_once_and_the_server_replaced() -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    began = gpu.see(active(said=SAID))
    assert began.fault is not None
    assert (began.fault.affected, began.actions) == (pids(1, 2), (StopServer(), StartServer()))


@pytest.mark.parametrize("left", [(), (7, 8)])
def test_fault_that_ended_before_the_next_look_is_seen_by_its_line_and_those_it_ended(left: tuple[int, ...]) -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    assert gpu.see(active(1, 2, said=SAID)).fault is None  # asked just before the fault, read just after it
    assert gpu.see(active(*left)).fault is not None


def test_clients_that_end_before_the_line_is_read_prove_it() -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    assert gpu.see(active()).fault is None
    assert gpu.see(active(said=SAID)).fault is not None


def test_clients_that_end_without_a_line_are_no_fault() -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    assert [gpu.see(active()).fault for _ in range(5)] == [None] * 5


def test_client_that_ends_itself_proves_nothing_while_a_neighbour_stays() -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    decisions = [gpu.see(active(1, said=SAID)), *(gpu.see(active(1, 3)) for _ in range(9))]
    assert {each.fault for each in decisions} == {None}


def test_client_that_the_agent_has_ended_or_that_is_its_own_proves_nothing() -> None:
    gpu = GPU()
    gpu.see(active(1, 9), own=pids(9))
    assert gpu.see(active(said=SAID), own=pids(1)).fault is None


def test_clients_of_a_server_that_cannot_be_asked_are_not_lost() -> None:
    gpu, silent = GPU(), Server(state=MPS.STARTING, pid=100, reason="did not answer")
    gpu.see(active(1))
    assert gpu.see(replace(silent, faults=(SAID,)), 1).fault is None
    assert gpu.see(active(1)).fault is None


@pytest.mark.parametrize("ended", [at_fault(2), STOPPED])
def test_fault_that_needs_no_line_takes_up_the_lines_that_belong_to_it(ended: Server) -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    assert gpu.see(active(1, 2, said=SAID)).fault is None
    assert gpu.see(replace(ended, faults=(OTHER,))).fault is not None
    seen = [gpu.see(STOPPED), *(gpu.see(active(pid=101, said=OTHER), event=True) for _ in range(3))]
    assert [(each.fault, each.unproven) for each in seen] == [(None, ())] * 4


def test_line_on_a_gpu_without_a_server_is_nothing() -> None:
    gpu = GPU(Mode.WHOLE)
    seen = [gpu.see(replace(STOPPED, faults=(SAID,)), event=True) for _ in range(9)]
    assert {(each.fault, each.unproven) for each in seen} == {(None, ())}


def test_line_ends_no_client_of_a_server_that_is_active_even_if_it_is_proven() -> None:
    gpu = GPU()
    gpu.see(active(1))
    began = gpu.see(active(1, said=SAID), event=True)
    assert began.fault is not None
    assert [began.actions, *(gpu.see(active(1), after=30).actions for _ in range(3))] == [()] * 4


def test_second_fault_long_after_the_first_is_proven_anew() -> None:
    gpu = GPU()
    gpu.see(active(1))
    assert gpu.see(active(1, said=SAID), event=True).fault is not None
    for _ in range(9):
        assert gpu.see(active(1)).fault is None
    assert gpu.see(active(1, said=SAID)).fault is None
    assert gpu.see(active(1), event=True).fault is not None
