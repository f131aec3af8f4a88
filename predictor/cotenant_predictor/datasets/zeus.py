"""Zeus' epochs of whole training jobs on four GPU models, each with the graph of one step.

Of its six networks two have a graph: ShuffleNetV2 on CIFAR-100 and ResNet-50 on ImageNet, of which the authors publish
programs. Of the other four neither the programs nor the lengths of their samples are published. A step's time is that
of an epoch over the steps of an epoch. Rows with less than the highest power limit are left out: predictions are made
for the board's own limit.

How many workers loaded images is not recorded; the published programs have 4 by default, and the graphs say so.
"""

import csv
import functools
import gzip
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.datasets.graphs import Graphs
from cotenant_predictor.datasets.whole_jobs import WholeJob
from cotenant_predictor.devices import Device

FOLDER: Final = Path(__file__).with_name("zeus")
GPU_MODELS: Final[Mapping[str, GPUModel]] = MappingProxyType(
    {
        "v100": GPUModel("Tesla-V100-PCIE-32GB"),
        "a40": GPUModel("NVIDIA-A40"),
        "rtx6000": GPUModel("Quadro-RTX-6000"),
        "p100": GPUModel("Tesla-P100-PCIE-16GB"),
    }
)
"""By the names of the files. The boards are not named: power limits and the largest batches say which they can be."""
SAMPLES: Final[Mapping[str, int]] = MappingProxyType({"cifar100": 50_000, "imagenet": 1_281_167})
"""Of an epoch, by dataset."""
SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {"cifar100": "small images in memory", "imagenet": "images decoded by workers"}
)


def known() -> Mapping[GPUModel, Device]:
    """Return the data sheets that this release has, and of the GPU model that it lacks."""
    return devices.with_file(FOLDER / "devices.yaml")


@functools.cache
def load() -> tuple[WholeJob, ...]:
    """Return the jobs that have a graph, at each GPU model's highest power limit, in the order of the files.

    Raises:
        InvalidInputError: a graph is damaged.
    """
    graphs = dict(Graphs(FOLDER))
    return tuple(job for file, model in GPU_MODELS.items() for job in _jobs(file, model, graphs))


def _jobs(file: str, gpu_model: GPUModel, graphs: Mapping[str, Graph]) -> Iterator[WholeJob]:
    with gzip.open(FOLDER / f"summary_power_{file}.csv.gz", "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    highest = max(int(row["power_limit"]) for row in rows)
    for row in rows:
        if row["dataset"] in SAMPLES and int(row["power_limit"]) == highest:
            key = f"{row['network']},{row['batch_size']},{row['optimizer']}"
            yield _job(row, gpu_model, graphs[key])


def _job(row: Mapping[str, str], gpu_model: GPUModel, graph: Graph) -> WholeJob:
    batch, watts = int(row["batch_size"]), float(row["average_power"])
    seconds = float(row["time_per_epoch"]) / math.ceil(SAMPLES[row["dataset"]] / batch)
    return WholeJob(
        program=row["network"],
        batch_size=batch,
        gpu_model=gpu_model,
        graph=graph,
        source=SOURCES[row["dataset"]],
        measured=MappingProxyType(
            {"stepMilliseconds": 1e3 * seconds, "powerWatts": watts, "stepJoules": watts * seconds}
        ),
    )
