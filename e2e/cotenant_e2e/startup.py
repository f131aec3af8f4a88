"""Starts a cluster: what does not depend on one another at the same time, and everything with a deadline."""

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_api import errors
from cotenant_e2e import client as clients
from cotenant_e2e import cluster as clusters
from cotenant_e2e import components, configuration, files, supervisor, waiting
from cotenant_e2e import ports as network
from cotenant_e2e import state as states
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.components import Settings
from cotenant_e2e.ports import Ports
from cotenant_e2e.state import State
from cotenant_e2e.supervisor import Supervisor

SPACE_MIB = 512
MANY_NODES = 200
READY_SECONDS = 120


@dataclass(frozen=True)
class Options:
    """What kind of cluster.

    Args:
        nodes: simulated nodes to create (see `nodes`).
        api_server_port: 0 chooses a free one.
        node: name of a real node, which `node.real.create` starts; empty: none.
        audited: user, or group of users, whose requests the API server writes down (`audit.py` reads them);
            empty: nobody's.
        unlimited: the API server turns no request away, however many come at once.
        host: the address on which everything listens.
    """

    nodes: Sequence[Mapping[str, Any]] = ()
    api_server_port: int = 0
    node: str = ""
    audited: str = ""
    unlimited: bool = False
    host: str = network.LOOPBACK


DEFAULTS = Options()


def start(
    directory: Path,
    programs: Mapping[str, Path],
    options: Options = DEFAULTS,
    *,
    report: Callable[[str], None] = lambda _: None,
) -> Cluster:
    """Start a cluster in this folder and wait until it is usable: pods can be created, all nodes are ready.

    Args:
        directory: everything of this cluster; made if it is not there.
        programs: see `binaries.find`.
        options: what kind of cluster.
        report: gets one line for each step that is done, with its time.

    Raises:
        PermanentError: the folder holds a cluster, is not writable or full; a port is in use.
        NotReadyError: a component is not ready in time. Everything is stopped; the logs stay.
    """
    directory = directory.resolve()
    files.make_directory(directory, remedy="choose another folder with --dir")
    files.require_space(directory, mib=SPACE_MIB, remedy="free some, or choose another folder with --dir")
    with configuration.locked(directory):
        _make_room(directory)
        ports = Ports(options.host)
        try:
            configuration.prepare(directory)
            held = _hold(ports, options)
            settings = Settings(
                directory,
                ports.host,
                held,
                programs,
                _lease_seconds(options),
                options.node,
                options.audited,
                options.unlimited,
            )
            return _start(settings, ports, options, _Stopwatch(report))
        except BaseException:
            ports.close()
            clusters.clear(directory)
            raise


def _make_room(directory: Path) -> None:
    """Clear away a cluster that was not stopped, but of which nothing runs any more: nothing there is worth keeping."""
    if any(process.alive() for process in supervisor.all_of(directory)):
        raise errors.PermanentError(
            f"{directory} holds a running cluster: stop it with `down --dir {directory}`, or choose another folder"
        )
    clusters.clear(directory)
    foreign = [name for name in configuration.DATA if (directory / name).exists()]
    if foreign:
        raise errors.PermanentError(f"{directory} holds {foreign[0]}, which no cluster left: choose an empty folder")


def _start(settings: Settings, ports: Ports, options: Options, stopwatch: "_Stopwatch") -> Cluster:
    state = State(settings)
    states.write(state)
    running = Supervisor(state, configuration.Probe(settings))
    running.start(components.etcd(settings))
    configuration.write(settings, now=dt.datetime.now(dt.UTC))
    running.wait(components.ETCD)
    stopwatch.lap("certificates and etcd")
    running.start(components.api_server(settings))
    running.wait(components.API_SERVER)
    stopwatch.lap("API server")
    late = [make(settings) for make in (components.controller_manager, components.default_scheduler, components.kwok)]
    for component in late:
        running.start(component)
    cluster = Cluster(settings, running, ports)
    cluster.create_nodes(options.nodes, seconds=READY_SECONDS)
    for component in late:
        running.wait(component.name)
    account = clients.path_of("serviceaccounts", namespace="default", name="default")
    waiting.wait_until(lambda: cluster.client.find(account), "default ServiceAccount", READY_SECONDS)
    stopwatch.lap(f"controllers, scheduler and {len(options.nodes)} simulated nodes")
    return cluster


class _Stopwatch:
    def __init__(self, report: Callable[[str], None]) -> None:
        self._report, self._began = report, time.monotonic()

    def lap(self, what: str) -> None:
        now = time.monotonic()
        self._report(f"{now - self._began:5.1f} s  {what}")
        self._began = now


def _hold(ports: Ports, options: Options) -> dict[str, int]:
    fixed = {components.API_SERVER: options.api_server_port}
    names = (*components.PORT_NAMES, *([components.KUBELET] if options.node else ()))
    return {name: ports.hold(name, [fixed[name]] if fixed.get(name) else network.free()) for name in names}


def _lease_seconds(options: Options) -> int:
    """Renewing the leases of many nodes often would be most of what the API server does."""
    return 200 if len(options.nodes) > MANY_NODES else 40
