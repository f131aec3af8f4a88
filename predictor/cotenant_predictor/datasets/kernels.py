"""Measured latencies of single kernels: NeuSight's, as arrays with the GPU models they ran on."""

import csv
import dataclasses
import functools
import gzip
import importlib.resources
import io
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.devices import Device
from cotenant_predictor.kernels import chips, model
from cotenant_predictor.kernels.chips import Chips
from cotenant_predictor.kernels.convolutions import Convolutions
from cotenant_predictor.kernels.products import Products

Array: TypeAlias = npt.NDArray[Any]

FOLDER: Final = "neusight"
FILE: Final = "kernels.csv.gz"

_PRODUCT: Final = {"batch": "B", "rows": "M", "reduction": "N", "columns": "K"}
_CONVOLUTION: Final = {
    "batch": "B",
    "channels": "Input_Channel",
    "filters": "Output_Channel",
    "edge": "Kernel_Szie",  # sic
    "size": "Input_Size",
    "stride": "Stride",
    "padding": "Padding",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernels:
    """Measured kernels of one family; arrays have shape (n_rows,)."""

    family: str
    devices: tuple[Device, ...]
    """Distinct GPU models, by name."""
    device_index: Array
    """Position in `devices` of each row."""
    shapes: Products | Convolutions
    seconds: Array

    @property
    def chips(self) -> Chips:
        """The GPU of each row."""
        return chips.of(self.devices).take((self.device_index, 0))

    def matrix(self) -> Array:
        """Return the GPU and the shape of each row, as `training.kernels` takes them; shape (n_rows, n_columns)."""
        parts: tuple[Any, ...] = (self.chips, self.shapes)
        columns = [getattr(part, field.name) for part in parts for field in dataclasses.fields(part)]
        return np.stack([column for column in columns if np.ndim(column)], axis=1).astype(np.float64)


@functools.cache
def load() -> Mapping[str, Kernels]:
    """All kernels that ship, by family."""
    data = importlib.resources.files(__package__).joinpath(FOLDER, FILE).read_bytes()
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(data).decode())))
    return {family: _kernels(family, [row for row in rows if row["op"] == family]) for family in model.FAMILIES}


def _kernels(family: str, rows: list[dict[str, str]]) -> Kernels:
    names, index = np.unique([row["Device"].replace(" ", "-") for row in rows], return_inverse=True)
    wanted = _CONVOLUTION if family == model.CONV else _PRODUCT
    columns = {name: np.array([float(row[key]) for row in rows]) for name, key in wanted.items()}
    known = devices.load()
    return Kernels(
        family=family,
        devices=tuple(known[GPUModel(str(name))] for name in names),
        device_index=index,
        shapes=_convolutions(columns) if family == model.CONV else Products(**columns),
        seconds=np.array([float(row["Latency"]) for row in rows]) * 1e-3,
    )


def _convolutions(columns: dict[str, Array]) -> Convolutions:
    size = (columns["size"] + 2 * columns["padding"] - columns["edge"]) // columns["stride"] + 1
    return Convolutions(
        batch=columns["batch"],
        channels=columns["channels"],
        filters=columns["filters"],
        height=size,
        width=size,
        taps=columns["edge"] ** 2,
        has_winograd=(columns["edge"] == 3) & (columns["stride"] == 1),
    )
