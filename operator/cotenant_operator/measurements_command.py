"""`cotenant measurements`: write what was measured in a cluster as `cotenant train` reads it.

Graphs in it are tenants' documents: as in the operator, a confined process reads them, which knows no credentials.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cotenant_api import errors
from cotenant_operator import arguments as shared

if TYPE_CHECKING:
    from cotenant_operator.learning import collecting

MOST_TOLD: Final = 20
"""Skipped lines that are told of, each with field, value and remedy; more are only counted."""

SUMMARY = "collect the measurements of jobs, with their graphs, from a cluster: a file for `cotenant train`"
COMPONENT = True
EXAMPLES = "example: cotenant measurements --all-namespaces > measured.jsonl"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    shared.add_kubeconfig(parser)
    shared.add_release(parser, flag="--release-namespace")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", default="default", metavar="NS", help="whose (default: default)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="of every namespace")


def run(arguments: argparse.Namespace) -> int:
    """Write lines to standard output, and how many there are to standard error."""
    namespace = None if arguments.all_namespaces else arguments.namespace
    found = asyncio.run(_collected(arguments.kubeconfig, arguments.release_namespace, namespace))
    lines = found.text()
    for line in lines:
        print(line)
    for problem in found.skipped[:MOST_TOLD]:
        _say(f"skipped: {problem}")
    _say(f"{len(lines)} lines of measurements and graphs, {len(found.skipped)} skipped")
    return 0


def _say(text: str) -> None:
    print(f"cotenant measurements: {text}", file=sys.stderr, flush=True)


async def _collected(kubeconfig: Path | None, release: str, namespace: str | None) -> "collecting.Collected":
    from cotenant_operator.learning import collecting
    from cotenant_operator.parsing import process, tasks

    parser = process.Process()

    async def ask(whose: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        while True:
            try:
                return await parser.ask(whose, task, data)
            except errors.TemporaryError as error:
                # Bounded: what goes wrong too often is answered as a fault.
                await asyncio.sleep(error.delay_seconds)

    # Before credentials are read: nothing of them is in its memory.
    await parser.start()
    try:
        return await collecting.collected(await _config_maps(kubeconfig, release, namespace), ask)
    finally:
        await parser.close()


async def _config_maps(kubeconfig: Path | None, release: str, namespace: str | None) -> list[dict[str, Any]]:
    """Return what the operator keeps of a namespace; None: of all."""
    import functools

    from cotenant_operator.kube import api, connection
    from cotenant_operator.learning import ledger
    from cotenant_operator.state.kinds import Kind
    from cotenant_operator.state.views import Key

    send = connection.Connection(functools.partial(connection.load, kubeconfig))
    client = api.API(send)
    try:
        if namespace is not None:
            found = await client.config_map(Key(release, ledger.name_of(namespace)))
            return [] if found is None else [found]
        pages = client.pages(Kind.CONFIG_MAP, namespace=release, selector=ledger.LABEL)
        return [item async for page in pages for item in page]
    except api.APIError as error:
        text = f"ConfigMaps of {release} cannot be read: {error}: name the release's by --release-namespace"
        raise errors.PermanentError(text) from error
    finally:
        await send.close()
