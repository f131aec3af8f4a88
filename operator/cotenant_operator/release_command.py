"""`cotenant release`: what must be done to an installation from inside the cluster. The chart's hook runs it."""

import argparse
import asyncio
import time

from cotenant_api import names
from cotenant_operator import arguments as shared

SUMMARY = "prepare the end of an installation: no new gates, nodes given back, and what still runs or waits is listed"
EXAMPLES = "example: cotenant release prepare-uninstall --namespace cotenant-system"
_PREPARE = "stop admission, then sharing; have nodes given back; list what still runs or waits. No pod is ended"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    prepare = steps.add_parser("prepare-uninstall", help=_PREPARE, description=_PREPARE)
    shared.add_kubeconfig(prepare)
    prepare.add_argument(
        "--namespace", default=names.RELEASE_NAMESPACE, metavar="NS", help="of the release (default: %(default)s)"
    )
    prepare.add_argument(
        "--node-label",
        action="append",
        default=[],
        type=_label,
        metavar="KEY=VALUE",
        help="a label by which nodes are Cotenant's; taken off them where its key is of cotenant.dev. May be repeated",
    )
    prepare.add_argument(
        "--wait-seconds", type=float, default=120, metavar="S", help="for nodes to be given back (default: %(default)s)"
    )


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no label: write KEY=VALUE")
    return key, value


def run(arguments: argparse.Namespace) -> int:
    """Do it, and say what was done. 0 also where a node could not be given back in time: that is said."""
    for line in asyncio.run(_prepared(arguments)):
        print(line, flush=True)
    return 0


async def _prepared(arguments: argparse.Namespace) -> list[str]:
    import functools

    from cotenant_operator.kube import api, connection
    from cotenant_operator.release import plan, uninstalling
    from cotenant_operator.release.objects import Objects

    send = connection.Connection(functools.partial(connection.load, arguments.kubeconfig))
    cluster = Objects(api.API(send), arguments.namespace)
    clock = uninstalling.Clock(time.monotonic, asyncio.sleep)
    try:
        ending = uninstalling.Uninstalling(cluster, clock, wait_seconds=arguments.wait_seconds)
        return plan.lines(await ending.run(dict(arguments.node_label)))
    finally:
        await send.close()
