"""Arguments that several commands have. Imports nothing that a command line without a cluster would wait for."""

import argparse
import os
from pathlib import Path

from cotenant_api import names


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    """`--kubeconfig`: a file, or None for the pod's ServiceAccount."""
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        default=os.environ.get("KUBECONFIG") or None,
        metavar="FILE",
        help="credentials of the API server; default: $KUBECONFIG, else the pod's ServiceAccount",
    )


def add_release(parser: argparse.ArgumentParser, *, flag: str = "--namespace") -> None:
    """Add the namespace of the release."""
    parser.add_argument(
        flag,
        default=names.RELEASE_NAMESPACE,
        metavar="NS",
        help="of the release, where measurements are kept (default: %(default)s)",
    )
