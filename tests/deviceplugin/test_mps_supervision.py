"""What one GPU's MPS server and compute mode need next."""

from dataclasses import replace

import pytest

from cotenant_api.gpunode import MPS, Mode
from cotenant_deviceplugin.gpus.hardware import ComputeMode
from cotenant_deviceplugin.mps import supervision
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.mps.steps import (
    Action,
    EvictStayers,
    SetComputeMode,
    StartServer,
    StopServer,
    TerminateClients,
)
from deviceplugin.observed import DAEMON, EXCLUSIVE, GPU, STOPPED, active, at_fault, pids

UNMANAGED = supervision.Policy(manage_compute_mode=False)
NO_DAEMON = Server(state=MPS.STOPPED, reason="no MPS control daemon")
SHARED = Mode.SHARED
WHOLE = Mode.WHOLE


def test_active_server_is_adopted_at_once_with_its_clients() -> None:
    decision = GPU().see(active(1, 2, 3))
    assert (decision.ready, decision.published, decision.actions) == (True, MPS.ACTIVE, ())


def test_mode_that_cannot_be_shared_asks_for_nothing() -> None:
    decision = GPU(Mode.MIG).see(STOPPED, mode=ComputeMode.DEFAULT)
    assert (decision.ready, decision.published, decision.actions) == (False, MPS.NOT_USED, ())


def test_compute_mode_is_set_before_a_server_starts() -> None:
    gpu = GPU()
    assert gpu.see(STOPPED, mode=ComputeMode.DEFAULT).actions == (SetComputeMode(mode=EXCLUSIVE),)
    assert gpu.see(STOPPED).actions == (StartServer(),)
    assert gpu.see(active()).ready


def test_compute_mode_stays_while_a_process_uses_the_gpu() -> None:
    decision = GPU().see(active(7), mode=ComputeMode.DEFAULT)
    assert (decision.ready, decision.actions) == (False, ())
    assert decision.reason == "its compute mode is DEFAULT, used by 7"


def test_many_processes_in_the_way_are_not_all_named() -> None:
    decision = GPU().see(STOPPED, *range(1, 12), mode=ComputeMode.DEFAULT)
    assert (decision.reason or "").endswith("used by 1, 2, 3, 4, 5, 6, 7, 8 and 3 more")


def test_server_does_not_start_beside_a_process() -> None:
    decision = GPU().see(STOPPED, 7)
    assert (decision.ready, decision.actions, decision.reason) == (False, (), "used by 7")


@pytest.mark.parametrize("wanted", [SHARED, WHOLE])
@pytest.mark.parametrize("mode", [ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS])
def test_unmanaged_compute_mode_is_never_set(wanted: Mode, mode: ComputeMode) -> None:
    decision = GPU(wanted, UNMANAGED).see(active() if wanted is SHARED else STOPPED, mode=mode)
    assert (decision.ready, decision.actions) == (True, ())


@pytest.mark.parametrize("wanted", [SHARED, WHOLE])
def test_prohibited_gpu_that_may_not_be_changed_serves_nobody(wanted: Mode) -> None:
    decision = GPU(wanted, UNMANAGED).see(STOPPED, mode=ComputeMode.PROHIBITED)
    assert (decision.ready, decision.actions) == (False, ())
    assert decision.reason == "its compute mode is PROHIBITED"


def test_server_that_does_not_start_is_started_ever_more_rarely() -> None:
    gpu = GPU()
    starts = [second for second in range(200) if gpu.see(STOPPED, after=1).actions]
    assert starts[:7] == [0, 1, 3, 7, 15, 31, 61]


def test_server_that_starts_is_waited_for() -> None:
    gpu, starting = GPU(), Server(state=MPS.STARTING, pid=100, reason="server 100 says INITIALIZING")
    assert gpu.see(starting).published is MPS.STARTING
    assert gpu.see(starting, after=59).actions == ()
    assert gpu.see(active()).ready


def test_server_that_never_gets_ready_is_replaced() -> None:
    gpu, starting = GPU(), Server(state=MPS.STARTING, pid=100)
    gpu.see(starting)
    assert gpu.see(starting, after=60).actions == (StopServer(),)


def test_server_whose_daemon_does_not_answer_keeps_its_clients() -> None:
    gpu, silent = GPU(), Server(state=MPS.STARTING, pid=100, reason="did not answer")
    gpu.see(active(1))
    for _ in range(20):
        decision = gpu.see(silent, 1, after=10)
        assert (decision.ready, decision.actions, decision.fault) == (False, (), None)
    assert gpu.see(active(1)).ready


