"""Alnair's whole training jobs on a P100, each with the graph of what ran: the highest utilization, power and memory.

Of its 49 jobs 36 have a graph. CartPole's 8 wait for a game on the CPU, and of the 5 of NASNet Mobile there is no
definition in PyTorch. The programs are TensorFlow's; what is said at `miso_jobs` of their graphs and their memory holds
here, too. The CPU decodes, mirrors and sizes images, and cuts texts into words, while the job runs. Highest values are
no means: a job whose loader is slow may reach them for a moment alone.
"""

import csv
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.datasets.graphs import Graphs
from cotenant_predictor.datasets.whole_jobs import ARRAYS, PREPARED, WholeJob

FOLDER: Final = Path(__file__).with_name("alnair")
FILE: Final = FOLDER / "Dataset.csv"
GPU_MODEL: Final = GPUModel("Tesla-P100-PCIE-16GB")

LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {"utilization": "highest", "powerWatts": "highest", "memoryPeakMiB": "held by TensorFlow"}
)
"""What is to be said of a value behind the name of its target."""
_BERT: Final = re.compile(r"bert_en_uncased_\S+")


@functools.cache
def load() -> tuple[WholeJob, ...]:
    """Return the jobs that have a graph, in the order of the file.

    Raises:
        InvalidInputError: a graph is damaged.
    """
    graphs = Graphs(FOLDER)
    with FILE.open(newline="", encoding="utf-8-sig") as lines:
        found = [_job(row, graphs) for row in csv.DictReader(lines)]
    return tuple(job for job in found if job is not None)


def _job(row: Mapping[str, str], graphs: Mapping[str, Graph]) -> WholeJob | None:
    bert = _BERT.search(row["Model"])
    model, batch = row["Model"].strip() if bert is None else bert[0], int(row["BS"])
    graph = graphs.get(f"{model},{batch}")
    if graph is None:
        return None
    board = devices.load()[GPU_MODEL]
    return WholeJob(
        program=model if bert is None else "BERT",
        batch_size=batch,
        gpu_model=GPU_MODEL,
        graph=graph,
        source=ARRAYS if model == "DCGAN" else PREPARED,
        measured=MappingProxyType(
            {
                "utilization": float(row["MGUP"]),
                "powerWatts": float(row["MaGPUPR"]) / 100 * board.power_watts,
                "memoryPeakMiB": float(row["MGMAP"]) / 100 * board.memory_mib,
            }
        ),
    )
