"""How fast each job runs beside its neighbours, of its speed alone: the prior, corrected by what was measured. Pure.

    speed = clip(slope x prior + offset + correction)       lower = speed - width(distance to what was measured)

One pool of knowledge per mechanism; they are never mixed. Without neighbours a job has the speed of its threads. Where
memory does not suffice (`fits`) the figures say what would be if it did. Out of domain: a mechanism that was not
measured, more tenants than were, or jobs unlike all measured ones; then profile the jobs together first, or do not rely
on the figure.
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np

from cotenant_predictor.colocation import learned, prior, profiles, rows
from cotenant_predictor.colocation.learned import Correction
from cotenant_predictor.jobs import residual
from cotenant_predictor.trees import Array

LEAST: Final = 0.02
"""No job comes to a stop beside others."""

_NUMBERS = ("slope", "offset", "near", "far", "outside", "width_near", "width_far")
_ARRAYS = ("center", "scale", "own", "others")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pool:
    """What was learned of one mechanism, over rows of shape (n_rows, n_features)."""

    prior_column: int | None
    slope: float
    offset: float
    correction: Correction | None
    center: Array
    """Shape (n_features,); with `scale` it makes columns comparable."""
    scale: Array
    own: Array
    """Distinct measured jobs after that, shape (n_jobs, n_own): the first columns of a row."""
    others: Array
    """Distinct measured neighbours after that, shape (n_neighbours, n_others): the columns that follow."""
    near: float
    """Distance of a row whose like was measured."""
    far: float
    """Distance of a typical row of an unmeasured group."""
    outside: float
    """Distance beyond which nothing is claimed."""
    width_near: float
    width_far: float
    max_tenants: int

    def comparable(self, found: Array) -> Array:
        """Rows centred and scaled; what is not known lies in the centre."""
        result: Array = np.nan_to_num((found - self.center) / self.scale)
        return result

    def speed(self, comparable: Array, found: Array) -> Array:
        """Shape (n_rows,), from comparable rows and the same as they were."""
        base = np.zeros(len(found)) if self.prior_column is None else np.nan_to_num(found[:, self.prior_column])
        value = self.slope * base + self.offset
        if self.correction is not None and len(found):
            value = value + self.correction.predict(comparable)
        return np.asarray(value)

    def distance(self, comparable: Array) -> Array:
        """To the nearest measured job or the nearest measured neighbours, the larger of the two, shape (n_rows,)."""
        split = self.own.shape[1]
        own = learned.distances(comparable[:, :split], self.own).min(axis=1)
        others = learned.distances(comparable[:, split : split + self.others.shape[1]], self.others).min(axis=1)
        result: Array = np.maximum(own, others)
        return result

    def width(self, distance: Array) -> Array:
        """Return how far the lower bound lies below the speed, shape (n_rows,)."""
        nearness = residual.nearness(distance, near=self.near, far=self.far)
        result: Array = self.width_far + (self.width_near - self.width_far) * nearness
        return result

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "priorColumn": self.prior_column,
            "maxTenants": self.max_tenants,
            "correction": None if self.correction is None else learned.state_of(self.correction),
            **{name: getattr(self, name) for name in _NUMBERS},
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a number is not finite, or shapes differ.
        """
        numbers: dict[str, Any] = {name: float(state[name]) for name in _NUMBERS}
        arrays: dict[str, Any] = {name: np.array(state[name], dtype=np.float64) for name in _ARRAYS}
        shape, own, others = arrays["center"].shape, arrays["own"], arrays["others"]
        if len(shape) != 1 or arrays["scale"].shape != shape or own.ndim != 2 or others.ndim != 2:
            raise ValueError("center, scale and what was measured differ in columns")
        if own.shape[1] + others.shape[1] > shape[0] or not len(own) or not len(others):
            raise ValueError("a pool rests on measured jobs and neighbours")
        every = [np.array(list(numbers.values())), *arrays.values()]
        if not all(np.isfinite(values).all() for values in every) or (arrays["scale"] <= 0).any():
            raise ValueError("a number is not finite, or a scale not positive")
        correction = None if state["correction"] is None else learned.from_state(state["correction"])
        column, tenants = state["priorColumn"], int(state["maxTenants"])
        if tenants < 1:
            raise ValueError("a pool rests on jobs that were measured")
        prior_column = None if column is None else int(column)
        return cls(prior_column=prior_column, max_tenants=tenants, correction=correction, **numbers, **arrays)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speeds:
    """Of every tenant; arrays of shape (n_groups, n_tenants), NaN or False where a place is empty."""

    speed: Array
    """Of its speed alone with all threads, 0..1."""
    lower: Array
    """Below which it seldom falls; NaN where nothing is known of that."""
    out_of_domain: Array
    fits: Array
    """Whether the memory suffices, shape (n_groups,)."""

    @property
    def total(self) -> Array:
        """The sum over the tenants of each group, shape (n_groups,)."""
        result: Array = np.nansum(self.speed, axis=1)
        return result


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpeedModel:
    """What is known of jobs together, by mechanism."""

    pools: Mapping[str, Pool] = dataclasses.field(default_factory=lambda: types.MappingProxyType({}))

    def predict(self, tenants: Array, mechanism: str) -> Speeds:
        """Return the speeds of jobs together.

        Args:
            tenants: groups of jobs, each on one GPU, shape (n_groups, n_tenants, n_columns), columns as
                `profiles.COLUMNS`; a NaN row where a place is empty.
            mechanism: one of `prior.RESOURCES`.

        Raises:
            KeyError: no such mechanism.
        """
        here = profiles.present(tenants)
        fits = np.nansum(tenants[..., profiles.INDEX["memory"]], axis=1) <= 1.0
        count = here.sum(axis=1, keepdims=True)
        speed, lower = prior.speeds(tenants, mechanism), np.full(here.shape, np.nan)
        strange = here & (count > 1)
        pool = self.pools.get(mechanism)
        shared = here & (count > 1)
        if pool is not None and shared.any():
            found = rows.of(tenants, mechanism)[shared.ravel()]
            comparable = pool.comparable(found)
            distance = pool.distance(comparable)
            speed[shared] = np.clip(pool.speed(comparable, found), LEAST, prior.alone(tenants)[shared])
            lower[shared] = np.clip(speed[shared] - pool.width(distance), 0.0, None)
            strange[shared] = distance > pool.outside
            strange |= here & (count > pool.max_tenants)
        lower[here & (count == 1)] = speed[here & (count == 1)]
        return Speeds(speed=speed, lower=lower, out_of_domain=strange, fits=fits)

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        return {"pools": {mechanism: pool.to_state() for mechanism, pool in sorted(self.pools.items())}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a pool makes no sense, or its mechanism is not known.
        """
        pools = {str(mechanism): Pool.from_state(pool) for mechanism, pool in state["pools"].items()}
        unknown = pools.keys() - prior.RESOURCES.keys()
        if unknown:
            raise ValueError(f"no such mechanism: {', '.join(sorted(unknown))}")
        wide = [name for name, pool in pools.items() if pool.center.shape != (len(rows.NAMES),)]
        if wide:
            raise ValueError(f"other columns than this release knows: {', '.join(sorted(wide))}")
        return cls(pools=types.MappingProxyType(pools))