def test_server_with_other_limits_is_replaced_once_its_clients_have_ended() -> None:
    gpu, wrong = GPU(), Server(state=MPS.STARTING, pid=100, clients=(1,), outdated=True, reason="50 %")
    assert (gpu.see(wrong).ready, gpu.see(wrong).actions) == (False, ())
    assert gpu.see(replace(wrong, clients=())).actions == (StopServer(), StartServer())


def test_whole_gpu_has_no_server_and_default_mode() -> None:
    gpu = GPU(WHOLE)
    assert gpu.see(active()).actions == (StopServer(),)
    assert gpu.see(STOPPED).actions == (SetComputeMode(mode=ComputeMode.DEFAULT),)
    decision = gpu.see(STOPPED, mode=ComputeMode.DEFAULT)
    assert (decision.ready, decision.published) == (True, MPS.NOT_USED)


def test_whole_gpu_serves_several_processes() -> None:
    assert GPU(WHOLE).see(STOPPED, 7, 8, mode=ComputeMode.DEFAULT).ready


def test_server_with_clients_is_not_ended_for_a_whole_gpu() -> None:
    decision = GPU(WHOLE).see(active(1))
    assert (decision.ready, decision.actions, decision.published, decision.reason) == (
        False,
        (),
        MPS.ACTIVE,
        "used by 1",
    )


def test_fault_is_told_once_with_all_that_it_hit() -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    began = gpu.see(replace(at_fault(2), faults=("fatal",)))
    assert began.fault is not None
    assert (began.fault.server, began.fault.affected) == (100, pids(1, 2))
    assert (began.published, began.ready, gpu.see(at_fault(2)).fault) == (MPS.FAULT, False, None)


def test_clients_that_stay_after_a_fault_are_ended_and_then_named_for_eviction() -> None:
    gpu = GPU()
    gpu.see(at_fault(1, 2))
    assert gpu.see(at_fault(2), after=9).actions == ()
    assert gpu.see(at_fault(2), after=1).actions == (TerminateClients(pids=pids(2)),)
    named = gpu.see(at_fault(2), after=20)
    assert (named.actions, named.reason) == (
        (EvictStayers(pids=pids(2)),),
        "server 100 says FAULT; still there: 2",
    )


def test_fault_ends_with_a_new_server_that_proves_itself() -> None:
    gpu = GPU()
    gpu.see(at_fault(1))
    assert gpu.see(at_fault()).actions == (StopServer(), StartServer())
    proving = [gpu.see(active(pid=101)) for _ in range(3)]
    assert [(each.ready, each.published) for each in proving] == [
        (False, MPS.STARTING),
        (False, MPS.STARTING),
        (True, MPS.ACTIVE),
    ]


def test_new_server_that_is_still_starting_proves_nothing() -> None:
    gpu = GPU()
    gpu.see(at_fault())
    gpu.see(active(pid=101))
    assert gpu.see(Server(state=MPS.STARTING, pid=101)).ready is False
    assert [gpu.see(active(pid=101)).ready for _ in range(3)] == [False, False, True]


def test_server_that_recovered_with_new_clients_is_not_replaced_under_them() -> None:
    gpu = GPU()
    gpu.see(at_fault(1))
    assert [gpu.see(active(5)).actions for _ in range(3)] == [(), (), ()]
    assert gpu.see(active(5)).ready


def test_second_fault_while_the_server_proves_itself_is_told_again() -> None:
    gpu = GPU()
    gpu.see(at_fault())
    gpu.see(active(5, pid=101))
    again = gpu.see(at_fault(5, pid=101))
    assert again.fault is not None
    assert (again.fault.server, again.fault.affected) == (101, pids(5))


def test_server_that_dies_under_its_clients_is_a_fault() -> None:
    gpu = GPU()
    gpu.see(active(1, 2))
    began = gpu.see(STOPPED, 2)
    assert began.fault is not None
    assert (began.fault.reason, began.fault.affected) == ("server 100 ended under its clients", pids(1, 2))
    assert gpu.see(STOPPED, 2, after=30).actions == (EvictStayers(pids=pids(2)),)
    assert gpu.see(STOPPED).actions == (StartServer(),)


def test_server_that_dies_without_clients_is_started_again() -> None:
    gpu = GPU()
    gpu.see(active())
    again = gpu.see(STOPPED)
    assert (again.fault, again.actions) == (None, (StartServer(),))


