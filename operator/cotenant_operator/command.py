"""`cotenant operator`: run the operator until a signal."""

import argparse
import asyncio
import logging
import re
from pathlib import Path
from typing import Final

from cotenant_api import logs, names
from cotenant_operator import arguments as shared
from cotenant_operator import labels

SUMMARY = "run the operator: DLJobs become predicted, gated Jobs and Deployments"
COMPONENT = True
EXAMPLES = "example: cotenant operator --kubeconfig admin.conf"
_WORD: Final = r"[a-zA-Z0-9][a-zA-Z0-9._-]*"
_LABEL_KEY: Final = re.compile(rf"({_WORD}/)?{_WORD}(?<![._-])|{_WORD}/")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    shared.add_kubeconfig(parser)
    parser.add_argument(
        "--liveness-port",
        type=_port,
        metavar="PORT",
        help="serve /healthz and /metrics there; default: not at all",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="predict by the model that `cotenant train` wrote there; default: the one that ships",
    )
    parser.add_argument(
        "--devices",
        type=Path,
        metavar="FILE",
        help="rows of further GPU models, as the predictor's devices.yaml has them",
    )
    parser.add_argument(
        "--label-keys-to-copy",
        type=_label_keys,
        default=frozenset(),
        metavar="KEYS",
        help="labels of DLJobs that their pods get, too: keys, or prefixes that end in a slash, separated by commas",
    )
    parser.add_argument(
        "--identity",
        default="",
        metavar="NAME",
        help="by which it holds the Lease: no other that runs may have it; default: one of its own",
    )
    shared.add_release(parser)
    logs.add_argument(parser)
    parser.add_argument("--verbose", action="store_true", help="log what kopf and the watches do")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 1 to 65535")
    return int(text)


def _label_keys(text: str) -> frozenset[str]:
    found = frozenset(filter(None, text.split(",")))
    for key in found:
        if _LABEL_KEY.fullmatch(key) is None:
            raise argparse.ArgumentTypeError(f"{key!r} is no label key: give one, or a prefix that ends in a slash")
        if key.startswith((labels.KUEUE, f"{names.GROUP}/")):
            raise argparse.ArgumentTypeError(f"{key!r}: leave it out: Kueue's go to the Job, Cotenant writes its own")
    return found


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    from cotenant_operator import service

    configure_logging(arguments.logging_format, verbose=arguments.verbose)
    options = service.Options(
        kubeconfig=arguments.kubeconfig,
        liveness_port=arguments.liveness_port,
        namespace=arguments.namespace,
        identity=arguments.identity,
        model=arguments.model,
        devices=arguments.devices,
        label_keys=arguments.label_keys_to_copy,
    )
    asyncio.run(service.serve(options))
    return 0


def configure_logging(logging_format: logs.Format, *, verbose: bool) -> None:
    """One line a message, on standard error; of kopf only what went wrong, unless asked for."""
    logs.configure(logging_format, level=logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        for name in ("kopf", "asyncio", "aiohttp.access"):
            logging.getLogger(name).setLevel(logging.WARNING)
