"""Shares of a GPU's peaks that operators reach inside a whole model.

All are common to every GPU model: what sets two of them apart is in their data sheets, of which the cache is a part.
`FORMULA_1` is what is assumed where nothing was learned. Learned by `cotenant_predictor.training.rates`. Pure.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.graph import Graph, Mode, Operator, OperatorClass, Phase

Array: TypeAlias = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rates:
    """Every value is above 0; `cache` may be 0."""

    convolution: float
    """Arithmetic of dense convolutions on tensor cores, of what learned kernels or the class' share of the peak give.

    Learned kernels are those of fp32, so that it may be above 1.
    """
    grouped: float
    """The same of convolutions in groups, of the class' share of the peak."""
    grouped_gradient: float
    """The same of their backward pass."""
    grouped_gradient_channels_last: float
    """The same where channels lie side by side, for which libraries have few kernels."""

    streaming: float
    """Share of the bandwidth, of whatever has no other."""
    depthwise: float
    """Share of the bandwidth, of convolutions with a group per channel."""
    depthwise_gradient: float
    depthwise_channels_last: float
    depthwise_gradient_channels_last: float

    batch_norm_training: float
    """Of `streaming`: batch norm in training reads its input twice, for statistics and to normalise."""
    converted: float
    """Of the bandwidth that dense convolutions else have: on tensor cores libraries convert NCHW before and after."""
    converted_gradient: float
    converted_grouped: float
    """The same of convolutions in groups, forward and backward."""

    cache: float
    """Share of one partition of the L2 cache that holds what the operator before has written."""

    def to_state(self) -> dict[str, float]:
        """As JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `to_state` gave.

        Raises:
            KeyError: a value is missing.
            ValueError: a value is not above 0.
        """
        values = {name: float(state[name]) for name in NAMES}
        if wrong := [
            name for name, value in values.items() if not 0 < value < np.inf and (name, value) != ("cache", 0)
        ]:
            raise ValueError(f"rates: {', '.join(wrong)} must be above 0")
        return cls(**values)


NAMES: Final = tuple(field.name for field in dataclasses.fields(Rates))
_INDEX: Final = {name: index for index, name in enumerate(NAMES)}
NONE: Final = len(NAMES)
"""Where an operator has no such rate."""

FORMULA_1: Final = Rates(
    # Assumption: libraries convert the layout around tensor-core kernels of convolutions.
    convolution=0.6,
    grouped=0.6,
    grouped_gradient=0.6,
    grouped_gradient_channels_last=0.6,
    # Assumption: plain additions reach 0.90 of the data sheet (NeuSight's measurements of V100 and A100, which do not
    # ship), reductions, masks and strided copies less.
    streaming=0.80,
    depthwise=0.244,  # training.coefficients: a V100's MobileNetV2, forward and backward
    depthwise_gradient=0.244,
    depthwise_channels_last=0.244,
    depthwise_gradient_channels_last=0.244,
    batch_norm_training=1.0,
    converted=1.0,
    converted_gradient=1.0,
    converted_grouped=1.0,
    cache=0.0,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rated:
    """Which rates operators have: positions in `NAMES`, or `NONE`; arrays of shape (n_operators,)."""

    rates: Rates
    compute: Array
    """Of arithmetic on tensor cores."""
    memory: Array
    further: Array
    """A factor of `memory`."""
    layout: Array
    """A factor of `memory` on tensor cores."""

    def arithmetic(self, tensor: Array) -> Array:
        """Share of the rate, shape (n_devices, n_operators), as `tensor`: whether a device runs it on tensor cores."""
        share: Array = np.where(tensor, self._values[self.compute], 1.0)
        return share

    def converted(self, tensor: Array) -> Array:
        """Return what a conversion of the layout leaves of the bandwidth, shape as `tensor`."""
        share: Array = np.where(tensor, self._values[self.layout], 1.0)
        return share

    def bandwidth(self, tensor: Array) -> Array:
        """Share of the bandwidth, shape as `tensor`."""
        share: Array = self.streaming * self.converted(tensor)
        return share

    @property
    def streaming(self) -> Array:
        """Share of the bandwidth where no layout is converted, shape (n_operators,)."""
        share: Array = self._values[self.memory] * self._values[self.further]
        return share

    @property
    def _values(self) -> Array:
        return np.array([*dataclasses.astuple(self.rates), 1.0])


def rated(graph: Graph, rates: Rates) -> Rated:
    """Which rates the operators of a graph have."""
    columns = [_of(operator, graph) for operator in graph.operators]
    compute, memory, further, layout = np.array(
        [[NONE if name is None else _INDEX[name] for name in column] for column in columns], dtype=np.intp
    ).T
    return Rated(rates=rates, compute=compute, memory=memory, further=further, layout=layout)


def is_depthwise(operator: Operator) -> bool:
    """Return whether every channel has a filter of its own."""
    return 1 < operator.dims.get("groups", 1) == operator.dims.get("c")


def _of(operator: Operator, graph: Graph) -> tuple[str | None, str, str | None, str | None]:
    """Names of the rates: of arithmetic, of the bandwidth, of its further factor, of a conversion."""
    if operator.operator_class is OperatorClass.NORM and graph.mode is Mode.TRAINING and "batch_norm" in operator.name:
        return None, "streaming", "batch_norm_training", None
    if operator.operator_class is not OperatorClass.CONV:
        return None, "streaming", None, None
    # Inductor lays convolutions out with their channels last by itself.
    last = graph.channels_last or graph.compiled
    gradient = "_gradient" if operator.phase is Phase.BACKWARD else ""
    if is_depthwise(operator):
        return "grouped", f"depthwise{gradient}{'_channels_last' if last else ''}", None, None
    if operator.dims.get("groups", 1) > 1:
        compute = f"grouped{gradient}{'_channels_last' if last and gradient else ''}"
        return compute, "streaming", None, None if last else "converted_grouped"
    return "convolution", "streaming", None, None if last else f"converted{gradient}"
