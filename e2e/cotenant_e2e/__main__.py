"""`python -m cotenant_e2e COMMAND`: the dispatcher, nothing else."""

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import cast

from cotenant_api import errors
from cotenant_api.command import Command

COMMANDS = (
    "bench",
    "bench-admission",
    "bench-dashboard",
    "bench-extender",
    "bench-node",
    "bench-operator",
    "bench-operator-rest",
    "bench-predictions",
    "bench-simulator",
    "bench-takeover",
    "chart",
    "demo",
    "images",
    "pictures",
    "pod-spec",
    "programs",
    "reference",
    "release",
    "rights",
    "screenshots",
    "soak-hostile",
    "space-time",
    "up",
    "down",
    "status",
)
"""Modules of `cotenant_e2e.commands`, with hyphens for underscores."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; its exit code. 2: the arguments are wrong; 1: what is wrong was printed as one line."""
    parser = argparse.ArgumentParser(
        prog="cotenant_e2e", description="Real Kubernetes on this machine, with simulated GPUs."
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = _command(name)
        module.configure(subparsers.add_parser(name, help=module.SUMMARY, description=module.SUMMARY))
    arguments = parser.parse_args(argv)
    try:
        return _command(arguments.command).run(arguments)
    except errors.CotenantError as error:
        return _fail(arguments.command, str(error))
    except OSError as error:
        return _fail(arguments.command, f"{error.filename or 'this machine'}: {error.strerror or error}")
    except KeyboardInterrupt:
        return 130


def _fail(command: str, message: str) -> int:
    print(f"cotenant: {command}: {message}", file=sys.stderr)
    return 1


def _command(name: str) -> Command:
    return cast("Command", importlib.import_module(f"cotenant_e2e.commands.{name.replace('-', '_')}"))


def _end(number: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that what was started is stopped."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    sys.exit(main())
