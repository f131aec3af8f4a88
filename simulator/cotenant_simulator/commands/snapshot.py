"""`cotenant snapshot`: a cluster as one file, free of secrets, for `cotenant simulate cluster`."""

import argparse
import functools
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant_api import errors, files, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cotenant_simulator.live import snapshot

    History = Callable[[], Mapping[str, Any]]

SUMMARY = "write what packing depends on in a cluster into one file, free of secrets"
EXAMPLES = "example: cotenant snapshot --redact -o cluster.json"

_OUT = "--out"
_TOKEN_FILE = "--prometheus-token-file"  # noqa: S105 -- an option's name
_SECONDS_PER_HOUR = 3600
_KEY_BYTES = 32


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    configure_source(parser)
    parser.add_argument("-o", _OUT, type=Path, metavar="FILE", help="where the snapshot goes; default: standard output")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="hash the names of nodes, namespaces, pods, DLJobs and GPUs, with a key that is kept nowhere",
    )


def configure_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which cluster, and where its history is."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--context", metavar="C", help="of the kubeconfig; default: its current one")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: as kubectl chooses it")
    group.add_argument(
        "--prometheus",
        metavar="URL|FILE",
        help="where dcgm-exporter's metrics are: a Prometheus server, or a file with its answers by metric",
    )
    group.add_argument(
        _TOKEN_FILE, type=Path, metavar="FILE", help="a bearer token for the Prometheus server, where it asks for one"
    )
    group.add_argument(
        "--hours", type=int, default=168, metavar="N", help="how far back monitoring is asked (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, and write; nothing in the cluster is changed."""
    from cotenant_simulator.live import redaction

    found = of_cluster(arguments)
    if arguments.redact:
        found = redaction.redacted(found, key=secrets.token_bytes(_KEY_BYTES))
    text = found.to_json() + "\n"
    if arguments.out is None:
        terminal.write(text)
    else:
        files.replace(arguments.out, text.encode(), field=_OUT)
    gpus = sum(len(node.gpus) for node in found.nodes)
    told = f"{gpus} GPUs on {len(found.nodes)} nodes, {len(found.pods)} pods, usage of {len(found.usage)} of them"
    left = f"; {len(found.unread)} that cannot be read are listed" if found.unread else ""
    print(f"cotenant snapshot: {told}{left}", file=sys.stderr)
    return 0


def of_cluster(arguments: argparse.Namespace) -> "snapshot.Snapshot":
    """Return the cluster that the arguments name, with the history that they name."""
    from cotenant_cli.reading import kube
    from cotenant_simulator.live import snapshot, taking

    history = _history(arguments)
    lists = kube.Lists(arguments.kubeconfig, arguments.context)
    found = taking.taken(lists, now=datetime.now(UTC).replace(microsecond=0))
    snapshot.require_whole(found, source="cluster")
    return _with_usage(found, arguments, history)


def with_usage(found: "snapshot.Snapshot", arguments: argparse.Namespace) -> "snapshot.Snapshot":
    """With what monitoring says of its pods, where the arguments name one. Pods that are not there are left out."""
    return _with_usage(found, arguments, _history(arguments))


def _with_usage(
    found: "snapshot.Snapshot", arguments: argparse.Namespace, history: "History | None"
) -> "snapshot.Snapshot":
    if history is None:
        return found
    from cotenant_simulator.live import dcgm

    wanted = {(pod.namespace, pod.name) for pod in found.pods}
    usage = dcgm.usage(history(), source=str(arguments.prometheus))
    kept = tuple(one for one in usage if (one.namespace, one.pod) in wanted)
    return found.model_copy(update={"usage": kept})


def _history(arguments: argparse.Namespace) -> "History | None":
    """Return what asks monitoring, where the arguments name one: they are looked at before anything is asked."""
    from cotenant_simulator.live import prometheus

    where: str | None = arguments.prometheus
    if where is None:
        return None
    if "://" not in where:
        return functools.partial(prometheus.saved, Path(where))
    prometheus.require_url(where)
    if arguments.hours < 1:
        raise errors.InvalidInputError("--hours", arguments.hours, "must be at least 1")
    file = arguments.prometheus_token_file
    token = "" if file is None else prometheus.token(file, field=_TOKEN_FILE)
    return functools.partial(prometheus.answers, where, seconds=arguments.hours * _SECONDS_PER_HOUR, token=token)
