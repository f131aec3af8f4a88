"""`cotenant release`: what is asked of an installation and done to it from inside the cluster. Helm's hooks run it."""

import argparse
import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from cotenant_api import errors, names
from cotenant_operator import arguments as shared

if TYPE_CHECKING:
    from cotenant_operator.release.objects import Objects

SUMMARY = (
    "verify an installation, or prepare its end: no new gates, nodes given back, what still runs or waits is listed"
)
COMPONENT = True
EXAMPLES = "example: cotenant release prepare-uninstall --namespace cotenant-system"
_PREPARE = "stop admission, then sharing; have nodes given back; list what still runs or waits. No pod is ended"
_VERIFY = "whether everything that was installed is there, ready, and as it was installed. Changes nothing"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    prepare = steps.add_parser("prepare-uninstall", help=_PREPARE, description=_PREPARE)
    verify = steps.add_parser("verify", help=_VERIFY, description=_VERIFY)
    for step in (prepare, verify):
        shared.add_kubeconfig(step)
        step.add_argument(
            "--namespace", default=names.RELEASE_NAMESPACE, metavar="NS", help="of the release (default: %(default)s)"
        )
    prepare.add_argument(
        "--node-label",
        action="append",
        type=_label,
        metavar="KEY=VALUE",
        help=f"a label by which nodes are Cotenant's (default: {names.GPU_NODE_LABEL}=true); taken off them where its "
        "key is of cotenant.dev. May be repeated",
    )
    prepare.add_argument(
        "--wait-seconds", type=float, default=120, metavar="S", help="for nodes to be given back (default: %(default)s)"
    )
    verify.add_argument(
        "--mode", choices=("Pack", "Observe"), default="Pack", help="as installed (default: %(default)s)"
    )
    verify.add_argument(
        "--wait-seconds", type=float, default=60, metavar="S", help="for all to be ready (default: %(default)s)"
    )


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no label: write KEY=VALUE")
    return key, value


def run(arguments: argparse.Namespace) -> int:
    """Do it, and say what was done or found. 1: something is missing of what was installed.

    0 also where a node could not be given back in time: that is said.
    """
    if arguments.step == "verify":
        faults = asyncio.run(_verified(arguments))
        print("\n".join(faults) or "everything that was installed is there and ready", flush=True)
        return 1 if faults else 0
    for line in asyncio.run(_prepared(arguments)):
        print(line, flush=True)
    return 0


async def _prepared(arguments: argparse.Namespace) -> list[str]:
    from cotenant_operator.release import plan, uninstalling

    clock = uninstalling.Clock(time.monotonic, asyncio.sleep)
    async with _cluster(arguments) as cluster:
        ending = uninstalling.Uninstalling(cluster, clock, wait_seconds=arguments.wait_seconds)
        return plan.lines(await ending.run(dict(arguments.node_label or [(names.GPU_NODE_LABEL, "true")])))


async def _verified(arguments: argparse.Namespace) -> list[str]:
    """Return what is missing once all had time to become ready."""
    from cotenant_api import packingpolicy
    from cotenant_operator.kube import api
    from cotenant_operator.release import verifying

    deadline, mode = time.monotonic() + arguments.wait_seconds, packingpolicy.Mode(arguments.mode)
    async with _cluster(arguments) as cluster:
        while True:
            try:
                faults = await verifying.faults(cluster, mode)
            except (api.APIError, errors.TemporaryError) as error:
                faults = [f"the API server does not answer as it should: {error}"]
            if not faults or time.monotonic() >= deadline:
                return faults
            await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def _cluster(arguments: argparse.Namespace) -> "AsyncIterator[Objects]":
    """Yield the objects of the release."""
    from cotenant_operator.kube import api, connection
    from cotenant_operator.release.objects import Objects

    send = connection.Connection(functools.partial(connection.load, arguments.kubeconfig))
    try:
        yield Objects(api.API(send), arguments.namespace)
    finally:
        await send.close()
