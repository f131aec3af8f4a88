"""MISO's 33 whole training jobs on an A100, each with the graph of what ran: what nvidia-smi said, and step times.

The programs are TensorFlow's. Their graphs are extracted from PyTorch versions of the same networks, so an operator
that PyTorch fuses and TensorFlow does not, or the other way round, is counted as PyTorch has it. TensorFlow's allocator
grows by doubling and gives nothing back: what it holds is no peak of what a job needs.

The step times are of the largest MIG slice, which has all the memory and 98 of the 108 multiprocessors; the dummy was
not measured there.
"""

import csv
import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_predictor.datasets import miso
from cotenant_predictor.datasets.graphs import Graphs
from cotenant_predictor.datasets.whole_jobs import ARRAYS, PREPARED, WholeJob

FOLDER: Final = Path(__file__).with_name("miso")
FILE: Final = FOLDER / "util_collection.csv"
GPU_MODEL: Final = GPUModel("NVIDIA-A100-PCIE-40GB")
"""The authors name no board. No job took 250 W or more, which is this board's limit; the other one may take 400 W."""

SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bert": ARRAYS,
        "cyclegan": PREPARED,
        "deepspeech2": PREPARED,
        "dummy": ARRAYS,
        "embedding": ARRAYS,
        "gnn": PREPARED,
        "mobilenet": ARRAYS,
        "resnet": ARRAYS,
        "transformer": ARRAYS,
    }
)
"""By program; how fast samples come is not published of any.

Prepared are images that are decoded and cropped, sound that becomes a spectrogram, and molecules that are joined to one
graph.
"""

_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "util_sm": "utilization",
        "util_mem": "memoryUtilization",
        "memory": "memoryPeakMiB",
        "power": "powerWatts",
    }
)

LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "utilization": "nvidia-smi",
        "memoryPeakMiB": "held by TensorFlow",
        "stepMilliseconds": "MIG 7g.40gb",
    }
)
"""What is to be said of a value behind the name of its target."""


@functools.cache
def load() -> tuple[WholeJob, ...]:
    """Return all jobs, in the order of the file.

    Raises:
        InvalidInputError: a graph is damaged.
    """
    graphs = Graphs(FOLDER)
    with FILE.open(newline="", encoding="utf-8") as lines:
        return tuple(_job(row, graphs) for row in csv.DictReader(lines))


def _job(row: Mapping[str, str], graphs: Mapping[str, Graph]) -> WholeJob:
    program, batch = row["model"], int(row["batch"])
    measured = {target: float(row[column]) for column, target in _COLUMNS.items()}
    seconds = miso.seconds_of_whole().get((program, batch))
    if seconds is not None:
        measured["stepMilliseconds"] = 1e3 * seconds
    return WholeJob(
        program=program,
        batch_size=batch,
        gpu_model=GPU_MODEL,
        graph=graphs[f"{program},{batch}"],
        source=SOURCES[program],
        measured=MappingProxyType(measured),
    )
