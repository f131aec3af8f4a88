"""Makes sure that the Kubernetes programs are there, so that nothing has to build them later."""

import os
from argparse import ArgumentParser, Namespace

from cotenant_e2e import binaries, progress, versions

SUMMARY = "find or build the Kubernetes programs; print where they are"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--node", action="store_true", help="also those of a real node")
    parser.add_argument("--kueue", action="store_true", help="also Kueue")
    parser.add_argument("--helm", action="store_true", help="also helm")
    parser.add_argument("--registry", action="store_true", help="also a container registry")
    parser.add_argument("--release", action="store_true", help="also a container registry, and cosign")
    parser.add_argument("--nvidia", action="store_true", help="also NVIDIA's container toolkit and device plugin")


def run(arguments: Namespace) -> int:
    """One path in each line."""
    node = versions.NODE_PROGRAMS if arguments.node else ()
    nvidia = versions.NVIDIA_PROGRAMS if arguments.nvidia else ()
    extra = (
        (versions.KUEUE, arguments.kueue),
        (versions.HELM, arguments.helm),
        (versions.REGISTRY, arguments.registry or arguments.release),
        (versions.COSIGN, arguments.release),
    )
    wanted = (*versions.PROGRAMS, *node, *nvidia, *(program for program, asked in extra if asked))
    for path in binaries.find(environment=os.environ, progress=progress.of_terminal(), programs=wanted).values():
        print(path)
    return 0
