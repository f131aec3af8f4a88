"""Command lines of the components."""

import dataclasses
from pathlib import Path

import pytest

from cotenant_e2e import components, versions
from cotenant_e2e.components import Component, Settings

SETTINGS = Settings(
    directory=Path("/run/c"),
    host="127.0.0.1",
    ports={name: 20_000 + number for number, name in enumerate(components.PORT_NAMES)} | {"cotenant-scheduler": 20_100},
    programs={program.name: Path("/bin") / program.name for program in versions.PROGRAMS},
)
EVERY = [
    components.etcd(SETTINGS),
    components.api_server(SETTINGS),
    components.controller_manager(SETTINGS),
    components.default_scheduler(SETTINGS),
    components.cotenant_scheduler(SETTINGS),
    components.kwok(SETTINGS),
]


def by_name(name: str) -> Component:
    return next(component for component in EVERY if component.name == name)


@pytest.mark.parametrize("component", EVERY, ids=lambda component: component.name)
def test_nothing_listens_beyond_loopback(component: Component) -> None:
    addresses = [word for word in component.argv if "listen-" in word or "bind-address" in word]
    assert all("127.0.0.1" in address for address in addresses)


@pytest.mark.parametrize("component", EVERY, ids=lambda component: component.name)
def test_every_file_lies_in_the_folder_of_the_cluster(component: Component) -> None:
    files = [value for word in component.argv[1:] if (value := word.partition("=")[2]).startswith("/")]
    assert all(Path(file).is_relative_to("/run/c") for file in files)


def test_every_port_is_used_by_one_component_only() -> None:
    words = [word for component in EVERY for word in component.argv]
    listening = [word for word in words if word.startswith(("--secure-port", "--listen-"))]
    assert len(listening) == len(SETTINGS.ports) == len({word.rpartition("=")[2] for word in listening})


@pytest.mark.parametrize("component", EVERY[:-1], ids=lambda component: component.name)
def test_every_server_is_waited_for_on_its_port(component: Component) -> None:
    assert any(f"127.0.0.1:{port}/" in component.ready for port in SETTINGS.ports.values())


def test_the_api_server_authorizes_by_node_and_rbac() -> None:
    argv = by_name(components.API_SERVER).argv
    assert "--authorization-mode=Node,RBAC" in argv
    assert "--enable-admission-plugins=NodeRestriction" in argv


def test_our_scheduler_has_a_kubeconfig_and_a_configuration_of_its_own() -> None:
    argv = by_name(components.COTENANT_SCHEDULER).argv
    assert argv[0] == "/bin/kube-scheduler"
    assert "--config=/run/c/config/cotenant-scheduler.yaml" in argv
    assert "--authentication-kubeconfig=/run/c/kubeconfigs/cotenant-scheduler.conf" in argv


def test_two_of_our_schedulers_share_nothing() -> None:
    second = components.cotenant_scheduler(SETTINGS.with_port("second", 20_101), name="second")
    assert not {word for word in second.argv if "/run/c/config" in word} & set(by_name("cotenant-scheduler").argv)
    assert "--secure-port=20101" in second.argv


def test_kwok_renews_leases_as_often_as_it_is_told() -> None:
    many = dataclasses.replace(SETTINGS, lease_seconds=200)
    assert "--node-lease-duration-seconds=200" in components.kwok(many).argv


def test_kubectl_keeps_its_cache_with_the_cluster() -> None:
    command = components.kubectl(SETTINGS, "get", "pods", user="admin")
    assert command[1:] == [
        "--kubeconfig=/run/c/kubeconfigs/admin.conf",
        "--cache-dir=/run/c/kubectl-cache",
        "get",
        "pods",
    ]
