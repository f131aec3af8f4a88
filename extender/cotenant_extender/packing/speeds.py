"""The predictor's model of jobs together, as packing asks it. The one module of packing that knows the predictor.

A job without prediction counts as one that runs at full speed, and for that keeps busy all the threads that it may use,
and as large a part of the memory bandwidth.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant_api import prediction
from cotenant_extender.packing import jobs
from cotenant_predictor.colocation import profiles
from cotenant_predictor.colocation import speeds as models

Array = jobs.Array

MECHANISM: Final = "MPS"
_BUSY: Final = ("utilization", "smActivity", "dramActivity", "memoryUtilization")
_MOST_ROWS: Final = 4096


class Predicted:
    """`jobs.Speeds` by the predictor.

    Args:
        model: what was learned of jobs together; without anything learned of MPS, the formula's prior.
    """

    def __init__(self, model: models.SpeedModel) -> None:
        self._model = model
        self._known: dict[tuple[prediction.GPUPrediction, int], Array] = {}

    def together(self, groups: Sequence[Sequence[jobs.Job]]) -> Array:
        """See `jobs.Speeds`."""
        most = max(map(len, groups), default=0)
        tenants = np.full((len(groups), most, len(profiles.COLUMNS)), np.nan)
        every = [job for group in groups for job in group]
        if not every:
            return tenants[..., 0]
        here = np.arange(most) < np.array([len(group) for group in groups])[:, None]
        tenants[here] = profiles.with_settings(
            self._rows(every),
            threads=np.array([job.threads for job in every]) / 100,
            priority=np.array([job.priority for job in every]),
        )
        return self._model.predict(tenants, MECHANISM).speed

    def _rows(self, every: Sequence[jobs.Job]) -> Array:
        """Shape (n_jobs, n_columns). Predictions are compared whole only once per object: there are few of them."""
        places: dict[tuple[int, int, int], int] = {}
        rows: list[Array] = []
        chosen = []
        for job in every:
            key = id(job.predicted), job.gpu_memory_mib, job.threads if job.predicted is None else 0
            place = places.get(key)
            if place is None:
                place = places[key] = len(rows)
                rows.append(self._row(job))
            chosen.append(place)
        return np.array(rows)[chosen]

    def _row(self, job: jobs.Job) -> Array:
        if job.predicted is None:
            busy = dict.fromkeys(_BUSY, job.threads / 100)
            return np.array([busy.get(name, np.nan) for name in profiles.COLUMNS])
        key = job.predicted, job.gpu_memory_mib
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_ROWS:
                self._known.clear()
            found = self._known[key] = profiles.of_prediction(job.predicted, job.gpu_memory_mib)
        return found
