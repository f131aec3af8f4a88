"""What an admin sets of a node agent. Values alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cotenant_api.names import RELEASE_NAMESPACE, Namespace, NodeName
from cotenant_deviceplugin.binding import toolkit
from cotenant_deviceplugin.kubelet import paths
from cotenant_deviceplugin.mps import layout
from cotenant_deviceplugin.node.http import Address

NAMESPACE = Namespace(RELEASE_NAMESPACE)
STATE_DIR = Path("/var/lib/cotenant/node-agent")
CDI_DIR = Path("/var/run/cdi")
METRICS_ADDRESS = ":9476"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """See `cotenant node-agent --help`.

    Attributes:
        kubeconfig: None: the ServiceAccount of the pod.
        base_cdi_dirs: where NVIDIA's CDI specifications are; the later one wins.
        driver: where driver and toolkit are, to make a CDI specification where there is none.
        nvml, cuda: libraries of the driver; None: where the dynamic linker finds them.
        canary: whether a GPU that had a fault must be proved by a canary.
        mps_control: NVIDIA's control program, with whatever stands before it.
        node_selector: labels without which the node is given back.
        metrics_token_file: holds the token that lets read metrics that name tenants; None: nobody may.
    """

    node: NodeName
    namespace: Namespace = NAMESPACE
    kubeconfig: Path | None = None
    state_dir: Path = STATE_DIR
    kubelet_dir: Path = paths.KUBELET_DIR
    cdi_dir: Path = CDI_DIR
    base_cdi_dirs: tuple[Path, ...] = (Path("/etc/cdi"), CDI_DIR)
    driver: toolkit.Places = field(default_factory=toolkit.Places)
    mps_root: Path = layout.DEFAULT_ROOT
    mps_control: tuple[str, ...] = layout.PROGRAM
    nvml: Path | None = None
    cuda: Path | None = None
    canary: bool = True
    manage_compute_mode: bool = True
    runtime_has_cdi: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)
    metrics_token_file: Path | None = None
    metrics_address: Address = field(default_factory=lambda: Address.parse(METRICS_ADDRESS))
