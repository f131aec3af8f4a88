"""Command lines and configuration of containerd and kubelet. Starts nothing; writes configuration files only."""

import ipaddress
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_e2e import components, configuration, versions
from cotenant_e2e.components import Component, Settings

CONTAINERD: Final = "containerd"
KUBELET: Final = components.KUBELET
SHIM: Final = "containerd-shim-runc-v2"
CTR: Final = "ctr"

BRIDGE: Final = "cotenant0"
ADDRESS: Final = components.NODE_ADDRESS
"""Of the bridge, of kubelet on it, and the gateway of the pods."""
SUBNET: Final = ipaddress.ip_network("10.244.0.0/24")
CNI_PROGRAMS: Final = Path("/usr/lib/cni")
KUBELET_DIRECTORY: Final = Path("/var/lib/kubelet")
"""Cannot be moved: kubelet's device plugins are always below it."""
PAUSE_IMAGE: Final = "localhost/pause:1"
BUSYBOX_IMAGE: Final = "localhost/busybox:1"
FOLDER: Final = "node"


@dataclass(frozen=True)
class Layout:
    """Where the parts of a cluster's real node are. `containerd`: its version decides on the configuration."""

    settings: Settings
    containerd: Path
    containerd_version: versions.Version

    def beside(self, program: str) -> Path:
        """Return the shim or the client that belongs to this containerd."""
        ours = self.containerd == self.settings.programs[CONTAINERD]
        return self.settings.programs[program] if ours else self.containerd.with_name(program)

    @property
    def folder(self) -> Path:
        """Everything of the node that is not at a fixed place."""
        return self.settings.directory / FOLDER

    @property
    def run(self) -> Path:
        """What a reboot empties."""
        return self.folder / "run"

    @property
    def runtime_root(self) -> Path:
        """What containerd keeps; one version may not read what another has written."""
        return self.folder / f"containerd-{versions.show(self.containerd_version)}"

    @property
    def runtime_socket(self) -> Path:
        """Where containerd answers."""
        return self.run / "containerd.sock"

    @property
    def registries(self) -> Path:
        """Where containerd looks up how to reach a registry."""
        return self.folder / "registries"

    @property
    def nvidia_runtime(self) -> Path:
        """Where the stand-in for NVIDIA's container runtime is, on a node that has one."""
        return self.folder / "standin" / "nvidia-container-runtime"

    @property
    def configuration(self) -> dict[Path, str]:
        """Every configuration file and its text."""
        s = self.settings
        major = "1" if self.containerd_version < (2, 0, 0) else "2"
        files = {
            s.configuration("containerd.toml"): f"containerd-{major}.toml",
            s.configuration("kubelet.yaml"): "kubelet.yaml",
            self.folder / "cni" / "10-e2e.conflist": "cni.conflist",
        }
        values = {
            "address": ADDRESS,
            "bridge": BRIDGE,
            "cni_programs": CNI_PROGRAMS,
            "node": self.folder,
            "nvidia_runtime": self.nvidia_runtime,
            "pause_image": PAUSE_IMAGE,
            "pki": s.pki,
            "port": s.ports[KUBELET],
            "runtime_root": self.runtime_root,
            "runtime_socket": self.runtime_socket,
            "shim": self.beside(SHIM),
            "subnet": SUBNET,
        }
        templates = configuration.KUBERNETES / "config"
        return {
            path: string.Template((templates / name).read_text()).substitute(values) for path, name in files.items()
        }

    def write(self) -> None:
        """Put the configuration where the parts read it."""
        for path, text in self.configuration.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.run.mkdir(parents=True, exist_ok=True)

    def ctr(self, *arguments: str) -> list[str]:
        """Return a command for containerd; of kubelet's namespace."""
        return [f"{self.beside(CTR)}", f"--address={self.runtime_socket}", "--namespace=k8s.io", *arguments]

    def containerd_component(self) -> Component:
        """Return the container runtime."""
        return Component(
            CONTAINERD, (f"{self.containerd}", f"--config={self.settings.configuration('containerd.toml')}")
        )

    def kubelet_component(self) -> Component:
        """Return kubelet, which registers the node when it starts for the first time."""
        s = self.settings
        argv = (
            f"{s.programs[KUBELET]}",
            f"--kubeconfig={s.kubeconfig('kubelet')}",
            f"--config={s.configuration('kubelet.yaml')}",
            f"--hostname-override={s.node}",
            f"--node-ip={ADDRESS}",
        )
        return Component(KUBELET, argv, ready=f"http://{s.host}:{s.ports[KUBELET]}/healthz")
