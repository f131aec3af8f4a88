"""How long each operator takes on each GPU, given a share of its SMs. Pure arithmetic over arrays.

Per occurrence of an operator, with a of the GPU's S multiprocessors (SMs) allowed,

    t = max(FLOPs / compute rate, bytes / memory rate, kernels x t_kernel)

    compute rate = peak(type) x efficiency(class) x r_c x tiles / (ceil(tiles / a) x S)
    memory rate  = bandwidth x r_m x min(1, min(blocks, a) / (S x saturation))
    bytes        = read / (1 + r_cache x L2 / partitions / read) + written

r are `rates`: r_c of convolutions on tensor cores, r_m by what an operator does and whether it converts a layout, and
r_cache: what an operator reads the one before has mostly written, and a part of that is still in the L2 cache, whose
partitions each keep what the SMs beside them read (NVIDIA A100 whitepaper, L2 cache).

Where a `KernelModel` is given, it knows the times of products and convolutions at all SMs (`kernels`), and

    t(a) = combined(max(t_tiles x waves(a) / waves(S), t_compute(S)), t_memory(S) x memory rate(S) / memory rate(a))

at a peak of r_c x peak, and t_memory over r_m where that is a conversion's.

The first is the roofline model (Williams, Waterman, Patterson 2009) with wave quantisation: `tiles` thread
blocks run in whole waves over a SMs. The second says that a part of the SMs is enough to saturate DRAM.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api.graph import Graph, OperatorClass, Phase
from cotenant_predictor import devices
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import rates, shapes
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.rates import Rated
from cotenant_predictor.jobs.shapes import FamilyShapes
from cotenant_predictor.kernels import chips, products
from cotenant_predictor.kernels.chips import Chips
from cotenant_predictor.kernels.model import KernelModel

Array: TypeAlias = npt.NDArray[Any]

MATRIX_CLASSES = frozenset({OperatorClass.CONV, OperatorClass.MATMUL, OperatorClass.ATTENTION, OperatorClass.RNN})
"""Classes whose rate depends on the type: the others compute outside tensor cores."""
_TYPE_INDEX = {name: index for index, name in enumerate(devices.PEAK_TYPES)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operators:
    """The operators of one graph, as arrays of shape (n_operators,). Amounts are of one occurrence."""

    repeat: Array
    kernels: Array
    flops: Array
    read_bytes: Array
    written_bytes: Array
    parallel: Array
    """Thread blocks that one kernel can spread over the SMs."""
    efficiency: Array
    """Share of the peak that a full wave reaches."""
    rated: Rated
    type_index: Array
    """Position in `devices.PEAK_TYPES`."""
    forward: Array
    """Whether Python runs the operator (the forward pass), not the autograd engine."""
    optimizer_tensors: Array
    families: tuple[FamilyShapes, ...] = ()
    """Products and convolutions by family."""

    @property
    def moved_bytes(self) -> Array:
        """Read and written, from wherever."""
        moved: Array = self.read_bytes + self.written_bytes
        return moved


@dataclasses.dataclass(frozen=True, kw_only=True)
class Devices:
    """GPU models, as arrays of shape (n_devices, 1); `peak` has shape (n_devices, n_types)."""

    sm_count: Array
    bandwidth: Array
    host_bandwidth: Array
    near_cache_bytes: Array
    """The partition of the L2 cache that an SM reads through."""
    peak: Array
    chips: Chips


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelTimes:
    """Times of one occurrence of some operators at all SMs, as a `KernelModel` has them; shape (n_devices, n)."""

    index: Array
    """Positions of the operators, shape (n,)."""
    tiles: Array
    compute: Array
    memory: Array
    parallel: Array
    sharpness: Array
    """Shape (n,)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Busy:
    """Times of all operators on all devices; shapes (n_devices, n_operators), or (n_devices, 1) where summed."""

    seconds: Array
    """Of all occurrences of an operator."""
    total_seconds: Array
    compute_seconds: Array
    """The part of `total_seconds` in operators bound by arithmetic; the rest is bound by memory."""


def operators_of(graph: Graph, coefficients: Coefficients) -> Operators:
    """Return the graph's operators as arrays."""
    found = graph.operators
    matrix = np.array([operator.operator_class in MATRIX_CLASSES for operator in found])
    repeat, kernels, flops, read, written, outputs = np.array(
        [(o.repeat, o.kernels, o.flops, o.bytes_read, o.bytes_written, o.output_elements) for o in found],
        dtype=np.float64,
    ).T.copy()
    tensors = [o.dims.get("tensors", 0) if o.phase is Phase.OPTIMIZER else 0 for o in found]
    launched = np.maximum(1.0, kernels)
    # Tiles of the output; a long reduction (K = FLOPs / 2 per output element) is split into more.
    elements = np.maximum(1.0, outputs)
    split = np.maximum(1.0, flops / (2 * elements * coefficients.split_reduction))
    tiles = elements * split / (coefficients.tile_elements * launched)
    blocks = np.maximum(read, written) / (coefficients.block_bytes * launched)
    return Operators(
        repeat=repeat,
        kernels=kernels,
        flops=flops,
        read_bytes=read,
        written_bytes=written,
        parallel=np.maximum(1.0, np.where(matrix, tiles, blocks)),
        efficiency=np.array([coefficients.compute_efficiency[o.operator_class] for o in found]),
        rated=rates.rated(graph, coefficients.rates),
        type_index=np.where(matrix, [_TYPE_INDEX.get(o.dtype, 0) for o in found], 0).astype(np.intp),
        forward=np.array([o.phase is Phase.FORWARD for o in found]),
        optimizer_tensors=np.array(tensors, dtype=np.float64),
        families=shapes.of(graph),
    )


