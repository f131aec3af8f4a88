"""`cotenant predict`: graph documents in, one prediction document a line out."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_api import errors
from cotenant_predictor.commands import arguments as shared

if TYPE_CHECKING:
    from cotenant_api.graph import Graph
    from cotenant_api.prediction import Prediction

SUMMARY = "predict from computation graphs what jobs will need on each GPU model"
EXAMPLES = """\
examples: cotenant predict resnet50.json --gpu-model NVIDIA-H200 --gpu-model Tesla-T4 --format table
          cotenant extract model.onnx --batch-size 8 --mode Inference | cotenant predict -
"""

_REMEDY = "give what `cotenant extract` wrote"
_COLUMNS = "{:32} {:22} {:>12} {:>12} {:>14} {:>10} {:>8}  {}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "graphs",
        nargs="+",
        metavar="GRAPH",
        help="a graph.json, a .jsonl with one graph a line, either of them gzipped (.gz), or - for standard input",
    )
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    parser.add_argument(
        "--gpu-model",
        action="append",
        default=[],
        metavar="MODEL",
        help="predict for this GPU model only (repeat for more); default: every known one",
    )
    shared.add_devices(parser)
    parser.add_argument("--cpu-cores", type=float, metavar="N", help="cores that load the job's input; default: enough")
    parser.add_argument(
        "--format", choices=("json", "table"), default="json", help="one JSON document a line, or a table"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write a line per graph, in order, each as soon as it is predicted."""
    from cotenant_predictor import devices
    from cotenant_predictor.jobs import prediction as jobs
    from cotenant_predictor.models import store

    knowledge = store.load(arguments.model).knowledge()
    gpus = devices.select(arguments.gpu_model, devices.with_file(arguments.devices))
    if arguments.format == "table":
        _write(_COLUMNS.format("GRAPH", "GPU", "UTIL %", "SM %", "MEMORY MiB", "STEP ms", "THREADS", "REGIME"))
    for graph in _graphs(arguments.graphs):
        found = jobs.predict(graph, gpus, cpu_cores=arguments.cpu_cores, knowledge=knowledge)
        if arguments.format == "json":
            _write(found.to_json())
            continue
        for line in _table(graph.name, found):
            _write(line)
    return 0


def _graphs(names: list[str]) -> "Iterator[Graph]":
    from cotenant_predictor.datasets import files

    for name in names:
        in_lines = name.removesuffix(".gz").endswith(".jsonl")
        data = files.read_bytes(Path(name)) if in_lines else _bytes(name)
        if not in_lines and not (name == "-" and _is_whole(data.partition(b"\n")[0])):
            yield _graph(data, source=name)
            continue
        lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        if not lines:
            raise errors.InvalidInputError("GRAPH", name, f"holds no graph: {_REMEDY}")
        for number, line in lines:
            yield _graph(line, source=f"{name}:{number}")


def _graph(data: bytes, *, source: str) -> "Graph":
    """What is something else altogether (a measurement, a configuration) is told apart from a damaged graph."""
    from cotenant_api.graph import Graph

    try:
        return Graph.read(data, source=source)
    except errors.InvalidInputError as error:
        if not _is_of_another_kind(data):
            raise
        raise errors.InvalidInputError("GRAPH", source, f"is not a graph document: {_REMEDY}") from error


def _is_of_another_kind(data: bytes) -> bool:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("mechanism" in value or not value.keys() & {"v", "operators"})


def _is_whole(line: bytes) -> bool:
    """Whether a line is a document of its own, not the first line of an indented one."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


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
