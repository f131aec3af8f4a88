"""`cotenant top`: GPUs and their tenants, once, or again and again."""

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cotenant_api import errors, terminal
from cotenant_cli.commands import output

if TYPE_CHECKING:
    from cotenant_cli.reading import cluster

    Seeing = Callable[[], cluster.Seen]

SUMMARY = "show GPUs and their tenants: predicted beside booked beside observed"
EXAMPLES = """\
examples: cotenant top --watch
          cotenant top -n team -o wide
"""

_INTERVAL: Final = "--interval"
_LEAST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 86_400.0
"""A day."""
_AGAIN: Final = "\x1b[H\x1b[J"
"""To the first place of the screen, and clear what is below."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("-n", "--namespace", metavar="NS", help="only its pods, and the GPUs that they are on")
    parser.add_argument("-w", "--watch", action="store_true", help="again and again, until it is interrupted")
    parser.add_argument(
        _INTERVAL, type=float, default=5.0, metavar="SECONDS", help="between two pictures (default: %(default)s)"
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, and show; nothing in the cluster is changed."""
    from cotenant_cli.reading import cluster, kube, live
    from cotenant_cli.views import usage, usage_tables

    if not _LEAST_SECONDS <= arguments.interval <= _MOST_SECONDS:
        remedy = f"must be at least {_LEAST_SECONDS:.0f} and at most {_MOST_SECONDS:.0f}"
        raise errors.InvalidInputError(_INTERVAL, arguments.interval, remedy)
    namespace = None if arguments.namespace is None else output.require_name("--namespace", arguments.namespace)
    lists = kube.Lists(arguments.kubeconfig, arguments.context)
    lists.connection.require_cotenant()
    seen: Seeing = functools.partial(cluster.of_gpus, lists, namespace=namespace)
    if arguments.watch:
        kept = live.Live(kube.Connection(arguments.kubeconfig, arguments.context), namespace=namespace)
        seen = following(kept.seen, seen, close=kept.close)

    def read() -> str:
        shown = usage.usage(seen(), namespace=namespace, now=datetime.now(UTC))
        return output.rendered(
            shown,
            lambda look: usage_tables.lines(shown, look),
            output.look(arguments.output),
            output=arguments.output,
        )

    if not arguments.watch:
        terminal.write(read())
        return 0
    people = arguments.output in (output.TABLE, output.WIDE)
    first = _AGAIN if people and sys.stdout.isatty() else "---\n" if arguments.output == output.YAML else ""
    for text in watched(read, sleep=lambda: time.sleep(arguments.interval)):
        if not terminal.write(first + text):
            break
    return 0


def following(kept: "Seeing", listed: "Seeing", *, close: Callable[[], None]) -> "Seeing":
    """Return what is kept up to date by watches; where they are refused, what is listed each time.

    Args:
        kept: what watches keep.
        listed: what is listed anew.
        close: ends the watches.
    """
    refused = False

    def seen() -> "cluster.Seen":
        nonlocal refused
        if not refused:
            try:
                return kept()
            except errors.PermanentError:
                refused = True
                close()
        return listed()

    return seen


def watched(read: Callable[[], str], *, sleep: Callable[[], None]) -> Iterator[str]:
    """Yield what is read, again and again; a server that does not answer is told on standard error, and asked again."""
    while True:
        try:
            yield read()
        except errors.TemporaryError as error:
            print(f"cotenant: top: {error}", file=sys.stderr, flush=True)
        sleep()
