"""Kernels of whole training steps with their durations: Orion's traces of a V100, two with the graph of what ran."""

import csv
import dataclasses
import functools
import gzip
import importlib.resources
import io
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel

Array: TypeAlias = npt.NDArray[Any]

FOLDER: Final = "orion"
GPU: Final = GPUModel("Tesla-V100-PCIE-16GB")
NAMES: Final = ("mobilenetv2_32", "resnet50_32", "bert_8", "transformer_xl_8")
_GRAPHS: Final = {"mobilenetv2_32": "mobilenetv2-32.json.gz", "resnet50_32": "resnet50-32.json.gz"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trace:
    """The kernels of one step, in order."""

    name: str
    kernels: tuple[str, ...]
    seconds: Array
    """Shape (n_kernels,)."""
    graph: Graph | None

    def seconds_of(self, word: str) -> float:
        """Of all kernels that have `word` in their name."""
        return float(sum(self.seconds[index] for index, name in enumerate(self.kernels) if word in name))


@functools.cache
def load() -> tuple[Trace, ...]:
    """All traces that ship."""
    return tuple(_trace(name) for name in NAMES)


def _trace(name: str) -> Trace:
    folder = importlib.resources.files(__package__).joinpath(FOLDER)
    text = gzip.decompress(folder.joinpath(f"{name}_fb1.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    file = _GRAPHS.get(name)
    return Trace(
        name=name,
        kernels=tuple(row["Name"] for row in rows),
        seconds=np.array([float(row["Duration"]) for row in rows]) * 1e-9,
        graph=None if file is None else Graph.read(folder.joinpath("graphs", file).read_bytes(), source=file),
    )
