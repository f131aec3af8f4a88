"""Six virtual clusters of Microsoft's Philly, as Gavel published them: who came when, for how long, on how many."""

import csv
import functools
import gzip
import importlib.resources
import io
from collections.abc import Sequence
from typing import Final, NamedTuple

NAMES: Final = ("0e4a51", "103959", "2869ce", "6214e9", "b436b2", "e13805")
"""Of the virtual clusters."""


class Submission(NamedTuple):
    """A job.

    Attributes:
        job_type: one of Gavel's (`datasets.gavel`), drawn by its authors.
        steps: how many it takes.
        arrives: seconds since the first.
        gpus: how many it has.
    """

    job_type: str
    steps: int
    arrives: float
    gpus: int


@functools.cache
def load(name: str) -> Sequence[Submission]:
    """Return the jobs of one virtual cluster, in the order of their arrival."""
    packed = importlib.resources.files(__package__).joinpath("traces", f"{name}.csv.gz").read_bytes()
    rows = csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))
    return [
        Submission(
            job_type=row["job_type"],
            steps=int(row["total_steps"]),
            arrives=float(row["arrival_seconds"]),
            gpus=int(row["scale_factor"]),
        )
        for row in rows
    ]
