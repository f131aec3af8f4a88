"""How long a convolution takes, by the best of three algorithms. Pure arithmetic.

    implicit GEMM     one product of (batch x pixels) x (channels x taps) x filters
    Winograd F(2, 3)  16 products over tiles of 2 x 2 pixels in one kernel: 2.25 times fewer operations
    Winograd F(4, 3)  36 products over tiles of 4 x 4 pixels, four times fewer operations, between kernels that write
                      and read the transformed image

The latter two are there for 3 x 3 filters of stride 1 (Lavin and Gray, 2016). The library measures and takes the best.
"""

import dataclasses
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_predictor.kernels import products
from cotenant_predictor.kernels.chips import Chips
from cotenant_predictor.kernels.products import Products, Times

Array: TypeAlias = npt.NDArray[Any]

ALGORITHMS: Final = ("implicit GEMM", "Winograd F(2, 3)", "Winograd F(4, 3)")
TRANSFORM_KERNEL_SECONDS: Final = 6e-6
"""Of the two further kernels of F(4, 3)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Physics(products.Physics):
    """What the formula leaves to be fitted; every value is above 0."""

    overhead_seconds: float = 1.5e-4
    memory_efficiency: float = 0.8
    prologue: float = 28.0
    tile_exponent: float = 0.15
    column_exponent: float = 0.15
    small_efficiency: float = 0.5
    """F(2, 3), relative to a product."""
    large_efficiency: float = 0.62
    """The products of F(4, 3), relative to a product."""
    transform_share: float = 0.5
    """Share of the transformed images' bytes that goes to DRAM."""
    transform_prologue: float = 20.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Convolutions:
    """Shapes of convolutions of one group, arrays of shape (n,)."""

    batch: Array
    channels: Array
    filters: Array
    height: Array
    width: Array
    """Of the output."""
    taps: Array
    has_winograd: Array
    """Whether the filter is 3 x 3 and the stride 1."""
    item_bytes: Array | float = 4.0

    def take(self, index: Any) -> "Convolutions":
        """Return the shapes at these positions."""
        names = (field.name for field in dataclasses.fields(self))
        return Convolutions(**{name: np.broadcast_to(getattr(self, name), self.batch.shape)[index] for name in names})

    @property
    def product(self) -> Products:
        """The product that implicit GEMM is."""
        pixels = self.batch * self.height * self.width
        return Products(
            batch=np.ones_like(pixels),
            rows=pixels,
            reduction=self.channels * self.taps,
            columns=self.filters,
            item_bytes=self.item_bytes,
        )


def times(shapes: Convolutions, chips: Chips, physics: Physics, *, peak: Array, idle_seconds: float = 0.0) -> Times:
    """Return the times by the best algorithm on chips whose peak in the shapes' type is `peak` (FLOP/s)."""
    found = algorithms(shapes, chips, physics, peak=peak, idle_seconds=idle_seconds)
    best = np.argmin([option.total() for option in found], axis=0)
    fields = ("tiles", "compute", "memory", "parallel")
    columns = {name: np.choose(best, [getattr(option, name) for option in found]) for name in fields}
    return Times(**columns, sharpness=physics.sharpness)


def algorithms(
    shapes: Convolutions, chips: Chips, physics: Physics, *, peak: Array, idle_seconds: float = 0.0
) -> list[Times]:
    """Return the times by each of `ALGORITHMS`; infinite where it cannot run."""
    product, rate = shapes.product, products.rate(chips, physics, peak)
    reachable = chips.bandwidth * physics.memory_efficiency
    weights = shapes.channels * shapes.filters * shapes.taps
    image = shapes.batch * shapes.height * shapes.width * (shapes.channels + shapes.filters)
    compulsory = shapes.item_bytes * (image + weights) / reachable

    def option(seconds: Array, parallel: Array, memory: Array) -> Times:
        compute = products.powered(seconds, chips, physics, idle_seconds=idle_seconds)
        return Times(tiles=seconds, compute=compute, memory=memory, parallel=parallel, sharpness=physics.sharpness)

    direct = products.tile_seconds(product, chips, physics, rate=rate)
    found = [option(*direct, compulsory + 0 * direct[0])]
    inner = dataclasses.replace(physics, prologue=physics.transform_prologue)
    blocked = np.where(shapes.has_winograd, 0.0, np.inf)
    for edge, efficiency in ((2, physics.small_efficiency), (4, physics.large_efficiency)):
        small = _transformed(shapes, edge)
        seconds, parallel = products.tile_seconds(small, chips, inner, rate=rate * efficiency)
        memory = compulsory + 0 * seconds
        if edge == 4:
            points = small.batch * (small.rows * (small.reduction + small.columns) + small.reduction * small.columns)
            written = 2.0 * shapes.item_bytes * points * physics.transform_share / reachable
            seconds = seconds + written + TRANSFORM_KERNEL_SECONDS
        found.append(option(seconds + blocked, parallel, memory))
    return found


def _transformed(shapes: Convolutions, edge: int) -> Products:
    """Return the products of F(edge, 3): one for each of the (edge + 2)^2 points of a transformed tile."""
    tiles = shapes.batch * np.ceil(shapes.height / edge) * np.ceil(shapes.width / edge)
    points = np.full_like(tiles, (edge + 2.0) ** 2)
    return Products(
        batch=points,
        rows=tiles,
        reduction=shapes.channels,
        columns=shapes.filters,
        item_bytes=shapes.item_bytes,
    )
