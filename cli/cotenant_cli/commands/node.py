"""`cotenant node show` and `cotenant node drain`: one node with GPUs."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cotenant_api import errors, terminal
from cotenant_cli.commands import output

if TYPE_CHECKING:
    from cotenant_cli.reading import cluster

SUMMARY = "show how a node with GPUs stands, or empty it of pods with GPUs"
EXAMPLES = """\
examples: cotenant node show n1
          cotenant node drain n1 --dry-run
          cotenant node drain n1 --timeout 1800 && ssh n1 reboot

drain cordons the node and evicts the pods with GPUs, gangs last and whole, as PodDisruptionBudgets allow; what they
refuse is tried again. It ends when the node's agent sees no tenant on any GPU. Then: kubectl uncordon NODE
"""

_TIMEOUT: Final = "--timeout"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="its agent, GPUs, tenants, refusals and faults")
    drain = actions.add_parser("drain", help="cordon it, evict the pods with GPUs, and wait until the GPUs are free")
    drain.add_argument(
        "--dry-run", action="store_true", help="say who has to go and what becomes of them; change nothing"
    )
    drain.add_argument("--force", action="store_true", help="end pods, too, that nobody makes again")
    drain.add_argument(
        _TIMEOUT, type=float, default=600.0, metavar="SECONDS", help="give up after so long (default: %(default).0f)"
    )
    for action, example in ((show, "show n1 -o json"), (drain, "drain n1 --dry-run")):
        action.epilog = f"example: cotenant node {example}"
        action.add_argument("node", metavar="NODE")
        output.configure(action)


def run(arguments: argparse.Namespace) -> int:
    """Show, or drain."""
    from cotenant_cli.reading import cluster, kube

    name = output.require_name("NODE", arguments.node)
    if arguments.action == "drain" and not arguments.dry_run:
        from cotenant_cli.commands import drain

        if not arguments.timeout > 0:
            raise errors.InvalidInputError(_TIMEOUT, arguments.timeout, "must be more than 0")
        return drain.run(arguments, name)
    lists = kube.Lists(arguments.kubeconfig, arguments.context)
    lists.connection.require_cotenant()
    seen = cluster.of_node(lists, name=name)
    terminal.write((_drain if arguments.action == "drain" else _show)(seen, name, arguments.output))
    return 0


def _show(seen: "cluster.Seen", name: str, form: str) -> str:
    from cotenant_cli.views import node, node_lines

    found = node.shown(seen, name=name, now=datetime.now(UTC))
    return output.rendered(found, lambda look: node_lines.shown(found, look), output.look(form), output=form)


def _drain(seen: "cluster.Seen", name: str, form: str) -> str:
    from cotenant_cli.views import node, node_lines

    found = node.drain(seen, name=name, now=datetime.now(UTC))
    return output.rendered(found, lambda look: node_lines.drain(found, look), output.look(form), output=form)
