"""One step of a job on GPU models, from the graph and data sheets: every time, share and byte that a prediction needs.

    T_step = max(T_busy, T_launch, T_feed, T_exchange)
    utilization        = T_busy / T_step              x rate x T_step, where requests leave the GPU idle
    SM activity        = sum of t x min(1, tiles / SMs) / T_step
    DRAM activity      = bytes / (bandwidth x T_step)
    memory utilization = sum of min(t, bytes / reachable bandwidth) / T_step
    power              = idle + (limit - idle) x (w x SM activity + (1 - w) x DRAM activity)
    thread percentage  = the smallest share p of the SMs with T_step(100 %) / T_step(p) >= 0.95

T_busy is the sum of `roofline.busy`, the next three are in `host`, memory is in `memory`. Utilization and memory
utilization are what nvidia-smi shows: the share of time in which any kernel runs, or memory is read or written. Pure.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from cotenant_api import errors
from cotenant_api.graph import Graph
from cotenant_api.prediction import Regime
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import domain, host, memory, roofline
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.roofline import Array
from cotenant_predictor.kernels.model import KernelModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One step of one graph on each device; arrays have shape (n_devices,) where nothing else is said."""

    graph: Graph
    devices: tuple[Device, ...]
    operators: roofline.Operators
    operator_seconds: Array
    """Of all occurrences of each operator, shape (n_devices, n_operators)."""
    parallel: Array
    """Thread blocks of each operator's kernels, shape (n_devices, n_operators)."""
    busy_seconds: Array
    compute_seconds: Array
    """The part of `busy_seconds` that arithmetic bounds."""
    launch_seconds: Array
    feed_seconds: Array
    exchange_seconds: Array
    step_seconds: Array
    duty: Array
    """Share of time in which there is a step to run, 0..1."""
    utilization: Array
    """This and the next four in percent, before any bound is put on them."""
    sm_activity: Array
    dram_activity: Array
    memory_utilization: Array
    power_watts: Array
    memory_mib: Array
    safe_memory_mib: Array
    thread_percentage: Array
    outside: Array
    """Whether the formula does not apply."""

    def regime(self, index: int) -> Regime:
        """Return what bounds the step on the device at `index`."""
        times = {
            Regime.LAUNCH: self.launch_seconds[index],
            Regime.HOST: max(self.feed_seconds[index], self.exchange_seconds[index]),
        }
        if self.duty[index] < 1:
            return Regime.HOST
        slowest = max(times, key=lambda regime: float(times[regime]))
        if times[slowest] > self.busy_seconds[index]:
            return slowest
        return Regime.COMPUTE if 2 * self.compute_seconds[index] >= self.busy_seconds[index] else Regime.MEMORY


def of(
    graph: Graph,
    gpus: Iterable[Device],
    *,
    cpu_cores: float | None = None,
    coefficients: Coefficients = constants.FORMULA_1,
    kernels: KernelModel | None = None,
) -> Step:
    """One step of `graph` on each of `gpus`.

    Args:
        graph: one step of the job.
        gpus: the GPU models, at least one (`devices.select`).
        cpu_cores: cores that the job has for loading its input; unknown: as many as it has workers.
        coefficients: what the formula assumes.
        kernels: measured kernels, instead of what `coefficients` assume of products and convolutions.

    Raises:
        InvalidInputError: no GPU model, no CPU core, or amounts from which no finite time follows.
    """
    rows = tuple(gpus)
    if not rows:
        raise errors.InvalidInputError("gpuModels", rows, "must name at least one GPU model")
    if cpu_cores is not None and not cpu_cores > 0:
        raise errors.InvalidInputError("cpuCores", cpu_cores, "must be above 0")
    assumed = _Assumed(cpu_cores=cpu_cores, coefficients=coefficients, kernels=kernels)
    return _Calculation(graph, rows, assumed).step()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Assumed:
    cpu_cores: float | None
    coefficients: Coefficients
    kernels: KernelModel | None


