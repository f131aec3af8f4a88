"""`cotenant measurements`: write what was measured in a cluster as `cotenant train` reads it."""

import argparse
import asyncio
import sys
from pathlib import Path

from cotenant_api import errors
from cotenant_operator import arguments as shared

SUMMARY = "collect the measurements of jobs, with their graphs, from a cluster: a file for `cotenant train`"
EXAMPLES = "example: cotenant measurements --all-namespaces > measured.jsonl"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    shared.add_kubeconfig(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", default="default", metavar="NS", help="whose (default: default)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="of every namespace")


def run(arguments: argparse.Namespace) -> int:
    """Write lines to standard output, and how many there are to standard error."""
    namespace = None if arguments.all_namespaces else arguments.namespace
    lines = asyncio.run(_collected(arguments.kubeconfig, namespace))
    for line in lines:
        print(line)
    print(f"cotenant measurements: {len(lines)} lines of measurements and graphs", file=sys.stderr, flush=True)
    return 0


async def _collected(kubeconfig: Path | None, namespace: str | None) -> list[str]:
    import functools

    from cotenant_operator.kube import api, connection
    from cotenant_operator.learning import ledger
    from cotenant_operator.state.kinds import Kind
    from cotenant_operator.state.views import Key

    send = connection.Connection(functools.partial(connection.load, kubeconfig))
    client = api.API(send)
    try:
        if namespace is not None:
            found = await client.config_map(Key(namespace, ledger.NAME))
            config_maps = [] if found is None else [found]
        else:
            pages = client.pages(Kind.CONFIG_MAP, name=ledger.NAME)
            config_maps = [item async for page in pages for item in page]
    except api.APIError as error:
        raise errors.PermanentError(f"ConfigMaps cannot be read: {error}") from error
    finally:
        await send.close()
    return ledger.collected(found for found in config_maps if ledger.is_ours(found))
