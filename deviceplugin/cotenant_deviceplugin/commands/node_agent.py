"""`cotenant node-agent`: the agent of this node's GPUs; kubelet's device plugin for `cotenant.dev/gpu-share`."""

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from pathlib import Path

from cotenant_api import logs
from cotenant_deviceplugin.commands import driver_files

SUMMARY = "hand out this node's GPUs by the hundredth, and publish their state"
COMPONENT = True
EXAMPLES = "example: cotenant node-agent --node=$(NODE_NAME) --metrics-address=:9476"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--node", required=True, help="name of this node's Node object")
    parser.add_argument("--namespace", default="cotenant-system", help="where the agent's Lease is (%(default)s)")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="how to reach the API server (default: the pod's ServiceAccount)",
    )
    _folders(parser)
    parser.add_argument(
        "--manage-compute-mode",
        action=BooleanOptionalAction,
        default=True,
        help="set the GPUs' compute mode as their use asks for; without it, a process outside of MPS is not kept out",
    )
    parser.add_argument(
        "--canary",
        action=BooleanOptionalAction,
        default=True,
        help="have a canary, a CUDA program of milliseconds, prove a GPU after a fault; without it an MPS server that "
        "is seen ACTIVE three times in a row is believed",
    )
    parser.add_argument(
        "--runtime-has-cdi",
        action="store_true",
        help="this node's containerd 1.7 has enable_cdi = true (2.0 and CRI-O 1.28 have it by themselves)",
    )
    parser.add_argument(
        "--node-selector",
        action="append",
        default=[],
        type=_label,
        metavar="KEY=VALUE",
        help="a label that the Node carries while its GPUs are shared; without it the node is given back: nothing new "
        "is placed, and compute modes, MPS servers and CDI specifications go as tenants end. May be repeated",
    )
    parser.add_argument(
        "--metrics-address",
        default=":9476",
        metavar="HOST:PORT",
        help="where /metrics, /healthz and /readyz are served (%(default)s)",
    )
    parser.add_argument(
        "--metrics-token-file",
        type=Path,
        metavar="FILE",
        help="holds the bearer token that lets read metrics that name namespaces and pods; default: nobody may",
    )


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r} is no label: write KEY=VALUE")
    return key, value


def _folders(parser: ArgumentParser) -> None:
    folders = {
        "--state-dir": ("/var/lib/cotenant/node-agent", "what must outlive the agent and reboots"),
        "--kubelet-dir": ("/var/lib/kubelet", "kubelet's sockets and checkpoint"),
        "--cdi-dir": ("/var/run/cdi", "where container runtimes look for CDI specifications, and ours are written"),
        "--mps-root": ("/run/cotenant/mps", "pipes and logs of the MPS daemons"),
    }
    for flag, (default, text) in folders.items():
        parser.add_argument(flag, type=Path, default=Path(default), metavar="DIR", help=f"{text} (%(default)s)")
    driver_files.configure(parser)
    parser.add_argument(
        "--mps-control",
        nargs="+",
        default=["nvidia-cuda-mps-control"],
        metavar="ARGUMENT",
        help="NVIDIA's control program, with whatever stands before it (%(default)s)",
    )
    for flag, library in (("--nvml", "libnvidia-ml.so.1"), ("--cuda", "libcuda.so.1")):
        parser.add_argument(
            flag, type=Path, metavar="FILE", help=f"{library} (default: where the dynamic linker finds it)"
        )
    logs.add_argument(parser)


def run(arguments: Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    from cotenant_api import names
    from cotenant_deviceplugin.node import http, process, settings

    logs.configure(arguments.logging_format)
    return process.run(
        settings.Settings(
            node=names.NodeName(arguments.node),
            namespace=names.Namespace(arguments.namespace),
            kubeconfig=arguments.kubeconfig,
            state_dir=arguments.state_dir,
            kubelet_dir=arguments.kubelet_dir,
            cdi_dir=arguments.cdi_dir,
            base_cdi_dirs=(Path("/etc/cdi"), arguments.cdi_dir),
            driver=driver_files.places(arguments),
            mps_root=arguments.mps_root,
            mps_control=tuple(arguments.mps_control),
            nvml=arguments.nvml,
            cuda=arguments.cuda,
            canary=arguments.canary,
            manage_compute_mode=arguments.manage_compute_mode,
            runtime_has_cdi=arguments.runtime_has_cdi,
            node_selector=dict(arguments.node_selector),
            metrics_token_file=arguments.metrics_token_file,
            metrics_address=http.Address.parse(arguments.metrics_address),
        )
    )
