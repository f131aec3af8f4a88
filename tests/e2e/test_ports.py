"""Ports that clusters choose side by side."""

import socket
from collections.abc import Iterator

import pytest

from cotenant_api import errors
from cotenant_e2e import ports
from cotenant_e2e.ports import Ports


@pytest.fixture
def held() -> Iterator[Ports]:
    held = Ports()
    yield held
    held.close()


@pytest.fixture
def others() -> Iterator[Ports]:
    others = Ports()
    yield others
    others.close()


def test_a_held_port_is_not_given_to_another_cluster(held: Ports, others: Ports) -> None:
    port = held.hold("etcd", ports.free())
    with pytest.raises(errors.PermanentError, match=f"port {port} of 127.0.0.1 is in use"):
        others.hold("etcd", [port])


def test_the_next_candidate_is_taken_when_one_is_in_use(held: Ports, others: Ports) -> None:
    taken = held.hold("etcd", ports.free())
    assert others.hold("etcd", [taken, 0]) != taken


def test_a_component_may_listen_on_its_held_port(held: Ports) -> None:
    port = held.hold("extender", ports.free())
    with socket.create_server((ports.LOOPBACK, port)) as listener, socket.create_connection(listener.getsockname()):
        assert listener.getsockname()[1] == port


def test_a_port_stays_held_when_its_component_has_ended(held: Ports, others: Ports) -> None:
    port = held.hold("extender", ports.free())
    socket.create_server((ports.LOOPBACK, port)).close()
    with pytest.raises(errors.PermanentError):
        others.hold("extender", [port])
    with socket.create_server((ports.LOOPBACK, port)) as listener:
        assert listener.getsockname()[1] == port


def test_a_port_on_which_somebody_listens_is_refused_with_the_remedy(held: Ports) -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(errors.PermanentError, match="stop what listens there, or let a free port be chosen"):
            held.hold("kube-apiserver", [port])


def test_a_released_port_is_free(held: Ports, others: Ports) -> None:
    port = held.hold("etcd", ports.free())
    held.close()
    assert others.hold("etcd", [port]) == port


def test_candidates_go_round_and_stay_in_range() -> None:
    chosen = list(ports.candidates(first=10_498, below=10_500))
    assert chosen[:4] == [10_498, 10_499, 10_000, 10_001]
    assert sorted(chosen) == list(range(10_000, 10_500))


def test_chosen_ports_are_not_those_of_outgoing_connections(held: Ports) -> None:
    lowest = int(ports.EPHEMERAL_RANGE.read_text().split()[0])
    assert ports.LOWEST <= held.hold("etcd", ports.free()) < lowest