def devices_of(rows: Sequence[Device]) -> Devices:
    """Return the GPU models as arrays."""

    def column(values: list[float]) -> Array:
        return np.array(values, dtype=np.float64)[:, None]

    return Devices(
        sm_count=column([row.sm_count for row in rows]),
        bandwidth=column([row.memory_gigabytes_per_second * 1e9 for row in rows]),
        host_bandwidth=column([row.host_gigabytes_per_second * 1e9 for row in rows]),
        near_cache_bytes=column([row.l2_mib * 2**20 / row.l2_partitions for row in rows]),
        peak=np.array([[row.peak_flops(dtype) for dtype in devices.PEAK_TYPES] for row in rows]),
        chips=chips.of(rows),
    )


def kernel_times(operators: Operators, gpus: Devices, model: KernelModel | None) -> KernelTimes | None:
    """Return what `model` knows of the operators; None where that is nothing.

    Costs more than `busy` does, and is the same for every share of SMs.
    """
    if model is None or not operators.families:
        return None
    rate = _peak(operators, gpus) * operators.rated.arithmetic(on_tensor_cores(operators, gpus))
    parts = [_family_times(part, gpus, model, peak=rate[:, part.index]) for part in operators.families]
    names = [field.name for field in dataclasses.fields(KernelTimes)]
    together = {name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names}
    return KernelTimes(**together)


def busy(
    operators: Operators,
    gpus: Devices,
    *,
    sm_share: Array,
    coefficients: Coefficients,
    kernels: KernelTimes | None = None,
) -> Busy:
    """Return how long the GPU works, with `sm_share` (0..1, shape (n_devices, 1)) of its SMs allowed.

    Of several shares at once, shape (n_shares, n_devices, 1), results have that axis before theirs.

    `kernels` (of `kernel_times`) replaces the formula for the operators that it knows.
    """
    active = np.maximum(1.0, np.floor(gpus.sm_count * sm_share))
    tensor = on_tensor_cores(operators, gpus)
    compute = _compute_seconds(operators, gpus, active=active)
    reach = _reach(operators.parallel, active, gpus, coefficients)
    memory = dram_bytes(operators, gpus) / (gpus.bandwidth * operators.rated.bandwidth(tensor) * reach)
    once = np.maximum(compute, memory)
    if kernels is not None:
        waves = np.ceil(kernels.parallel / active) / np.ceil(kernels.parallel / gpus.sm_count)
        reached = _reach(kernels.parallel, active, gpus, coefficients)
        at_best = _reach(kernels.parallel, gpus.sm_count, gpus, coefficients)
        arithmetic = np.maximum(kernels.tiles * waves, kernels.compute)
        moving = kernels.memory / operators.rated.converted(tensor)[:, kernels.index] * at_best / reached
        compute[..., kernels.index], memory[..., kernels.index] = arithmetic, moving
        once[..., kernels.index] = products.combined(arithmetic, moving, sharpness=kernels.sharpness)
    seconds = operators.repeat * np.maximum(once, operators.kernels * coefficients.kernel_seconds)
    return Busy(
        seconds=seconds,
        total_seconds=seconds.sum(axis=-1, keepdims=True),
        compute_seconds=np.where(compute >= memory, seconds, 0.0).sum(axis=-1, keepdims=True),
    )


def _reach(parallel: Array, active: Array, gpus: Devices, coefficients: Coefficients) -> Array:
    """Share of the memory rate that so many blocks on so many SMs reach."""
    reached: Array = np.minimum(1.0, np.minimum(parallel, active) / (gpus.sm_count * coefficients.memory_saturation))
    return reached


def _family_times(part: FamilyShapes, gpus: Devices, model: KernelModel, *, peak: Array) -> KernelTimes:
    family = model.families[part.family]
    times = family.times(part.shapes, gpus.chips, peak=peak)
    return KernelTimes(
        index=part.index,
        tiles=part.passes * times.tiles,
        compute=part.passes * times.compute,
        memory=part.passes * times.memory,
        parallel=times.parallel,
        sharpness=np.full(len(part.index), times.sharpness),
    )


def dram_bytes(operators: Operators, gpus: Devices) -> Array:
    """Return what one occurrence moves to and from DRAM, shape (n_devices, n_operators): the cache has the rest."""
    held = operators.rated.rates.cache * gpus.near_cache_bytes
    moved: Array = operators.read_bytes / (1.0 + held / np.maximum(1.0, operators.read_bytes)) + operators.written_bytes
    return moved


def on_tensor_cores(operators: Operators, gpus: Devices) -> Array:
    """Return whether devices have a higher rate for operators' types than for fp32, shape (n_devices, n_operators)."""
    result: Array = _peak(operators, gpus) > gpus.peak[:, :1]
    return result


def _peak(operators: Operators, gpus: Devices) -> Array:
    """FLOP/s of each operator's type; shape (n_devices, n_operators)."""
    peak: Array = np.take(gpus.peak, operators.type_index, axis=1)
    return peak


def _compute_seconds(operators: Operators, gpus: Devices, *, active: Array) -> Array:
    tensor = on_tensor_cores(operators, gpus)
    rate = _peak(operators, gpus) * operators.rated.arithmetic(tensor) * operators.efficiency
    waves = np.ceil(operators.parallel / active)
    seconds: Array = operators.flops * waves * gpus.sm_count / (operators.parallel * rate)
    return seconds
