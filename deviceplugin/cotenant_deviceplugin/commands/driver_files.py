"""Arguments that several commands have: where NVIDIA's driver and toolkit lie, on the host and as seen from here."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant_deviceplugin.binding import toolkit


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    folders = {
        "driver-root": (
            "/run/nvidia/driver",
            "the driver's folder on the host, by which nvidia-ctk makes a CDI specification where there is none; or /",
        ),
        "toolkit": ("/usr/local/nvidia/toolkit", "where the GPU Operator installs nvidia-ctk"),
    }
    for where, (default, text) in folders.items():
        parser.add_argument(f"--{where}", type=Path, default=Path(default), metavar="DIR", help=f"{text} (%(default)s)")
    for where in folders:
        parser.add_argument(
            f"--{where}-here",
            type=Path,
            metavar="DIR",
            help=f"where --{where} is seen from here (default: where the host has it)",
        )


def places(arguments: Namespace) -> "toolkit.Places":
    """Return what the arguments say."""
    from cotenant_deviceplugin.binding import toolkit

    return toolkit.Places(arguments.driver_root, arguments.driver_root_here, arguments.toolkit, arguments.toolkit_here)
