"""`cotenant node show` and `cotenant node drain --dry-run`: one node with GPUs."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cotenant_api import errors
from cotenant_cli.commands import output

if TYPE_CHECKING:
    from cotenant_cli.reading import cluster

SUMMARY = "show how a node with GPUs stands, or what draining it would do"

_DRY_RUN: Final = "--dry-run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="its agent, GPUs, tenants, refusals and faults")
    drain = actions.add_parser("drain", help="which pods with GPUs would have to go, and what becomes of them")
    drain.add_argument(_DRY_RUN, action="store_true", help="required: the commands that drain it are printed, not run")
    for action in (show, drain):
        action.add_argument("node", metavar="NODE")
        output.configure(action)


def run(arguments: argparse.Namespace) -> int:
    """Read, and show; nothing in the cluster is changed."""
    from cotenant_cli.reading import cluster, kube

    name = output.require_name("NODE", arguments.node)
    draining = arguments.action == "drain"
    if draining and not arguments.dry_run:
        raise errors.InvalidInputError(_DRY_RUN, False, "must be given: it prints the kubectl commands that do it")
    seen = cluster.of_node(kube.Lists(arguments.kubeconfig, arguments.context), name=name)
    output.write((_drain if draining else _show)(seen, name, arguments.output))
    return 0


def _show(seen: "cluster.Seen", name: str, form: str) -> str:
    from cotenant_cli.views import node, node_lines

    found = node.shown(seen, name=name, now=datetime.now(UTC))
    return output.rendered(found, lambda look: node_lines.shown(found, look), output=form, colours=output.colours())


def _drain(seen: "cluster.Seen", name: str, form: str) -> str:
    from cotenant_cli.views import node, node_lines

    found = node.drain(seen, name=name, now=datetime.now(UTC))
    return output.rendered(found, lambda look: node_lines.drain(found, look), output=form, colours=output.colours())
