"""`cotenant predict`: graph documents in, one prediction document a line out."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_api import errors

if TYPE_CHECKING:
    from cotenant_api.graph import Graph
    from cotenant_api.prediction import Prediction

SUMMARY = "predict from computation graphs what jobs will need on each GPU model"

_COLUMNS = "{:32} {:22} {:>12} {:>12} {:>14} {:>10} {:>8}  {}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "graphs", nargs="+", metavar="GRAPH", help="a graph.json or graph.json.gz; - reads standard input"
    )
    parser.add_argument(
        "--gpu-model",
        action="append",
        default=[],
        metavar="MODEL",
        help="predict for this GPU model only (repeat for more); default: every known one",
    )
    parser.add_argument("--cpu-cores", type=float, metavar="N", help="cores that load the job's input; default: enough")
    parser.add_argument(
        "--format", choices=("json", "table"), default="json", help="one JSON document a line, or a table"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write a line per graph, in order, each as soon as it is predicted."""
    from cotenant_predictor import devices
    from cotenant_predictor.jobs import prediction as jobs

    gpus = devices.select(arguments.gpu_model)
    if arguments.format == "table":
        _write(_COLUMNS.format("GRAPH", "GPU", "UTIL %", "SM %", "MEMORY MiB", "STEP ms", "THREADS", "REGIME"))
    for graph in _graphs(arguments.graphs):
        found = jobs.predict(graph, gpus, cpu_cores=arguments.cpu_cores)
        if arguments.format == "json":
            _write(found.to_json())
            continue
        for line in _table(graph.name, found):
            _write(line)
    return 0


def _graphs(names: list[str]) -> "Iterator[Graph]":
    from cotenant_api.graph import Graph

    for name in names:
        yield Graph.read(_bytes(name), source=name)


def _bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise errors.InvalidInputError("GRAPH", name, f"cannot be read: {error.strerror}") from error


def _table(name: str, prediction: "Prediction") -> "Iterator[str]":
    for model, row in prediction.by_gpu.items():
        yield _COLUMNS.format(
            name[:32],
            model,
            f"{row.utilization.q50:.0f} < {row.utilization.upper:.0f}",
            f"{row.sm_activity.q50:.0f} < {row.sm_activity.upper:.0f}",
            f"{row.memory_mib.q50} < {row.memory_mib.upper}",
            f"{row.step_milliseconds:.2f}",
            row.thread_percentage,
            row.regime + (", out of domain" if row.out_of_domain else ""),
        )


def _write(line: str) -> None:
    print(line, flush=True)
