"""`cotenant simulated-agents`: agents of nodes whose GPUs are simulated, all in one process."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_api import logs

SUMMARY = "publish simulated GPUs of simulated nodes (for trying Cotenant without a GPU)"
COMPONENT = True
EXAMPLES = "example: cotenant simulated-agents --config agents.yaml"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="YAML: agents: [{node, gpuModel, gpus, kubeconfig}], and optionally namespace",
    )
    logs.add_argument(parser)


def run(arguments: Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    from cotenant_deviceplugin.simulated import config, process

    logs.configure(arguments.logging_format)
    return process.run(config.load(arguments.config))
