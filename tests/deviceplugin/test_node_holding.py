"""Who has held a GPU without a server for too long."""

import pytest

from cotenant_api.names import PodUID
from cotenant_deviceplugin.gpus.processes import Owned
from cotenant_deviceplugin.node import holding

P, Q = PodUID("p"), PodUID("q")
DAEMONS = PodUID("mps")
NOBODY = frozenset[int]()


class GPU:
    """A GPU without a server, look by look."""

    def __init__(self) -> None:
        self.held, self.now = holding.NOBODY, 1000.0

    def see(self, *pods: PodUID, times: int = 1) -> list[PodUID]:
        """See these pods on it, so many times, each a second after the last; return who is in the way."""
        for _ in range(times):
            self.now += 1.0
            self.held = self.held.looked(pods, self.now)
        return sorted(self.held.in_the_way())


def test_who_holds_a_gpu_for_half_a_minute_is_in_the_way_as_long_as_it_does() -> None:
    gpu = GPU()
    assert gpu.see(P, times=30) == []
    assert gpu.see(P) == [P]
    assert gpu.see() == []


def test_who_lets_go_for_a_moment_now_and_then_is_in_the_way_all_the_same() -> None:
    gpu = GPU()
    gpu.see(P, times=29)
    gpu.see()
    assert gpu.see(P, times=2) == []
    assert gpu.see(P) == [P]


def test_nobody_is_in_the_way_for_the_time_of_another() -> None:
    gpu = GPU()
    gpu.see(P, times=29)
    assert gpu.see(Q, times=29) == []
    assert gpu.see(P, Q, times=3) == [P, Q]


def test_who_is_seen_once_now_and_then_is_not_in_the_way() -> None:
    gpu = GPU()
    for _ in range(100):
        gpu.see(P)
        assert gpu.see() == []


def test_tenants_alone_hold_a_gpu_without_a_server_whether_its_daemon_answers_or_not() -> None:
    """The server is no tenant's process, and holds the GPU where it has clients."""
    holders = Owned({5: P}, NOBODY, gone=frozenset({6}))
    for answered in (True, False):
        assert holding.without_server(holders, {P, Q}, answered=answered) == {P}


@pytest.mark.parametrize("beside", [Owned({5: P}, frozenset({6}), NOBODY), Owned({5: P, 6: DAEMONS}, NOBODY, NOBODY)])
def test_beside_a_process_that_may_be_the_server_tenants_may_be_its_clients(beside: Owned) -> None:
    assert holding.without_server(beside, {P, Q}, answered=False) == frozenset()
    assert holding.without_server(beside, {P, Q}, answered=True) == {P}
