"""Which processes hold a GPU without its MPS server, by what one observation proves."""

from dataclasses import replace

import pytest

from cotenant_api.gpunode import MPS
from cotenant_deviceplugin.mps.backend import Server
from cotenant_deviceplugin.mps.seen import Seen
from deviceplugin.observed import DAEMON, EXCLUSIVE, STOPPED, active, at_fault, pids

SILENT = Server(state=MPS.STARTING, reason="did not answer", daemon=DAEMON)
INITIALIZING = Server(state=MPS.STARTING, pid=100, initializes=True, daemon=DAEMON)
NO_DAEMON = Server(state=MPS.STOPPED, reason="no MPS control daemon")


def seen(server: Server, *processes: int) -> Seen:
    return Seen(server=server, compute_mode=EXCLUSIVE, processes=pids(*processes))


@pytest.mark.parametrize(
    ("server", "processes", "bypassing"),
    [
        (STOPPED, (7, 9), (7, 9)),
        (INITIALIZING, (100, 9), (9,)),
        (active(7), (100, 7, 9), (9,)),
        (active(7, 8), (100, 7), ()),
        (at_fault(7), (100, 7, 9), (9,)),
    ],
)
def test_who_is_no_client_of_a_server_that_its_daemon_tells_of_holds_the_gpu_without_it(
    server: Server, processes: tuple[int, ...], bypassing: tuple[int, ...]
) -> None:
    found = seen(server, *processes)
    assert (found.answered, found.bypassing) == (True, pids(*bypassing))


@pytest.mark.parametrize("unasked", [SILENT, NO_DAEMON])
def test_all_who_hold_a_gpu_whose_daemon_does_not_answer_may_do_so_without_a_server(unasked: Server) -> None:
    found = seen(unasked, 7, 9)
    assert (found.answered, found.bypassing) == (False, pids(7, 9))


@pytest.mark.parametrize("unasked", [SILENT, NO_DAEMON])
def test_a_known_server_that_holds_the_gpu_may_have_all_others_as_clients(unasked: Server) -> None:
    assert seen(replace(unasked, pid=100), 100, 7).bypassing == pids()


@pytest.mark.parametrize("unasked", [SILENT, NO_DAEMON])
def test_a_known_server_that_does_not_hold_the_gpu_has_no_clients(unasked: Server) -> None:
    assert seen(replace(unasked, pid=100), 7).bypassing == pids(7)