def test_control_daemon_that_is_away_while_its_server_lives_is_no_fault() -> None:
    gpu = GPU()
    gpu.see(active(1))
    away = gpu.see(Server(state=MPS.STOPPED, pid=100, reason="no MPS control daemon"), 1)
    assert (away.fault, away.actions, away.ready) == (None, (), False)


@pytest.mark.parametrize("looks", [[], [NO_DAEMON], [replace(NO_DAEMON, pid=100), NO_DAEMON]])
def test_server_that_ends_together_with_its_daemon_is_no_fault_of_its_clients(looks: list[Server]) -> None:
    """As where the daemons' container is killed; the last look finds the daemon of the next one."""
    gpu = GPU()
    gpu.see(active(1))
    seen = [gpu.see(look) for look in [*looks, replace(STOPPED, daemon=DAEMON + 1)]]
    assert [each.fault for each in seen] == [None] * len(seen)
    assert gpu.see(active(pid=101)).ready


@pytest.mark.parametrize("unasked", [NO_DAEMON, Server(state=MPS.STARTING, reason="did not answer", daemon=DAEMON)])
def test_who_holds_a_gpu_whose_daemon_cannot_be_asked_is_in_the_way_unless_a_server_is_among_them(
    unasked: Server,
) -> None:
    """A fresh agent does not know the server: those that NVML lists may be the server and its clients."""
    gpu = GPU()
    decision = gpu.see(unasked, 100, 1, 2)
    assert (decision.ready, decision.actions, decision.published) == (False, (), unasked.state)
    assert (decision.blocking, decision.answered) == (pids(1, 2, 100), False)
    assert decision.reason == f"{unasked.reason}; used by 1, 2, 100"
    assert gpu.see(active(1, 2)).ready


@pytest.mark.parametrize("unasked", [NO_DAEMON, Server(state=MPS.STARTING, reason="did not answer", daemon=DAEMON)])
def test_clients_of_a_known_server_whose_daemon_cannot_be_asked_are_not_in_the_way(unasked: Server) -> None:
    gpu = GPU()
    gpu.see(active(1))
    assert gpu.see(replace(unasked, pid=100), 1).blocking == pids()


@pytest.mark.parametrize("mode", [ComputeMode.DEFAULT, ComputeMode.PROHIBITED])
def test_who_holds_a_shared_gpu_without_its_server_is_in_the_way_of_its_compute_mode(mode: ComputeMode) -> None:
    gpu = GPU()
    assert gpu.see(STOPPED, 9, mode=mode).blocking == pids(9)
    beside = gpu.see(active(1), 9, mode=mode)
    assert (beside.ready, beside.blocking) == (False, pids(9))


def test_the_tenant_of_a_whole_gpu_is_not_in_the_way_of_its_compute_mode() -> None:
    assert GPU(WHOLE).see(STOPPED, 7).blocking == pids()


def test_who_holds_the_gpu_while_its_server_initializes_is_in_the_way() -> None:
    gpu, starting = GPU(), Server(state=MPS.STARTING, pid=100, initializes=True, daemon=DAEMON)
    decision = gpu.see(starting, 9)
    assert (decision.actions, decision.blocking, decision.reason) == ((), pids(9), "used by 9")
    freed = gpu.see(starting, after=1)
    assert (freed.actions, freed.blocking) == ((), pids())
    assert gpu.see(active()).ready


def test_server_that_had_a_fault_proves_itself_only_while_it_is_active() -> None:
    gpu, silent = GPU(), Server(state=MPS.STARTING, pid=100, reason="did not answer", daemon=DAEMON)
    gpu.see(at_fault(1))
    gpu.see(active(5))
    assert [gpu.see(silent, 5).ready for _ in range(5)] == [False] * 5
    assert [gpu.see(active(5)).ready for _ in range(3)] == [False, False, True]


def test_who_takes_the_gpu_while_it_has_no_server_is_in_the_way() -> None:
    """A tenant without a server has no limit. Whether it is one, who asks for evictions knows."""
    gpu = GPU()
    gpu.see(at_fault(1, 2))
    assert gpu.see(at_fault()).actions == (StopServer(), StartServer())
    decision = gpu.see(STOPPED, 9)
    assert (decision.actions, decision.blocking, decision.reason) == ((), pids(9), "used by 9")
    assert gpu.see(STOPPED, after=1).actions == (StartServer(),)


