"""CARMA's peak memory of whole PyTorch training jobs on an A100, each with the graph of what ran.

Of its 41 jobs the 33 image classifiers have a graph: their programs say everything that a graph needs. The language
models, the segmentation, detection and recommendation jobs do not yet.
"""

import csv
import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel

FOLDER: Final = Path(__file__).with_name("carma")
FILE: Final = FOLDER / "summary.csv"
GPU_MODEL: Final = GPUModel("NVIDIA-A100-SXM4-40GB")
"""Of the DGX Station A100 that the authors name."""

_BATCH: Final = re.compile(r"--batch_size_(\d+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One measured job."""

    program: str
    batch_size: int
    graph: Graph
    memory_mib: float
    """The most that nvidia-smi showed."""
    estimated_mib: float
    """What the authors' estimator said: fake tensors through one forward and backward pass."""


@functools.cache
def load() -> tuple[Run, ...]:
    """The jobs that have a graph, in the order of the file."""
    names = json.loads((FOLDER / "graphs" / "manifest.json").read_bytes())
    with FILE.open(newline="", encoding="utf-8") as lines:
        found = [_run(row, names) for row in csv.DictReader(lines)]
    return tuple(run for run in found if run is not None)


def _run(row: Mapping[str, str], names: Mapping[str, str]) -> Run | None:
    batch = _BATCH.search(row["Run folder"])
    file = None if batch is None else names.get(f"{row['Model']},{batch[1]}")
    if batch is None or file is None:
        return None
    return Run(
        program=row["Model"],
        batch_size=int(batch[1]),
        graph=Graph.read((FOLDER / "graphs" / file).read_bytes(), source=file),
        memory_mib=float(row["Max memory.used [MB]"]),
        estimated_mib=float(row["Faketensor Estimate [MB]"]),
    )
