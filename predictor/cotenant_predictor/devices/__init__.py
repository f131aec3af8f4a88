"""What is known of each GPU model: one row of `devices.yaml` each, read once and checked.

Names are those of NVIDIA's feature discovery (`NVIDIA-H200`). Adding a GPU is adding a row, here or in a file of one's
own: no code may compare names.
"""

import functools
import importlib.resources
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cotenant_api import documents, errors, suggestions, written
from cotenant_api.names import GPUModel

FILE = "devices.yaml"
PEAK_TYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(ge=1)]


class Device(documents.Model):
    """One GPU model; rates are the maker's peaks, dense, at boost clock."""

    name: GPUModel
    compute_capability: str = Field(pattern=r"^[0-9]+\.[0-9]$")
    memory_mib: PositiveCount = Field(alias="memoryMiB")
    """As NVML reports it."""
    memory_gigabytes_per_second: Positive
    host_gigabytes_per_second: Positive
    """What the PCI Express link carries from pinned memory."""
    sm_count: PositiveCount
    clock_mhz: PositiveCount = Field(alias="clockMHz")
    l2_mib: Positive = Field(alias="l2MiB")
    l2_partitions: PositiveCount = 1
    """Parts of the L2 cache of which each holds what the SMs beside it read, so that all of them may hold the same."""
    power_watts: Positive
    """The board's default power limit."""
    process_nanometers: Positive | None = None
    """Of the chip's manufacture; decides how much work the power limit allows. Unknown: power is no limit."""
    has_fp32_matrix_cores: bool = False
    """Whether `fp32` is the rate of matrix cores."""
    peak_teraflops: dict[str, Positive]
    """By type, one of `PEAK_TYPES`; `fp32` is the rate outside tensor cores and the fallback of the others."""
    source: str

    def peak_flops(self, dtype: str) -> float:
        """FLOP/s of matrix work in `dtype`; in `fp32` where the GPU has no rate for it."""
        return 1e12 * self.peak_teraflops.get(dtype, self.peak_teraflops["fp32"])


@functools.cache
def load() -> Mapping[GPUModel, Device]:
    """Return the GPU models that this release knows, by name, sorted."""
    text = importlib.resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return parse(text, source=FILE)


def with_file(path: Path | None) -> Mapping[GPUModel, Device]:
    """Return the GPU models that this release knows, and those of a file, which count where both have a row.

    By name, sorted.

    Raises:
        InvalidInputError: the file cannot be read, or as `parse`.
    """
    if path is None:
        return load()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError("--devices", str(path), f"cannot be read: {error}") from error
    return types.MappingProxyType(dict(sorted({**load(), **parse(text, source=str(path))}.items())))


def parse(text: str, *, source: str) -> Mapping[GPUModel, Device]:
    """Read rows of the shape of `devices.yaml`.

    Raises:
        InvalidInputError: no list of rows, a field is wrong, a name occurs twice or `fp32` is missing.
    """
    rows = written.one(text, field="--devices", source=source)
    if not isinstance(rows, list):
        raise errors.InvalidInputError(source, rows, "must be a list of GPU models")
    found: dict[GPUModel, Device] = {}
    for index, row in enumerate(rows):
        device = documents.validated(Device, row, source=f"{source}[{index}]")
        unknown = set(device.peak_teraflops) - set(PEAK_TYPES)
        if unknown or "fp32" not in device.peak_teraflops:
            remedy = f"must name fp32, and of the others only {', '.join(PEAK_TYPES[1:])}"
            raise errors.InvalidInputError(f"{source}[{index}].peakTeraflops", sorted(device.peak_teraflops), remedy)
        if device.name in found:
            raise errors.InvalidInputError(f"{source}[{index}].name", device.name, "is there twice: keep one row")
        found[device.name] = device
    return types.MappingProxyType(dict(sorted(found.items())))


def select(
    names: Iterable[str], known: Mapping[GPUModel, Device] | None = None, *, field: str = "gpuModel"
) -> tuple[Device, ...]:
    """Return the devices of these names, each once, in order; all known ones where there is no name.

    Raises:
        InvalidInputError: a GPU model is not known.
    """
    known = load() if known is None else known
    chosen = dict.fromkeys(GPUModel(name) for name in names) or known
    for name in chosen:
        if name not in known:
            raise errors.InvalidInputError(field, name, f"is not known; {suggestions.advice(name, known)}")
    return tuple(known[name] for name in chosen)
