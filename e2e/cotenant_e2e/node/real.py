"""A real node of a cluster: started, its parts restarted one by one, rebooted as far as software can be."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_api import errors
from cotenant_e2e import binaries, commandline, versions, waiting
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster
from cotenant_e2e.node import images, machine, parts
from cotenant_e2e.node.parts import Layout

READY_SECONDS = 60
RUNTIME_SECONDS = 30
COMMAND_SECONDS = 60


@dataclass(frozen=True)
class Node:
    """The one real node of a cluster."""

    cluster: Cluster
    layout: Layout

    @property
    def name(self) -> str:
        """Of the Node object."""
        return self.layout.settings.node

    @property
    def path(self) -> str:
        """Of the Node object."""
        return clients.path_of("nodes", name=self.name)

    def object(self) -> Json:
        """Return the Node object."""
        return self.cluster.client.get(self.path)

    def allocatable(self, resource: str) -> int:
        """Return how much of an extended resource the scheduler may give away now."""
        return int(self.object()["status"]["allocatable"].get(resource, 0))

    # --- containers

    def ctr(self, *arguments: str) -> str:
        """Return what containerd's client prints.

        Raises:
            PermanentError: it failed.
        """
        done = subprocess.run(
            self.layout.ctr(*arguments), capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
        )
        if done.returncode:
            raise errors.PermanentError(f"ctr {' '.join(arguments)}: {errors.shortened(done.stderr.strip())}")
        return done.stdout

    def add_image(self, reference: str, *, more: Mapping[str, str] | None = None, **config: Any) -> None:
        """Add an image of busybox. `more`: further files, as for `images.write`; `config`: such as `Entrypoint`."""
        folder = self.layout.folder / "images"
        folder.mkdir(exist_ok=True)
        archive = folder / f"{reference.replace('/', '_').replace(':', '_')}.tar"
        images.write(archive, reference, files=_busybox() | dict(more or {}), config={"Env": ["PATH=/bin"]} | config)
        self.ctr("images", "import", str(archive))
        archive.unlink()

    def trust(self, host: str, ca: Path) -> None:
        """Have containerd verify a registry by the certificate of this authority."""
        folder = self.layout.registries / host
        folder.mkdir(parents=True, exist_ok=True)
        table = f'[host."https://{host}"]\ncapabilities = ["pull", "resolve"]\nca = "{ca}"\n'
        (folder / "hosts.toml").write_text(f'server = "https://{host}"\n{table}')

    # --- what happens to a node

    def start(self) -> None:
        """Start containerd, give it the images, start kubelet; returns when the node is ready."""
        self.start_runtime()
        self.add_image(parts.PAUSE_IMAGE, Entrypoint=["/bin/sleep", "2147483647"])
        self.add_image(parts.BUSYBOX_IMAGE)
        self.start_kubelet()

    def start_runtime(self) -> None:
        """Start containerd; returns when it answers."""
        component = self.layout.containerd_component()
        process = self.cluster.start_process(component.name, component.argv)

        def answers() -> bool:
            if not process.alive():
                raise waiting.NotReadyError(f"containerd ended: {self.cluster.log(component.name)}")
            return commandline.ask(self.layout.ctr("plugins", "list")) is not None

        waiting.wait_until(answers, "containerd answers", RUNTIME_SECONDS)

    def start_kubelet(self) -> None:
        """Start kubelet; returns when it reports the node ready."""
        component = self.layout.kubelet_component()
        self.cluster.start_process(component.name, component.argv, ready=component.ready)
        self.wait_until_ready()

    def restart_kubelet(self) -> None:
        """Kill it, as its update or its crash would, and start it again; containers go on."""
        self.cluster.kill(parts.KUBELET)
        self.start_kubelet()

    def wait_until_ready(self) -> None:
        """Return when the Node says so. What it said before a restart still stands for a while."""

        def ready() -> bool:
            found = self.cluster.client.find(self.path)
            return bool(found and clients.is_true(found, "Ready"))

        waiting.wait_until(ready, f"node {self.name} ready", READY_SECONDS)

    def shut_down(self, services: Sequence[str] = ()) -> None:
        """Do the first half of a reboot: every process of the node is killed, and what is on a tmpfs is gone.

        `services`: further processes of the cluster that run on the node.
        """
        for name in (parts.KUBELET, parts.CONTAINERD, *services):
            self.cluster.kill(name)
        machine.MACHINE.end_containers(self.layout.settings.directory)
        for place in (self.layout.run, machine.CDI, *machine.VOLATILE):
            _empty(place)

    def boot(self, services: Sequence[str] = ()) -> None:
        """Do the second half: everything is started as before, kubelet before the services that it runs otherwise."""
        self.start()
        for name in services:
            self.cluster.restart(name)

    def with_runtime(self, containerd: Path | None = None) -> "Node":
        """Return the same node with another containerd, as after its upgrade.

        For use between `shut_down` and `start`.
        """
        changed = Node(self.cluster, _layout(self.cluster, containerd))
        changed.layout.write()
        return changed


def create(cluster: Cluster, *, containerd: Path | None = None) -> Node:
    """Start the real node that the cluster's settings name. `containerd`: another one than was built for the kit.

    Raises:
        PermanentError: this machine cannot have a node; the message has the remedy.
        NotReadyError: something is not ready in time.
    """
    node = Node(cluster, _layout(cluster, containerd))
    machine.MACHINE.prepare(cluster.directory)
    node.layout.write()
    node.start()
    return node


def of(cluster: Cluster) -> Node:
    """Return the real node that a cluster has, with the containerd that it runs with."""
    program = Path(cluster.argv(parts.CONTAINERD)[0])
    return Node(cluster, _layout(cluster, program))


def _layout(cluster: Cluster, containerd: Path | None) -> Layout:
    program = containerd or cluster.settings.programs[parts.CONTAINERD]
    version = versions.parse(commandline.ask([str(program), "--version"]) or "")
    if version is None:
        raise errors.InvalidInputError("containerd", str(program), "name a containerd of version 1.6 or newer")
    return Layout(cluster.settings, program, version)


def debian_containerd() -> Path:
    """Debian's containerd, which knows no CDI, where `scripts/install-node-packages` put it.

    Raises:
        PermanentError: it is not there.
    """
    path = binaries.cache_directory(os.environ) / "debian-containerd" / "usr" / "bin" / "containerd"
    if not path.exists():
        raise errors.PermanentError(f"{path} is missing: run {machine.PACKAGES} as root")
    return path


def _busybox() -> dict[str, str]:
    applets = (commandline.ask([str(machine.BUSYBOX), "--list"]) or "").split()
    links = {f"bin/{name}": "@busybox" for name in applets if name != "busybox"}
    return {"bin/busybox": str(machine.BUSYBOX)} | links


def _empty(folder: Path) -> None:
    if not folder.exists():
        return
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