class _Calculation:
    """The arithmetic, on every device at once: arrays of shape (n_devices, 1)."""

    def __init__(self, graph: Graph, rows: Sequence[Device], assumed: _Assumed) -> None:
        coefficients = assumed.coefficients
        self._graph, self._rows, self._coefficients = graph, tuple(rows), coefficients
        self._gpus = roofline.devices_of(rows)
        self._operators = roofline.operators_of(graph, coefficients)
        launch = host.launch_seconds(graph, self._operators, coefficients)
        self._launch = np.full_like(self._gpus.bandwidth, launch)
        self._feed = host.feed_seconds(graph, self._gpus, coefficients, cpu_cores=assumed.cpu_cores)
        self._exchange = host.exchange_seconds(graph, self._gpus, coefficients)
        self._kernels = roofline.kernel_times(self._operators, self._gpus, assumed.kernels)
        self._busy = self._busy_with(np.ones_like(self._feed))
        self._seconds = self._seconds_with(self._busy)
        if not np.isfinite(self._seconds).all():
            remedy = "a step must end: check samplesPerSecond and the CPU cores"
            raise errors.InvalidInputError("host", graph.host.samples_per_second, remedy)

    def step(self) -> Step:
        """Everything, with the devices' axis alone."""
        operators, busy, gpus = self._operators, self._busy, self._gpus
        rate = host.requests_per_second(self._graph)
        duty = np.ones_like(self._seconds) if rate is None else np.minimum(1.0, rate * self._seconds)
        percent = 100.0 * duty / self._seconds
        parallel = self._parallel()
        filled = np.minimum(1.0, parallel / gpus.sm_count)
        moved = operators.repeat * roofline.dram_bytes(operators, gpus) / gpus.bandwidth
        reading = np.minimum(busy.seconds, moved / operators.rated.streaming)
        sm_activity = percent * (busy.seconds * filled).sum(axis=1, keepdims=True)
        dram_activity = percent * moved.sum(axis=1, keepdims=True)
        excluded = domain.Domain(self._graph, self._coefficients)
        alive = memory.alive_of(self._graph, operators)
        needs = [memory.needed(alive, row, self._coefficients) for row in self._rows]
        columns = {
            "busy_seconds": busy.total_seconds,
            "compute_seconds": busy.compute_seconds,
            "launch_seconds": self._launch,
            "feed_seconds": self._feed,
            "exchange_seconds": self._exchange,
            "step_seconds": self._seconds,
            "duty": duty,
            "utilization": percent * busy.total_seconds,
            "sm_activity": sm_activity,
            "dram_activity": dram_activity,
            "memory_utilization": percent * reading.sum(axis=1, keepdims=True),
            "power_watts": self._power_watts(sm_activity, dram_activity),
            "thread_percentage": self._smallest_thread_percentage(),
        }
        return Step(
            graph=self._graph,
            devices=self._rows,
            operators=operators,
            operator_seconds=busy.seconds,
            parallel=parallel,
            memory_mib=np.array([need.q50 for need in needs]),
            safe_memory_mib=np.array([need.upper for need in needs]),
            outside=np.array([excluded.excludes(row, need) for row, need in zip(self._rows, needs, strict=True)]),
            **{name: column[:, 0] for name, column in columns.items()},
        )

    def _busy_with(self, sm_share: Array) -> roofline.Busy:
        operators, gpus = self._operators, self._gpus
        return roofline.busy(operators, gpus, sm_share=sm_share, coefficients=self._coefficients, kernels=self._kernels)

    def _parallel(self) -> Array:
        parallel = np.tile(self._operators.parallel, (len(self._rows), 1))
        if self._kernels is not None:
            parallel[:, self._kernels.index] = self._kernels.parallel
        return parallel

    def _seconds_with(self, busy: roofline.Busy) -> Array:
        waits = np.maximum(np.maximum(self._launch, self._feed), self._exchange)
        slowest: Array = np.maximum(busy.total_seconds, waits)
        return slowest

    def _power_watts(self, sm_activity: Array, dram_activity: Array) -> Array:
        coefficients = self._coefficients
        limit = np.array([[row.power_watts] for row in self._rows], dtype=np.float64)
        weight = coefficients.sm_power_share
        active = (weight * np.minimum(100, sm_activity) + (1 - weight) * np.minimum(100, dram_activity)) / 100
        watts: Array = limit * (coefficients.idle_power_share + (1 - coefficients.idle_power_share) * active)
        return watts

    def _smallest_thread_percentage(self) -> Array:
        """First among multiples of 20, then of 4 below the one that is enough, then of 1: few calls on small arrays.

        T_step never grows with the share of SMs.
        """
        allowed = self._seconds / self._coefficients.speed_kept
        enough = np.full_like(allowed, 100.0)
        for stride, count in ((20.0, 4), (4.0, 4), (1.0, 3)):
            below = enough - stride * np.arange(1.0, count + 1)[:, None, None]
            keeps = self._seconds_with(self._busy_with(below / 100)) <= allowed
            enough = enough - stride * keeps.sum(axis=0)
        return enough
