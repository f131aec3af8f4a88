"""CARMA's peak memory of whole PyTorch training jobs on an A100, each with the graph of what ran.

Of its 41 jobs 35 have a graph: the image classifiers and BERT in two sizes, whose programs say everything that a graph
needs. GPT-2 and XLNet ran as torch's DataParallel on two GPUs, of which a graph says nothing; what segmentation,
detection and recommendation had as input does not stand in what is published.
"""

import csv
import dataclasses
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_predictor.datasets.graphs import Graphs

FOLDER: Final = Path(__file__).with_name("carma")
FILE: Final = FOLDER / "summary.csv"
GPU_MODEL: Final = GPUModel("NVIDIA-A100-SXM4-40GB")
"""Of the DGX Station A100 that the authors name."""

BATCHES: Final[Mapping[str, int]] = MappingProxyType({"BERT_base_on_wiki": 32, "BERT_large_on_wiki": 8})
"""Of programs that have it in their text, where the command line says nothing."""
_BATCH: Final = re.compile(r"--batch_size_(\d+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One measured job."""

    program: str
    batch_size: int
    graph: Graph
    memory_mib: float
    """The most that nvidia-smi showed."""
    estimated_mib: float | None
    """What the authors' estimator said: fake tensors through one forward and backward pass; None: it said nothing."""


@functools.cache
def load() -> tuple[Run, ...]:
    """Return the jobs that have a graph, in the order of the file."""
    graphs = Graphs(FOLDER)
    with FILE.open(newline="", encoding="utf-8") as lines:
        found = [_run(row, graphs) for row in csv.DictReader(lines)]
    return tuple(run for run in found if run is not None)


def _run(row: Mapping[str, str], graphs: Mapping[str, Graph]) -> Run | None:
    program, told, estimate = row["Model"], _BATCH.search(row["Run folder"]), row["Faketensor Estimate [MB]"]
    batch = BATCHES.get(program) if told is None else int(told[1])
    graph = graphs.get(f"{program},{batch}")
    if batch is None or graph is None:
        return None
    return Run(
        program=program,
        batch_size=batch,
        graph=graph,
        memory_mib=float(row["Max memory.used [MB]"]),
        estimated_mib=float(estimate) if estimate else None,
    )
