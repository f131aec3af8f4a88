"""`cotenant predict`: graph documents in, one prediction document a line out."""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_api import errors, tables, terminal
from cotenant_predictor.commands import arguments as shared

if TYPE_CHECKING:
    from cotenant_api.graph import Graph
    from cotenant_api.prediction import Prediction

SUMMARY = "predict from computation graphs what jobs will need on each GPU model"
EXAMPLES = """\
examples: cotenant predict resnet50.json --gpu-model NVIDIA-H200 --gpu-model Tesla-T4
          cotenant extract model.onnx --batch-size 8 --mode Inference | cotenant predict -
"""

_REMEDY = "give what `cotenant extract` wrote"
_TABLE = "table"
_JSON = "json"
_COLUMNS = (
    tables.words("GRAPH"),
    tables.words("GPU-MODEL"),
    tables.number("PREDICTED%"),
    tables.number("UPPER%"),
    tables.number("SM%", spare=3),
    tables.number("SM-UPPER%", spare=4),
    tables.number("MIB", spare=1),
    tables.number("MIB-UPPER"),
    tables.number("STEP-MS"),
    tables.number("THREADS%", spare=2),
    tables.words("BOUND-BY"),
)


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
        "-o",
        "--output",
        "--format",
        choices=(_TABLE, _JSON),
        help="a table, or one JSON document a line; default: a table on a terminal, else JSON",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write a line per graph, in order, each as soon as it is predicted; or one table of all."""
    from cotenant_predictor import devices
    from cotenant_predictor.jobs import prediction as jobs
    from cotenant_predictor.models import store

    knowledge = store.load(arguments.model).knowledge()
    gpus = devices.select(arguments.gpu_model, devices.with_file(arguments.devices), field="--gpu-model")
    form = arguments.output or (_TABLE if sys.stdout.isatty() else _JSON)
    rows: list[tuple[tables.Cell, ...]] = []
    for graph in _graphs(arguments.graphs):
        found = jobs.predict(graph, gpus, cpu_cores=arguments.cpu_cores, knowledge=knowledge)
        if form == _JSON:
            _write(found.to_json())
        else:
            rows += _rows(graph.name, found)
    if form == _TABLE:
        look = tables.Look(colours=terminal.in_colours(sys.stdout), width=terminal.width(sys.stdout))
        for line in tables.lines(_COLUMNS, rows, look):
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
    """Return what is something else altogether (a measurement, a configuration) is told apart from a damaged graph."""
    from cotenant_api import graph

    text = graph.unpacked(data, source=source)
    try:
        return graph.Graph.read(text, source=source)
    except errors.InvalidInputError as error:
        if not _is_of_another_kind(text):
            raise
        raise errors.InvalidInputError("GRAPH", source, f"is not a graph document: {_REMEDY}") from error


def _is_of_another_kind(data: bytes) -> bool:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("mechanism" in value or not value.keys() & {"v", "operators"})


def _is_whole(line: bytes) -> bool:
    """Return whether a line is a document of its own, not the first line of an indented one."""
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


def _rows(name: str, prediction: "Prediction") -> "Iterator[tuple[tables.Cell, ...]]":
    for model, row in prediction.by_gpu.items():
        yield (
            name,
            model,
            row.utilization.q50,
            math.ceil(row.utilization.upper),
            row.sm_activity.q50,
            math.ceil(row.sm_activity.upper),
            row.memory_mib.q50,
            row.memory_mib.upper,
            f"{row.step_milliseconds:.2f}",
            row.thread_percentage,
            row.regime + (", out of domain" if row.out_of_domain else ""),
        )


def _write(line: str) -> None:
    terminal.write(f"{line}\n")
