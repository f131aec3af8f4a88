"""`cotenant node-doctor`: what is wrong with this machine, for a node of shared GPUs."""

import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_api import tables, terminal
from cotenant_deviceplugin.commands import driver_files
from cotenant_deviceplugin.mps import layout

if TYPE_CHECKING:
    from cotenant_deviceplugin.doctor.machine import Machine

SUMMARY = "look for what is wrong with this machine, for sharing its GPUs, with a remedy for each finding"
COMPONENT = True
EXAMPLES = """\
examples: cotenant node-doctor
          kubectl -n cotenant-system exec POD -- cotenant node-doctor -o json
          cotenant node-doctor --root /host

In the pod of a node agent it sees the driver, MPS, CDI and kubelet's folder; the configurations of the container
runtime and of NVIDIA's toolkit are seen on the host, or below --root.

exit codes: 0 no error (there may be warnings), 2 wrong arguments, 3 errors found
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    folders = {
        "--root": ("/", "where the host's file system is seen, for configurations"),
        "--kubelet-dir": ("/var/lib/kubelet", "kubelet's folder"),
        "--mps-root": (str(layout.DEFAULT_ROOT), "pipes of the MPS daemons"),
    }
    for flag, (default, text) in folders.items():
        parser.add_argument(flag, type=Path, default=Path(default), metavar="DIR", help=f"{text} (%(default)s)")
    driver_files.configure(parser)
    parser.add_argument(
        "--cdi-dir",
        type=Path,
        action="append",
        metavar="DIR",
        help="where runtimes look for CDI specifications (repeat for more; default: /etc/cdi and /var/run/cdi)",
    )
    parser.add_argument(
        "--mps-control",
        nargs="+",
        default=list(layout.PROGRAM),
        metavar="ARGUMENT",
        help="NVIDIA's control program, with whatever stands before it (%(default)s)",
    )
    parser.add_argument(
        "--nvml", type=Path, metavar="FILE", help="libnvidia-ml.so.1 (default: where the dynamic linker finds it)"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "wide", "json", "yaml"),
        default="table",
        help="for people, or the whole as one document (default: %(default)s)",
    )


def run(arguments: Namespace) -> int:
    """Read, and tell; nothing is changed."""
    import asyncio

    from cotenant_api import findings
    from cotenant_deviceplugin.doctor import checks

    found = checks.examined(asyncio.run(_read(arguments)))
    report = findings.Report(taken=datetime.now(UTC).isoformat(timespec="seconds"), findings=found)
    look = tables.Look(colours=terminal.in_colours(sys.stdout), width=terminal.width(sys.stdout))
    terminal.write(findings.rendered(report, form=arguments.output, look=look))
    return findings.exit_code(found)


async def _read(arguments: Namespace) -> "Machine":
    from cotenant_deviceplugin.binding import bases
    from cotenant_deviceplugin.doctor import reading
    from cotenant_deviceplugin.gpus import nvml

    places = reading.Places(
        root=arguments.root,
        kubelet_dir=arguments.kubelet_dir,
        cdi_dirs=tuple(arguments.cdi_dir or bases.FOLDERS),
        driver=driver_files.places(arguments),
        mps_root=arguments.mps_root,
        mps_control=tuple(arguments.mps_control),
    )
    gpus = nvml.NVML(library=arguments.nvml)
    try:
        return await reading.read(gpus, places)
    finally:
        await gpus.close()
