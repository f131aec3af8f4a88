"""How long predicting takes, by formula and by the model that ships, on this machine."""

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from cotenant_api import errors
from cotenant_api.graph import Graph
from cotenant_predictor import devices
from cotenant_predictor.jobs import prediction
from cotenant_predictor.jobs.prediction import Knowledge
from cotenant_predictor.models import store

SUMMARY = "measure the time of predictions, learned against formula, and of loading the model"

_ONE_MODEL = "NVIDIA-H200"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--graphs", type=Path, default=Path("manifests/examples/graphs"), metavar="DIR", help="graph documents"
    )
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds, of which the best counts")


def run(arguments: Namespace) -> int:
    """Print times, and their ratios, with the conditions."""
    files = sorted(arguments.graphs.glob("*.json*"))
    if not files:
        raise errors.InvalidInputError("--graphs", str(arguments.graphs), "holds no graph document")
    graphs = [Graph.read(file.read_bytes(), source=str(file)) for file in files]
    print(f"{len(graphs)} graphs of {sum(len(graph.operators) for graph in graphs)} operators; {os.cpu_count()} cores")
    data = store.load().to_bytes()
    loading = _best(arguments.repeats, lambda: store.parse(data, source="the model that ships"))
    print(f"model      {1e3 * loading:7.1f} ms to load, {len(data) / 1024:.0f} KiB")
    knowledge = (prediction.FORMULA, store.load().knowledge())
    for names in ([_ONE_MODEL], []):
        gpus = devices.select(names)
        times = [_each(graphs, gpus, known, arguments.repeats) for known in knowledge]
        for known, seconds in zip(knowledge, times, strict=True):
            print(
                f"{known.name.partition('@')[0]:10} {1e3 * seconds:7.2f} ms a graph on {len(gpus)} GPU models, "
                f"{1e3 * seconds:.2f} s for 1,000; x{seconds / times[0]:.2f}"
            )
            sys.stdout.flush()
    return 0


def _each(graphs: Sequence[Graph], gpus: Sequence[devices.Device], knowledge: Knowledge, repeats: int) -> float:
    def all_graphs() -> None:
        for graph in graphs:
            prediction.predict(graph, gpus, knowledge=knowledge)

    return _best(repeats, all_graphs) / len(graphs)


def _best(repeats: int, work: Callable[[], object]) -> float:
    """Seconds of the quickest round: the others waited for something else."""
    found = []
    for _ in range(max(1, repeats)):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)
