"""`cotenant dashboard`: where it listens, and what it refuses to."""

import socket

import pytest

from cotenant_api import cli, errors
from cotenant_dashboard.commands import dashboard
from cotenant_dashboard.watching import rights
from cotenant_dashboard.web import serving

EVERYWHERE = "0.0.0.0"  # noqa: S104 -- what is refused


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1"])
def test_on_loopback_it_asks_for_no_token(address: str) -> None:
    dashboard.require_private(address, authenticate=False)


@pytest.mark.parametrize("address", [EVERYWHERE, "::", "10.0.0.7", "fe80::1", "::ffff:10.0.0.7"])
def test_beside_loopback_it_has_to_ask_for_one(address: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="add --authenticate"):
        dashboard.require_private(address, authenticate=False)
    dashboard.require_private(address, authenticate=True)


@pytest.mark.parametrize("address", ["localhost", "gpus.example.com", "", "127.1"])
def test_an_address_is_in_digits(address: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="must be an address in digits"):
        dashboard.require_private(address, authenticate=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--address", EVERYWHERE], "--address: '0.0.0.0': others can reach it there: add --authenticate"),
        (["--tls-key", "k.pem"], "goes with --tls-certificate"),
        (["--tls-certificate", "/nowhere", "--tls-key", "k.pem"], "--tls-certificate: '/nowhere': give files in PEM"),
        (["--kubeconfig", "/nowhere"], "name a readable kubeconfig"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dashboard", *words]) == 2
    line = capsys.readouterr().err
    assert said in line
    assert line.count("\n") == 1


def test_a_port_that_is_taken_is_told_with_the_remedy() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        door = serving.Door(address="127.0.0.1", port=other.getsockname()[1])
        with pytest.raises(errors.InvalidInputError, match="choose another port with --port"):
            door.listening()


@pytest.mark.parametrize(("address", "host"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_its_address_is_one_that_a_browser_takes(address: str, host: str) -> None:
    door = serving.Door(address=address, port=0)
    with door.listening() as listening:
        assert door.url(listening) == f"http://{host}:{listening.getsockname()[1]}/"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_on_every_address_it_is_asked_by_either_family(host: str) -> None:
    with serving.Door(address="::", port=0).listening() as listening:
        listening.listen()
        with socket.create_connection((host, listening.getsockname()[1]), timeout=10):
            pass


def test_help_names_all_rights_that_a_token_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["dashboard", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert [str(right) for right in rights.RIGHTS if str(right) not in said] == []
