"""`cotenant why`: why a job waits, or why it is where it is."""

import argparse
from datetime import UTC, datetime

from cotenant_api import errors, terminal
from cotenant_cli.commands import output

SUMMARY = "say why a DLJob, a pod or a Job waits for its GPU, or why it is where it is"
EXAMPLES = """\
examples: cotenant why team/bert
          cotenant why bert -n team -o json
"""

_NAMESPACE = "--namespace"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("job", metavar="[NAMESPACE/]JOB", help="a DLJob; else a pod, else a Job of that name")
    parser.add_argument("-n", _NAMESPACE, metavar="NS", help="default: that of the context")
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, and say; nothing in the cluster is changed."""
    from cotenant_cli.reading import cluster, kube
    from cotenant_cli.views import explanation, explanation_lines

    # A name that cannot be one is told before a cluster is looked for.
    subject(arguments.job, arguments.namespace, default="default")
    lists = kube.Lists(arguments.kubeconfig, arguments.context)
    namespace, name = subject(arguments.job, arguments.namespace, default=lists.namespace)
    lists.connection.require_cotenant()
    seen = cluster.of_job(lists, namespace=namespace, name=name)
    shown = explanation.explained(seen, namespace=namespace, name=name, now=datetime.now(UTC))
    text = output.rendered(
        shown,
        lambda look: explanation_lines.lines(shown, look),
        output.look(arguments.output),
        output=arguments.output,
    )
    terminal.write(text)
    return 0


def subject(job: str, namespace: str | None, *, default: str) -> tuple[str, str]:
    """Namespace and name.

    Raises:
        InvalidInputError: one of them is no name, or two namespaces are named.
    """
    named, _, name = job.rpartition("/")
    if named and namespace and named != namespace:
        raise errors.InvalidInputError(_NAMESPACE, namespace, f"must be {named!r}, as in {job!r}, or left out")
    return output.require_name(_NAMESPACE, named or namespace or default), output.require_name("JOB", name)
