"""Fitted times of kernels: the physics of products and convolutions, and a correction by shape, for each family.

Three families have kernels of their own: `linear` (a layer with weights), `bmm` (products of activations) and `conv`.
All are frozen values that JSON keeps; learned in `training.kernels`. Pure arithmetic.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_predictor.kernels import convolutions, products
from cotenant_predictor.kernels.chips import Chips
from cotenant_predictor.kernels.convolutions import Convolutions
from cotenant_predictor.kernels.products import Products, Times
from cotenant_predictor.trees import Trees

Array: TypeAlias = npt.NDArray[Any]

LINEAR: Final = "linear"
BMM: Final = "bmm"
CONV: Final = "conv"
FAMILIES: Final = (LINEAR, BMM, CONV)

SHEET_VALUES: Final = 5
"""Columns of `sheet_of`."""
SHAPE_VALUES: Final = 4
"""Columns of `rows_of`."""

NEAR: Final = 0.15
"""Root mean square of the logarithms of ratios between data sheets at which a measured GPU counts 0.6 for another."""

LARGEST_CORRECTION: Final = 1.0
"""Of the logarithm of a time: a factor of e either way."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anchors:
    """By how much measured GPUs differ from the physics; counts for those with nearly the same data sheet."""

    sheets: Array
    """As of `sheet_of`, shape (n_anchors, n_values)."""
    offsets: Array
    """Logarithm of measured over computed time, shape (n_anchors,)."""

    def factor(self, chips: Chips) -> Array:
        """Of every chip, in the chips' shape; 1 far from any that was measured."""
        sheets = sheet_of(chips)
        squares = ((sheets[..., None, :] - self.sheets) ** 2).mean(axis=-1)
        weights = np.exp(-squares / (2 * NEAR**2))
        offsets: Array = (weights * self.offsets).sum(axis=-1) / np.maximum(1.0, weights.sum(axis=-1))
        return np.exp(offsets)


def sheet_of(chips: Chips) -> Array:
    """Logarithms of what a data sheet says, shape (*chips' shape, n_values)."""
    values = (chips.peak_flops, chips.bandwidth, chips.sm_count, chips.cache_bytes, chips.power_watts)
    sheet: Array = np.log(np.stack(values, axis=-1))
    return sheet


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """What is known of one family of kernels."""

    physics: products.Physics
    correction: Trees | None = None
    """Logarithm of measured over computed time by the logarithms of the shape, on no GPU in particular."""
    trust: float = 0.0
    """Share of the correction that is applied, 0..1."""
    anchors: Anchors | None = None

    def times(self, shapes: Products | Convolutions, chips: Chips, *, peak: Array, idle_seconds: float = 0.0) -> Times:
        """Return the times in a job, on chips whose peak in the shapes' type is `peak` (FLOP/s)."""
        if isinstance(shapes, Convolutions):
            physics = self.physics
            if not isinstance(physics, convolutions.Physics):
                raise TypeError("a convolution needs the physics of convolutions")
            found = convolutions.times(shapes, chips, physics, peak=peak, idle_seconds=idle_seconds)
        else:
            found = products.times(shapes, chips, self.physics, peak=peak, idle_seconds=idle_seconds)
        factor = self.factor(shapes)
        if self.anchors is not None:
            factor = factor * self.anchors.factor(chips)
        parts = {name: getattr(found, name) * factor for name in ("tiles", "compute", "memory")}
        return dataclasses.replace(found, **parts)

    def benchmark_seconds(self, shapes: Products | Convolutions, chips: Chips) -> Array:
        """Return what a benchmark measures of fp32 kernels one by one.

        With the launch, and with idle time between them.
        """
        found = self.times(shapes, chips, peak=chips.peak_flops, idle_seconds=self.physics.idle_seconds)
        seconds: Array = self.physics.overhead_seconds + found.total()
        return seconds

    def factor(self, shapes: Products | Convolutions) -> Array:
        """Return the correction of each shape, (n,); 1 for convolutions unlike the measured ones (3 x 3, stride 1)."""
        if self.correction is None or not self.trust:
            return np.ones_like(shapes.batch)
        logarithm = np.clip(self.correction.predict(rows_of(shapes)), -LARGEST_CORRECTION, LARGEST_CORRECTION)
        if isinstance(shapes, Convolutions):
            logarithm = np.where(shapes.has_winograd, logarithm, 0.0)
        return np.exp(self.trust * logarithm)

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        correction = None if self.correction is None else self.correction.to_state()
        anchors = None if self.anchors is None else [self.anchors.sheets.tolist(), self.anchors.offsets.tolist()]
        return {
            "physics": dataclasses.asdict(self.physics),
            "correction": correction,
            "trust": self.trust,
            "anchors": anchors,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelModel:
    """All families."""

    families: Mapping[str, Family]

    def latency_seconds(self, family: str, shapes: Products | Convolutions, chips: Chips) -> Array:
        """Seconds of fp32 kernels in a job; shape (n_devices, n) for chips of (n_devices, 1)."""
        return self.families[family].times(shapes, chips, peak=chips.peak_flops).total()

    def to_state(self) -> dict[str, Any]:
        """As JSON."""
        return {name: self.families[name].to_state() for name in FAMILIES}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: a family or a value is missing.
            ValueError: a value is not above 0, or the correction does not hold together.
        """
        return cls(families={name: family_of(name, state[name]) for name in FAMILIES})


def family_of(name: str, state: Mapping[str, Any]) -> Family:
    """One family from what `Family.to_state` gave; raises as `KernelModel.from_state`."""
    kind = convolutions.Physics if name == CONV else products.Physics
    fields = [field.name for field in dataclasses.fields(kind)]
    values = {field: float(state["physics"][field]) for field in fields}
    if wrong := [field for field, value in values.items() if not 0 < value < np.inf]:
        raise ValueError(f"{name}: {', '.join(wrong)} must be above 0")
    trust = float(state["trust"])
    if not 0 <= trust <= 1:
        raise ValueError(f"{name}: trust is {trust}, must lie between 0 and 1")
    correction = None if state["correction"] is None else Trees.from_state(state["correction"])
    if correction is not None and correction.feature.max() >= SHAPE_VALUES:
        raise ValueError(f"{name}: the correction asks for more than the {SHAPE_VALUES} columns of a shape")
    return Family(
        physics=kind(**values), correction=correction, trust=trust, anchors=_anchors_of(name, state["anchors"])
    )


def _anchors_of(name: str, state: Any) -> Anchors | None:
    if state is None:
        return None
    sheets, offsets = (np.array(values, dtype=np.float64) for values in state)
    if sheets.ndim != 2 or sheets.shape[1] != SHEET_VALUES or offsets.shape != sheets.shape[:1]:
        raise ValueError(f"{name}: anchors must be rows of {SHEET_VALUES} values, and an offset each")
    if not (np.isfinite(sheets).all() and np.isfinite(offsets).all()):
        raise ValueError(f"{name}: an anchor is not finite")
    return Anchors(sheets=sheets, offsets=offsets)


def rows_of(shapes: Products | Convolutions) -> Array:
    """Return what the correction knows of shapes: logarithms, shape (n, 4)."""
    if isinstance(shapes, Convolutions):
        columns = [shapes.batch, shapes.channels, shapes.filters, shapes.height * shapes.width]
    else:
        columns = [shapes.batch, shapes.rows, shapes.reduction, shapes.columns]
    return np.log(np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1))
