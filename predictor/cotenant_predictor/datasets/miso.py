"""MISO's slices: how fast training runs on 1 to 7 of the 7 parts of an A100, by job."""

import csv
import dataclasses
import functools
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

FILE: Final = Path(__file__).with_name("miso") / "a100_mig_iteration_times.csv"
WHOLE: Final = 7
"""Parts of a whole GPU."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """One job, on every slice that it was measured on."""

    model: str
    batch_size: int
    share: Array
    """Of the multiprocessors, ascending, shape (n_slices,); memory bandwidth comes in eighths: 1, 2, 4, 4, 8."""
    speed: Array
    """Of the speed on the whole GPU, shape (n_slices,)."""
    deviation: Array
    """Standard deviation of an iteration, of its median."""


def load() -> tuple[Curve, ...]:
    """Return the jobs that were measured on the whole GPU and on a slice at least, in the file's order."""
    return tuple(
        _curve(model, batch_size, slices)
        for (model, batch_size), slices in _slices().items()
        if WHOLE in slices and len(slices) > 1
    )


def seconds_of_whole() -> dict[tuple[str, int], float]:
    """Return the median time of an iteration on the slice that has all parts, by model and batch size."""
    return {job: slices[WHOLE][0] for job, slices in _slices().items() if WHOLE in slices}


@functools.cache
def _slices() -> dict[tuple[str, int], dict[int, tuple[float, float]]]:
    """Return seconds of an iteration, and their deviation, by job and number of parts."""
    found: dict[tuple[str, int], dict[int, tuple[float, float]]] = {}
    with FILE.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            slices = found.setdefault((row["model"], int(row["batch"])), {})
            slices[int(row["mig_g"])] = (float(row["median_s"]), float(row["sd_s"]))
    return found


def _curve(model: str, batch_size: int, slices: dict[int, tuple[float, float]]) -> Curve:
    parts = sorted(slices)
    seconds = np.array([slices[part][0] for part in parts])
    return Curve(
        model=model,
        batch_size=batch_size,
        share=np.array(parts) / WHOLE,
        speed=slices[WHOLE][0] / seconds,
        deviation=np.array([slices[part][1] for part in parts]) / seconds,
    )
