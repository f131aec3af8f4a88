"""Beside whom a job should run: what it adds to the sum of normalised speeds on each GPU that could take it. Pure."""

import numpy as np

from cotenant_predictor.colocation.speeds import SpeedModel
from cotenant_predictor.trees import Array


def gains(model: SpeedModel, newcomer: Array, tenants: Array, mechanism: str) -> Array:
    """Sum of speeds with the newcomer less the sum without, shape (n_gpus,); minus infinity where memory lacks.

    Args:
        model: what is known of jobs together.
        newcomer: shape (n_columns,), columns as `profiles.COLUMNS`.
        tenants: who runs on each GPU, shape (n_gpus, n_most, n_columns), NaN rows where a place is empty.
        mechanism: how the GPUs are shared.

    Raises:
        KeyError: no such mechanism.
    """
    added = np.broadcast_to(newcomer, (len(tenants), 1, len(newcomer)))
    after = model.predict(np.concatenate([tenants, added], axis=1), mechanism)
    before = model.predict(tenants, mechanism)
    return np.where(after.fits, after.total - before.total, -np.inf)


def best(model: SpeedModel, newcomer: Array, tenants: Array, mechanism: str) -> int | None:
    """Return the position of the GPU where the newcomer adds most, the first of equals; None where it fits nowhere.

    Arguments and errors as of `gains`.
    """
    found = gains(model, newcomer, tenants, mechanism)
    if not len(found) or not np.isfinite(found).any():
        return None
    return int(np.argmax(found))
