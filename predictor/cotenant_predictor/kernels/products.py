"""How long a matrix product takes: tiles in waves, tile panels through the cache, and power. Pure arithmetic.

A product of `batch` times (rows x reduction) by (reduction x columns) on a GPU of S multiprocessors (SMs),

    t_tiles  = min over tiles T and splits s of  ceil(n s / S) x T_r T_c x 2 (ceil(R / s) + prologue) / rate(T)
               n = batch x ceil(rows / T_r) x ceil(columns / T_c)
               rate(T) = peak / S x efficiency x (T_r / 128)^a x (T_c / 128)^b
    t_power  = t_tiles x peak x energy / power limit - idle time
    t_memory = (compulsory bytes + what the cache cannot hold of the panels that tiles read again) / bandwidth
    t        = (max(t_tiles, t_power)^p + t_memory^p)^(1 / p)

The library's choice of tile is taken to be the best one. Idle time is what a benchmark waits between kernels, in which
a GPU earns power for the next; in a job it is none.
"""

import dataclasses
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_predictor.kernels.chips import Chips

Array: TypeAlias = npt.NDArray[Any]

_TILES: Final = ((128, 128), (128, 64), (64, 128), (64, 64), (32, 128), (128, 32), (64, 32), (32, 64), (32, 32))
_SPLITS: Final = (1, 4, 16)
CANDIDATES: Final = np.array([(rows, columns, split) for rows, columns in _TILES for split in _SPLITS], dtype=float).T
"""Rows and columns of the tile, and the split of the reduction; shape (3, n_candidates)."""
LARGEST_EDGE: Final = 128.0
LARGEST_AREA: Final = LARGEST_EDGE**2
BLOCKS_PER_SM: Final = 2
SPLIT_SECONDS: Final = 2e-6
"""Of the second kernel that adds up the parts of a split reduction."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Physics:
    """What the formula leaves to be fitted; every value is above 0."""

    overhead_seconds: float = 5e-5
    """Launch that a benchmark measures before the kernel; no part of a kernel's time in a job."""
    efficiency: float = 0.88
    """Share of the peak that the largest tile reaches on a long reduction."""
    legacy_efficiency: float = 0.88
    """The same on GPUs before tuned large tiles."""
    memory_efficiency: float = 0.8
    energy_joules: float = 17e-12
    """Of one operation in fp32 in a 16 nm process."""
    idle_seconds: float = 1e-3
    """What the benchmark idles per kernel."""
    prologue: float = 24.0
    """Steps of the reduction that filling and draining a tile takes."""
    tile_exponent: float = 0.2
    """How much less of the peak a tile with fewer rows reaches."""
    column_exponent: float = 0.2
    """The same of columns, which lie side by side in memory."""
    cache_share: float = 1.0
    """Share of the cache that holds panels."""
    sharpness: float = 4.0
    """p - 1."""
    panel: float = 96.0
    """Edge of the tiles as far as panels are read again."""
    legacy_panel: float = 32.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Products:
    """Shapes of products, arrays of shape (n,)."""

    batch: Array
    rows: Array
    reduction: Array
    columns: Array
    item_bytes: Array | float = 4.0

    @property
    def flops(self) -> Array:
        """Of all products of the batch."""
        flops: Array = 2.0 * self.batch * self.rows * self.reduction * self.columns
        return flops


@dataclasses.dataclass(frozen=True, kw_only=True)
class Times:
    """Parts of kernels' times at all SMs, arrays that broadcast with the chips."""

    tiles: Array
    """Of arithmetic at full clock."""
    compute: Array
    """The same under the power limit."""
    memory: Array
    parallel: Array
    """Thread blocks."""
    sharpness: float

    def total(self) -> Array:
        """Seconds of each kernel."""
        return combined(self.compute, self.memory, sharpness=self.sharpness)


