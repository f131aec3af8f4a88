"""`cotenant mps-daemons`: one MPS control daemon for each GPU of this node, and nothing else."""

import asyncio
from argparse import ArgumentParser, Namespace
from pathlib import Path

from cotenant_api import logs
from cotenant_deviceplugin.mps import layout, readiness

SUMMARY = "run one MPS control daemon for each GPU of this node"
COMPONENT = True
EXAMPLES = "example: cotenant mps-daemons --drain-seconds 600"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--mps-root",
        type=Path,
        default=layout.DEFAULT_ROOT,
        metavar="DIR",
        help="where pipes and logs are; a hostPath that the node agent has too (%(default)s)",
    )
    parser.add_argument(
        "--drain-seconds",
        type=float,
        metavar="SECONDS",
        help="on SIGTERM, take clients off their GPU after so long (default: wait until they end)",
    )
    parser.add_argument(
        "--ready-port",
        type=int,
        default=readiness.PORT,
        metavar="PORT",
        help="takes connections while the daemons are served, and nothing is in the way; 0: none (%(default)s)",
    )
    parser.add_argument(
        "--nvml", type=Path, metavar="FILE", help="libnvidia-ml.so.1 (default: where the dynamic linker finds it)"
    )
    parser.add_argument(
        "--control",
        nargs="+",
        default=list(layout.PROGRAM),
        metavar="ARGUMENT",
        help="NVIDIA's control program, with whatever stands before it (%(default)s)",
    )
    logs.add_argument(parser)


def run(arguments: Namespace) -> int:
    """Run until SIGTERM or SIGINT, and until no client is left."""
    logs.configure(arguments.logging_format)
    asyncio.run(_run(arguments))
    return 0


async def _run(arguments: Namespace) -> None:
    from cotenant_deviceplugin import selinux
    from cotenant_deviceplugin.gpus import nvml
    from cotenant_deviceplugin.mps import daemon, daemons

    selinux.label_for_containers(arguments.mps_root)
    settings = daemon.Settings(
        root=arguments.mps_root,
        program=tuple(arguments.control),
        environment=daemons.inherited(),
        drain_seconds=arguments.drain_seconds,
    )
    hardware = nvml.NVML(library=arguments.nvml)
    told = readiness.Readiness()
    listening = asyncio.create_task(told.listen(arguments.ready_port)) if arguments.ready_port else None
    try:
        await daemons.run(settings, daemons.shared(hardware), daemons.stopping(), driver=hardware, readiness=told)
    finally:
        if listening is not None:
            listening.cancel()
        await hardware.close()
