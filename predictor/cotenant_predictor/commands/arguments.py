"""Arguments that several commands have."""

import argparse
from pathlib import Path


def add_devices(parser: argparse.ArgumentParser) -> None:
    """Add `--devices`."""
    parser.add_argument(
        "--devices", type=Path, metavar="FILE", help="rows of further GPU models, as devices.yaml has them"
    )
