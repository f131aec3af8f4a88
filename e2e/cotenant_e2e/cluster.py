"""A Kubernetes control plane with simulated nodes, as plain processes on loopback: no root, no container.

A real node, where there is one, is `node.real`'s; here it is only taken away with everything else.
"""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cotenant_api import errors, names
from cotenant_e2e import client as clients
from cotenant_e2e import components, configuration, kubeconfigs, supervisor, waiting
from cotenant_e2e import ports as network
from cotenant_e2e import state as states
from cotenant_e2e.client import Client, Json
from cotenant_e2e.components import Component, Settings
from cotenant_e2e.node import machine
from cotenant_e2e.ports import Ports
from cotenant_e2e.processes import Process
from cotenant_e2e.supervisor import Status, Supervisor

TOKEN_SECONDS = 7 * 24 * 3600
KUBECTL_SECONDS = 120
NODE_WRITERS = 8


class KubectlError(errors.CotenantError):
    """kubectl failed. `code`: its exit code; `stderr`: what it wrote there."""

    def __init__(self, arguments: Sequence[str], code: int, stderr: str) -> None:
        self.code, self.stderr = code, stderr
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip() or f'exit code {code}'}")


class Cluster:
    """A running cluster. `startup.start` makes one; `Cluster.open` finds one that another process started.

    `with` stops it at the end. Threads may share it.
    """

    def __init__(self, settings: Settings, processes: Supervisor, ports: Ports) -> None:
        self.settings, self._supervisor, self._ports = settings, processes, ports
        self._ports_lock = threading.Lock()
        self._anonymous_tls = configuration.client_tls(settings, user=None)
        self.client = Client(settings.server, configuration.client_tls(settings, user="admin"))
        """Talks to the API server as administrator."""

    @classmethod
    def open(cls, directory: Path) -> "Cluster":
        """Return the cluster that this folder holds.

        Raises:
            PermanentError: it holds none.
        """
        directory = directory.resolve()
        state = states.read(directory)
        if not state or not state.settings.kubeconfig("admin").exists():
            raise errors.PermanentError(f"{directory} holds no cluster: start one with `up --dir {directory}`")
        settings = state.settings
        return cls(settings, Supervisor(state, configuration.Probe(settings)), Ports(settings.host))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        """Everything of this cluster."""
        return self.settings.directory

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self.settings.server

    def stop(self, *, keep_data: bool = False) -> None:
        """Stop every process and remove the data; the logs stay. Again: nothing happens."""
        self.close()
        down(self.directory, keep_data=keep_data)

    def close(self) -> None:
        """Leave the cluster running without this object: its ports are no longer held for restarts."""
        with self._ports_lock:
            self._ports.close()

    # --- processes

    def start_process(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        ready: str = "",
        seconds: float = supervisor.READY_SECONDS,
    ) -> Process:
        """Start a program in the background and wait until it is ready.

        Args:
            name: names its log file, and itself in `kill` and `restart`; one that ran under this name is replaced.
            argv: program and arguments.
            env: in addition to this process's environment (from which KUBECONFIG is left out).
            ready: URL that must answer 200; empty: do not wait.
            seconds: how long to wait for that.

        Raises:
            NotReadyError: it ended, or was not ready in time.
        """
        component = Component(name, tuple(map(str, argv)), ready)
        process = self._supervisor.start(component, env)
        if ready:
            self._supervisor.wait(name, seconds)
        return process

    def kill(self, name: str) -> None:
        """SIGKILL one process, as a crash would; returns when it has ended."""
        self._supervisor.kill(name)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """One process stands still for the block (SIGSTOP), as on a machine that hangs."""
        self._supervisor.pause(name)
        try:
            yield
        finally:
            self._supervisor.resume(name)

    def revive(self) -> list[str]:
        """Start again every process that has ended, as kubelet does; their names."""
        ended = [status.name for status in self.status() if not status.alive]
        for name in ended:
            self.restart(name)
        return ended

    def restart(self, name: str, seconds: float = supervisor.READY_SECONDS) -> Process:
        """Start one process again as before, after stopping it if it runs; returns when it is ready."""
        return self._supervisor.restart(name, seconds)

    def stop_process(self, name: str) -> None:
        """Stop one process and forget it."""
        self._supervisor.stop(name)

    def process(self, name: str) -> Process:
        """One process, running or not."""
        return self._supervisor.process(name)

    def argv(self, name: str) -> tuple[str, ...]:
        """Return the command line of one process."""
        return self._supervisor.argv(name)

    def status(self) -> list[Status]:
        """Every process, in the order of their start."""
        return self._supervisor.status()

    def memory_mib(self) -> dict[str, int]:
        """Resident memory of every process in MiB; 0 for one that has ended."""
        return {status.name: status.rss_mib for status in self.status()}

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self._supervisor.log(name)

    def free_port(self, name: str) -> int:
        """Return a free port, held under this name until the cluster stops.

        Whoever listens there needs SO_REUSEADDR.
        """
        with self._ports_lock:
            return self._ports.hold(name, network.free())

    def start_scheduler(
        self, *, extender_port: int, name: str = components.COTENANT_SCHEDULER, weight: int | None = None
    ) -> Process:
        """Start our kube-scheduler from `manifests/scheduler/`, with its ServiceAccount, which must exist.

        `name`: of the process; a second one may run beside the first, and they elect their leader. `weight`: of the
        extender's scores, where kube-scheduler is to choose among nodes.
        """
        token = self.token(names.RELEASE_NAMESPACE, names.SCHEDULER_ACCOUNT)
        self.kubeconfig_for_token(name, token, namespace=names.RELEASE_NAMESPACE)
        settings = self.settings.with_port(name, self.free_port(name))
        configuration.write_scheduler(settings, name=name, extender_port=extender_port, weight=weight)
        component = components.cotenant_scheduler(settings, name=name)
        return self.start_process(component.name, component.argv, ready=component.ready)

    # --- users

    def kubeconfig(self, user: str = "admin") -> Path:
        """Return the kubeconfig of `admin`, or of whoever `kubeconfig_for_token` wrote one for."""
        return self.settings.kubeconfig(user)

    def kubectl(self, *arguments: str, stdin: Json | str | None = None, user: str = "admin") -> str:
        """Return what kubectl prints. `stdin`: an object, or text; `user`: whose kubeconfig.

        Raises:
            KubectlError: it failed.
        """
        command = components.kubectl(self.settings, *arguments, user=user)
        text = json.dumps(stdin) if isinstance(stdin, dict) else stdin or ""
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, check=False, timeout=KUBECTL_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(arguments, -1, f"no answer within {KUBECTL_SECONDS} s") from error
        if done.returncode:
            raise KubectlError(arguments, done.returncode, done.stderr)
        return done.stdout

    def token(
        self,
        namespace: str,
        service_account: str,
        *,
        bound_node: str | None = None,
        expiration_seconds: int = TOKEN_SECONDS,
    ) -> str:
        """Return a token of a ServiceAccount. `bound_node`: the Node it names and ends with."""
        spec: Json = {"expirationSeconds": expiration_seconds}
        if bound_node:
            node = self.client.get(clients.path_of("nodes", name=bound_node))
            reference = {"apiVersion": "v1", "kind": "Node", "name": bound_node, "uid": node["metadata"]["uid"]}
            spec["boundObjectRef"] = reference
        account = clients.path_of("serviceaccounts", namespace=namespace, name=service_account)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.client.create(f"{account}/token", request)["status"]["token"])

    def kubeconfig_for_token(self, name: str, token: str, *, namespace: str = "default") -> Path:
        """Write a kubeconfig that only this user reads; `name` is how `kubeconfig` and `kubectl` know it."""
        path = self.settings.kubeconfig(name)
        server = configuration.server_of(self.settings)
        kubeconfigs.write(path, kubeconfigs.with_token(server, user=name, token=token, namespace=namespace))
        return path

    def client_for_token(self, token: str) -> Client:
        """Talks to the API server as whoever has this token."""
        return Client(self.server, self._anonymous_tls, token)

    # --- nodes

    def create_nodes(self, nodes: Sequence[Mapping[str, Any]], *, seconds: float = 120) -> None:
        """Create simulated nodes and wait until they are ready."""
        with ThreadPoolExecutor(NODE_WRITERS) as pool:
            list(pool.map(lambda node: self.client.create(clients.path_of("nodes"), dict(node)), nodes))
        wanted = {node["metadata"]["name"] for node in nodes}

        def missing() -> set[str]:
            return wanted - {
                node["metadata"]["name"]
                for node in self.client.items(clients.path_of("nodes"))
                if clients.is_true(node, "Ready")
            }

        waiting.wait_until(lambda: not missing(), f"{len(wanted)} ready nodes", seconds)


def down(directory: Path, *, keep_data: bool = False) -> None:
    """Stop the cluster in this folder, whoever started it, and remove its data; the logs stay.

    Waits while somebody starts it. Nothing happens where there is none.
    """
    directory = directory.resolve()
    if not directory.is_dir():
        return
    with configuration.locked(directory):
        clear(directory, keep_data=keep_data)


def clear(directory: Path, *, keep_data: bool = False) -> None:
    """Do what `down` does, for a caller that holds the folder's lock."""
    if not (directory / states.FILE).exists():
        return
    machine.stop(directory)
    supervisor.stop_all(directory)
    machine.MACHINE.clean(directory)
    if not keep_data:
        for entry in configuration.DATA:
            shutil.rmtree(directory / entry, ignore_errors=True)
    states.forget(directory)