def combined(compute: Array, memory: Array, *, sharpness: Array | float) -> Array:
    """Return the larger of two times, somewhat more where they are alike."""
    power = 1.0 + sharpness
    larger = np.maximum(compute, memory)
    ratio = np.minimum(compute, memory) / larger
    total: Array = larger * (1.0 + ratio**power) ** (1.0 / power)
    return total


def times(products: Products, chips: Chips, physics: Physics, *, peak: Array, idle_seconds: float = 0.0) -> Times:
    """Return the times of products on chips whose peak in the products' type is `peak` (FLOP/s)."""
    tiles, parallel = tile_seconds(products, chips, physics, rate=rate(chips, physics, peak))
    return Times(
        tiles=tiles,
        compute=powered(tiles, chips, physics, idle_seconds=idle_seconds),
        memory=_memory_seconds(products, chips, physics),
        parallel=parallel,
        sharpness=physics.sharpness,
    )


def rate(chips: Chips, physics: Physics, peak: Array) -> Array:
    """FLOP/s of one SM in its best kernel."""
    efficiency = np.where(chips.is_legacy, physics.legacy_efficiency, physics.efficiency)
    best: Array = peak / chips.sm_count * efficiency / np.where(peak > chips.peak_flops, 1.0, chips.feed)
    return best


def tile_seconds(products: Products, chips: Chips, physics: Physics, *, rate: Array) -> tuple[Array, Array]:
    """Time of the best tile, and how many thread blocks that is."""
    axes = (1,) * np.broadcast(products.rows, chips.sm_count).ndim
    rows, columns, split = (values.reshape(-1, *axes) for values in CANDIDATES)
    blocks = products.batch * np.ceil(products.rows / rows) * np.ceil(products.columns / columns) * split
    steps = np.ceil(products.reduction / split) + physics.prologue
    high, wide = rows / LARGEST_EDGE, columns / LARGEST_EDGE
    share = 2.0 * LARGEST_AREA * high ** (1.0 - physics.tile_exponent) * wide ** (1.0 - physics.column_exponent)
    outputs = products.item_bytes * products.batch * products.rows * products.columns
    adding = np.where(split > 1, (split + 1) * outputs / (chips.bandwidth * physics.memory_efficiency), 0.0)
    seconds = np.ceil(blocks / chips.sm_count) * (share * steps) / rate + adding + SPLIT_SECONDS * (split > 1)
    best = seconds.argmin(axis=0)[None]
    blocks = np.broadcast_to(blocks, seconds.shape)
    return np.take_along_axis(seconds, best, axis=0)[0], np.take_along_axis(blocks, best, axis=0)[0]


def powered(seconds: Array, chips: Chips, physics: Physics, *, idle_seconds: float = 0.0) -> Array:
    """Return what is left of a time at full clock under the power limit.

    A faster type takes less energy per operation.
    """
    needed = chips.peak_flops / chips.feed * physics.energy_joules * chips.energy_scale / chips.power_watts
    slower: Array = np.maximum(seconds, seconds * needed - idle_seconds)
    return slower


def _memory_seconds(products: Products, chips: Chips, physics: Physics) -> Array:
    """Of compulsory bytes and of panels that tiles read again, as far as the cache does not hold them."""
    batch, rows, reduction, columns = products.batch, products.rows, products.reduction, products.columns
    panel = np.where(chips.is_legacy, physics.legacy_panel, physics.panel)
    down, across = np.maximum(1.0, rows / panel), np.maximum(1.0, columns / panel)
    once = batch * reduction * (rows + columns)
    again = batch * reduction * (rows * across + columns * down) - once
    side_by_side = np.minimum(chips.sm_count * BLOCKS_PER_SM, across)
    above = np.clip(chips.sm_count * BLOCKS_PER_SM / across, 1.0, down)
    held = products.item_bytes * reduction * panel * (side_by_side + above)
    missing = held / (held + chips.cache_bytes * physics.cache_share)
    elements = once + again * missing + batch * rows * columns
    seconds: Array = products.item_bytes * elements / (chips.bandwidth * physics.memory_efficiency)
    return seconds
