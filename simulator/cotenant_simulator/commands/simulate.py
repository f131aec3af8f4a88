"""`cotenant simulate`: experiments that replay traces through the packing functions of a cluster."""

import argparse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cotenant_api.command import Command
from cotenant_simulator.commands import cluster, horus, inference_mix, kace, openb, philly, prediction_error, waits

SUMMARY = "replay traces through the packing functions of filter, and compare placements"
EXAMPLES = """\
examples: cotenant simulate cluster --policy proposed.yaml --html what-if.html
          cotenant simulate horus
"""

_EXPERIMENTS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "cluster": cluster,
        "horus": horus,
        "inference-mix": inference_mix,
        "kace": kace,
        "openb": openb,
        "philly": philly,
        "prediction-error": prediction_error,
        "waits": waits,
    }
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiments, each with arguments of its own."""
    experiments = parser.add_subparsers(dest="experiment", required=True, metavar="EXPERIMENT")
    for name, module in _EXPERIMENTS.items():
        module.configure(experiments.add_parser(name, help=module.SUMMARY, description=module.SUMMARY))


def run(arguments: argparse.Namespace) -> int:
    """Do one experiment."""
    return _EXPERIMENTS[arguments.experiment].run(arguments)
