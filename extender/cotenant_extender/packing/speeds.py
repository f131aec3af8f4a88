"""The predictor's model of jobs together, as packing asks it. The one module of packing that knows the predictor.

A job without prediction counts as one that keeps all busy that its threads reach: SMs and memory bandwidth in
proportion to its thread percentage, and no speed is lost on it but in that proportion.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant_api import prediction
from cotenant_extender.packing import jobs
from cotenant_predictor.colocation import curves, profiles
from cotenant_predictor.colocation import speeds as models

Array = jobs.Array

MECHANISM: Final = "MPS"
_BUSY: Final = {
    **dict.fromkeys(("utilization", "smActivity", "dramActivity", "memoryUtilization"), 1.0),
    "knee": curves.MAX_KNEE,
}
_MOST_ROWS: Final = 4096


class Predicted:
    """`jobs.Speeds` by the predictor.

    Args:
        model: what was learned of jobs together; without anything learned of MPS, the formula's prior.
    """

    def __init__(self, model: models.SpeedModel) -> None:
        self._model = model
        self._rows: dict[tuple[prediction.GPUPrediction | None, int], Array] = {}

    def together(self, groups: Sequence[Sequence[jobs.Job]]) -> Array:
        """See `jobs.Speeds`."""
        most = max(map(len, groups), default=0)
        tenants = np.full((len(groups), most, len(profiles.COLUMNS)), np.nan)
        every = [job for group in groups for job in group]
        if not every:
            return tenants[..., 0]
        here = np.arange(most) < np.array([len(group) for group in groups])[:, None]
        tenants[here] = profiles.with_settings(
            np.array([self._row(job) for job in every]),
            threads=np.array([job.threads for job in every]) / 100,
            priority=np.array([job.priority for job in every]),
        )
        return self._model.predict(tenants, MECHANISM).speed

    def _row(self, job: jobs.Job) -> Array:
        key = job.predicted, job.gpu_memory_mib
        found = self._rows.get(key)
        if found is None:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            found = self._rows[key] = _profile(job)
        return found


def _profile(job: jobs.Job) -> Array:
    if job.predicted is None:
        return np.array([_BUSY.get(name, np.nan) for name in profiles.COLUMNS])
    return profiles.of_prediction(job.predicted, job.gpu_memory_mib)