def test_server_that_was_ended_in_good_order_is_no_fault_of_the_clients_that_it_had() -> None:
    gpu = GPU()
    gpu.see(active(1))
    gone = gpu.see(replace(STOPPED, ended=pids(100)))
    assert (gone.fault, gone.actions) == (None, (StartServer(),))
    gpu.see(active(1, pid=101))
    assert gpu.see(replace(STOPPED, ended=pids(100))).fault is not None


def test_client_that_had_ended_before_its_silent_server_did_is_no_proof_of_a_fault() -> None:
    gpu, silent = GPU(), Server(state=MPS.STARTING, pid=100, reason="no answer", daemon=DAEMON)
    gpu.see(active(1))
    gpu.see(silent, 1, 100)
    gpu.see(silent, 100)
    assert gpu.see(STOPPED).fault is None


def test_client_of_a_silent_server_that_ends_with_it_is_a_fault() -> None:
    gpu, silent = GPU(), Server(state=MPS.STARTING, pid=100, reason="no answer", daemon=DAEMON)
    gpu.see(active(1))
    gpu.see(silent, 1, 100)
    assert gpu.see(STOPPED).fault is not None


def test_compute_mode_is_repaired_before_a_server_starts_after_a_fault() -> None:
    gpu = GPU()
    gpu.see(active(1))
    gpu.see(STOPPED, mode=ComputeMode.DEFAULT)
    assert gpu.see(STOPPED, mode=ComputeMode.DEFAULT).actions == (SetComputeMode(mode=EXCLUSIVE),)


def test_agent_that_starts_during_a_fault_finds_it() -> None:
    gpu = GPU()
    began = gpu.see(at_fault(1))
    assert began.fault is not None
    assert began.fault.affected == {1}


class World:
    """A GPU that does what it is told, and a supervisor that may be killed between any two of its actions."""

    def __init__(self) -> None:
        self.mode, self.server, self.users = ComputeMode.DEFAULT, STOPPED, pids()
        self.next_pid = 100
        self.log: list[Action] = []

    def run(self, wanted: Mode, *, actions: int) -> bool:
        """Supervise with an empty memory until ready or for so many actions; whether it became ready."""
        gpu = GPU(wanted)
        for _ in range(20):
            decision = gpu.see(self.server, *self.users, mode=self.mode, after=60)
            if decision.ready:
                return True
            for action in decision.actions:
                if actions == 0:
                    return False
                actions -= 1
                self.act(action)
        return False

    def act(self, action: Action) -> None:
        """Do it, as the driver and MPS would."""
        assert not self.users, "nothing changes under a process that uses the GPU"
        self.log.append(action)
        match action:
            case StartServer():
                self.server, self.next_pid = active(pid=self.next_pid), self.next_pid + 1
            case StopServer():
                self.server = STOPPED
            case SetComputeMode(mode=mode):
                self.mode = mode


@pytest.mark.parametrize("interrupted_after", range(5))
@pytest.mark.parametrize(("first", "then"), [(SHARED, WHOLE), (WHOLE, SHARED)])
def test_change_of_modes_that_is_interrupted_anywhere_goes_on(first: Mode, then: Mode, interrupted_after: int) -> None:
    world = World()
    assert world.run(first, actions=99)
    world.run(then, actions=interrupted_after)
    assert world.run(then, actions=99)
    expected = (ComputeMode.DEFAULT, MPS.STOPPED) if then is WHOLE else (EXCLUSIVE, MPS.ACTIVE)
    assert (world.mode, world.server.state) == expected


@pytest.mark.parametrize("interrupted_after", range(5))
@pytest.mark.parametrize(("first", "then"), [(SHARED, WHOLE), (WHOLE, SHARED)])
def test_change_of_modes_that_is_taken_back_halfway_ends_where_it_began(
    first: Mode, then: Mode, interrupted_after: int
) -> None:
    world = World()
    world.run(first, actions=99)
    world.run(then, actions=interrupted_after)
    assert world.run(first, actions=99)
    expected = (ComputeMode.DEFAULT, MPS.STOPPED) if first is WHOLE else (EXCLUSIVE, MPS.ACTIVE)
    assert (world.mode, world.server.state) == expected


def test_gpu_in_use_is_left_as_it_is_whatever_is_wanted() -> None:
    world = World()
    world.run(SHARED, actions=99)
    world.users, done = pids(7), len(world.log)
    assert world.run(WHOLE, actions=99) is False
    assert len(world.log) == done
