"""Stops a cluster, whoever started it."""

import sys
from argparse import ArgumentParser, Namespace

from cotenant_e2e import cluster
from cotenant_e2e.commands import arguments as shared

SUMMARY = "stop the cluster; its logs stay"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    shared.add_directory(parser)
    parser.add_argument("--when-stdin-ends", action="store_true", help="wait for that: whoever holds it may then die")
    parser.add_argument("--keep-data", action="store_true", help="keep etcd's data and the certificates too")


def run(arguments: Namespace) -> int:
    """Stop it; nothing happens where none runs."""
    if arguments.when_stdin_ends:
        sys.stdin.read()
    cluster.down(arguments.directory, keep_data=arguments.keep_data)
    return 0
