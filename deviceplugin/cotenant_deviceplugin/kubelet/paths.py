"""Where kubelet's sockets and files are, below its folder. Names alone, no I/O.

kubelet's device-plugin folder is fixed: it does not follow kubelet's `--root-dir`
(`KubeletSocket` in k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/constants.go).
"""

from pathlib import Path

KUBELET_DIR = Path("/var/lib/kubelet")
ENDPOINT = "cotenant.sock"
"""Our socket, beside kubelet's."""


def plugins(kubelet_dir: Path) -> Path:
    """Return the folder of the sockets; mount the folder, never a socket: kubelet replaces them when it starts."""
    return kubelet_dir / "device-plugins"


def registry(kubelet_dir: Path) -> Path:
    """Where kubelet takes registrations."""
    return plugins(kubelet_dir) / "kubelet.sock"


def endpoint(kubelet_dir: Path) -> Path:
    """Where we serve kubelet."""
    return plugins(kubelet_dir) / ENDPOINT


def checkpoint(kubelet_dir: Path) -> Path:
    """Return what kubelet has allocated, as it remembers it over restarts."""
    return plugins(kubelet_dir) / "kubelet_internal_checkpoint"


def pod_resources(kubelet_dir: Path) -> Path:
    """Where kubelet answers which pod has which devices."""
    return kubelet_dir / "pod-resources" / "kubelet.sock"


def target(socket: Path) -> str:
    """Return a socket's address, as gRPC writes it."""
    return f"unix://{socket.absolute()}"
