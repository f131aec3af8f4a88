"""Makes sure that the Kubernetes programs are there, so that nothing has to build them later."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, progress

SUMMARY = "find or build the Kubernetes programs; print where they are"


def configure(_parser: ArgumentParser) -> None:
    """It has no arguments."""


def run(_arguments: Namespace) -> int:
    """One path in each line."""
    for path in binaries.find(environment=os.environ, progress=progress.of_terminal()).values():
        print(path)
    return 0
