"""Arguments that several subcommands have."""

from argparse import ArgumentParser
from pathlib import Path


def add_directory(parser: ArgumentParser) -> None:
    """`--dir`: the folder of the cluster."""
    parser.add_argument(
        "--dir", type=Path, required=True, metavar="DIR", dest="directory", help="everything of this cluster"
    )
