"""`cotenant node drain`, for real: progress line by line, then what came of it."""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Final

from cotenant_api import printable, tables, terminal
from cotenant_cli.commands import output
from cotenant_cli.draining import loop
from cotenant_cli.reading import cluster, kube, objects
from cotenant_cli.sending import evicting
from cotenant_cli.views import node, usage_tables

POLL_SECONDS: Final = 2.0


class _Means:
    """A real cluster and a real clock; see `loop.Means`."""

    def __init__(self, lists: kube.Lists, name: str) -> None:
        self._connection, self._lists, self._name = lists.connection, lists, name

    def seen(self) -> cluster.Seen:
        found = cluster.of_node(self._lists, name=self._name)
        node.require(found, self._name)
        return found

    def cordon(self) -> None:
        evicting.cordon(self._connection, self._name)

    def evict(self, pod: objects.Pod, *, dry_run: bool) -> None:
        evicting.evict(self._connection, pod, dry_run=dry_run)

    def now(self) -> float:
        return time.monotonic()

    def sleep(self) -> None:
        time.sleep(POLL_SECONDS)


def run(arguments: argparse.Namespace, name: str) -> int:
    """Drain; 1: not in time."""
    limits = loop.Limits(end=time.monotonic() + arguments.timeout, force=arguments.force)
    lists = kube.Lists(arguments.kubeconfig, arguments.context, patience=lambda: limits.patience(time.monotonic()))
    lists.connection.require_cotenant()
    means = _Means(lists, name)
    found = loop.drain(name, means, limits, tell=lambda line: tell(line, arguments.output))
    terminal.write(
        output.rendered(found, lambda look: _lines(found, look), output.look(arguments.output), output=arguments.output)
    )
    return 0 if found.drained else 1


def tell(line: str, form: str) -> None:
    """Write a line of progress; a drain goes on when nobody reads them any more.

    Args:
        line: of progress.
        form: of the output: what programs read holds the document alone.
    """
    stream = sys.stdout if form in (output.TABLE, output.WIDE) else sys.stderr
    terminal.write(f"{printable.plain(line)}\n", stream)


def _lines(found: loop.Drained, look: tables.Look) -> Iterator[str]:
    name = printable.plain(found.name)
    if found.drained:
        yield f"node/{name} drained; open it again: kubectl uncordon {name}"
    else:
        left = ", ".join(map(printable.plain, found.remaining)) or f"{found.tenants} tenants on its GPUs"
        yield f"node/{name} is not drained in time, and stays cordoned: {left}"
    yield from usage_tables.notes(found.notes, look)
