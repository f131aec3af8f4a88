"""`cotenant doctor`: what is wrong with an installation, and what to do about it."""

import argparse
import time
from datetime import UTC, datetime
from typing import Final

from cotenant_api import names, terminal
from cotenant_cli.commands import output

SUMMARY = "look for what is wrong with an installation, with a remedy for each finding"
EXAMPLES = """\
examples: cotenant doctor
          cotenant doctor --kubeconfig admin.conf -o json
          kubectl -n cotenant-system exec POD -- cotenant doctor --node-local

exit codes: 0 no error (there may be warnings), 1 some of the cluster could not be looked at, 2 wrong arguments,
3 errors found
"""
UNREAD: Final = 1
_NODE_LOCAL: Final = "--node-local"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        _NODE_LOCAL,
        action="store_true",
        help="look at this machine instead, as `cotenant node-doctor` does, which has more options",
    )
    parser.add_argument(
        "-n", "--namespace", metavar="NS", default=names.RELEASE_NAMESPACE, help="Cotenant's (default: %(default)s)"
    )
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, and tell; nothing in the cluster is changed."""
    if arguments.node_local:
        from cotenant_api import cli

        return cli.main(["node-doctor", "--output", arguments.output])
    from cotenant_api import findings
    from cotenant_cli import checks
    from cotenant_cli.reading import installation, kube, renewals
    from cotenant_cli.sending import rights

    namespace = output.require_name("--namespace", arguments.namespace)
    lists = kube.Lists(arguments.kubeconfig, arguments.context)
    seen = installation.read(
        lists,
        rights.Asked(kube.Connection(arguments.kubeconfig, arguments.context)),
        sources=checks.every_source(),
        rights=checks.every_right(),
        namespace=namespace,
    )
    found = checks.examined(renewals.watched(lists, seen, pause=time.sleep))
    report = findings.Report(taken=datetime.now(UTC).isoformat(timespec="seconds"), findings=found)
    terminal.write(findings.rendered(report, form=arguments.output, look=output.look(arguments.output)))
    return findings.exit_code(found) or (UNREAD if seen.unread else 0)
