"""`formula-1`: a prediction from the graph and the GPU's data sheet alone, nothing learned from jobs.

    T_step = max(T_busy, T_launch, T_feed)
    utilization   = T_busy / T_step                 x rate x T_step, where requests leave the GPU idle
    SM activity   = sum of t x min(1, tiles / SMs) / T_step
    DRAM activity = bytes / (bandwidth x T_step)
    thread percentage = the smallest share p of the SMs with T_step(100 %) / T_step(p) >= 0.95

T_busy is the sum of `roofline.busy`, the other two are in `host`, memory is in `memory`. Utilization is
what nvidia-smi shows: the share of time in which any kernel runs, on however few SMs. Upper bounds are the
median times a constant, stated in `coefficients`; nothing is claimed of their coverage. Pure functions.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from cotenant_api import errors
from cotenant_api.graph import Graph
from cotenant_api.prediction import GPUPrediction, PercentRange, Prediction, Regime, Source
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import coefficients as constants
from cotenant_predictor.jobs import domain, host, memory, roofline
from cotenant_predictor.jobs.coefficients import Coefficients
from cotenant_predictor.jobs.roofline import Array


def predict(
    graph: Graph,
    gpus: Iterable[Device],
    *,
    cpu_cores: float | None = None,
    coefficients: Coefficients = constants.FORMULA_1,
) -> Prediction:
    """What `graph` will need on each of `gpus`.

    Args:
        graph: one step of the job.
        gpus: the GPU models, at least one (`devices.select`).
        cpu_cores: cores that the job has for loading its input; unknown: as many as it has workers.
        coefficients: what the formula assumes.

    Raises:
        InvalidInputError: no GPU model, no CPU core, or amounts from which no finite time follows.
    """
    rows = tuple(gpus)
    if not rows:
        raise errors.InvalidInputError("gpuModels", rows, "must name at least one GPU model")
    if cpu_cores is not None and not cpu_cores > 0:
        raise errors.InvalidInputError("cpuCores", cpu_cores, "must be above 0")
    domain.require_plausible(graph)
    step = _Step(graph, rows, cpu_cores=cpu_cores, coefficients=coefficients)
    by_gpu = {row.name: step.prediction(index, row) for index, row in enumerate(rows)}
    digest = graph.digest or graph.computed_digest()
    return Prediction(graph=digest, source=Source.FORMULA, model=coefficients.name, by_gpu=by_gpu)


class _Step:
    """One step of a graph on every device at once: arrays of shape (n_devices, 1)."""

    def __init__(
        self, graph: Graph, rows: Sequence[Device], *, cpu_cores: float | None, coefficients: Coefficients
    ) -> None:
        self._graph, self._coefficients = graph, coefficients
        self._gpus = roofline.devices_of(rows)
        self._operators = roofline.operators_of(graph, coefficients)
        self._alive = memory.alive_of(graph, self._operators, coefficients)
        self._domain = domain.Domain(graph, coefficients)
        self._launch = host.launch_seconds(graph, self._operators, coefficients)
        self._feed = host.feed_seconds(graph, self._gpus, coefficients, cpu_cores=cpu_cores)
        self._busy = self._busy_with(np.ones_like(self._feed))
        self._seconds = self._seconds_with(self._busy)
        if not np.isfinite(self._seconds).all():
            remedy = "a step must end: check samplesPerSecond and the CPU cores"
            raise errors.InvalidInputError("host", graph.host.samples_per_second, remedy)
        self._thread_percentage = self._smallest_thread_percentage()

    def prediction(self, index: int, device: Device) -> GPUPrediction:
        """The prediction for the device at `index`."""
        seconds, busy = float(self._seconds[index, 0]), float(self._busy.total_seconds[index, 0])
        duty = self._duty(seconds)
        per_second = 100.0 * duty / seconds
        occupied = np.minimum(1.0, self._operators.parallel / self._gpus.sm_count[index])
        moved = (self._operators.repeat * self._operators.moved_bytes).sum() / self._gpus.bandwidth[index, 0]
        needed = memory.needed(self._alive, device, self._coefficients)
        return GPUPrediction(
            utilization=self._range(per_second * busy),
            sm_activity=self._range(per_second * float((self._busy.seconds[index] * occupied).sum())),
            dram_activity=self._range(per_second * float(moved)),
            memory_mib=needed,
            step_milliseconds=round(1e3 * seconds, 6),
            thread_percentage=int(self._thread_percentage[index, 0]),
            regime=self._regime(index, duty),
            out_of_domain=self._domain.excludes(device, needed),
        )

    def _busy_with(self, sm_share: Array) -> roofline.Busy:
        return roofline.busy(self._operators, self._gpus, sm_share=sm_share, coefficients=self._coefficients)

    def _seconds_with(self, busy: roofline.Busy) -> Array:
        slowest: Array = np.maximum(np.maximum(busy.total_seconds, self._launch), self._feed)
        return slowest

    def _smallest_thread_percentage(self) -> Array:
        """Bisection: T_step never grows with the share of SMs."""
        too_small, enough = np.zeros_like(self._feed), np.full_like(self._feed, 100.0)
        allowed = self._seconds / self._coefficients.speed_kept
        while (enough - too_small > 1).any():
            middle = np.ceil((too_small + enough) / 2)
            keeps = self._seconds_with(self._busy_with(middle / 100)) <= allowed
            settled = enough - too_small <= 1
            enough = np.where(keeps & ~settled, middle, enough)
            too_small = np.where(~keeps & ~settled, middle, too_small)
        return enough

    def _duty(self, seconds: float) -> float:
        """The share of time in which requests keep the job stepping; 1 where nothing is declared."""
        rate = host.requests_per_second(self._graph)
        return 1.0 if rate is None else min(1.0, rate * seconds)

    def _range(self, percent: float) -> PercentRange:
        median = min(100.0, percent)
        return PercentRange(q50=round(median, 2), upper=round(min(100.0, median * self._coefficients.widening), 2))

    def _regime(self, index: int, duty: float) -> Regime:
        busy, feed = float(self._busy.total_seconds[index, 0]), float(self._feed[index, 0])
        slowest = max(busy, feed, self._launch)
        if duty < 1 or (feed == slowest and feed > 0):
            return Regime.HOST
        if self._launch == slowest:
            return Regime.LAUNCH
        compute = float(self._busy.compute_seconds[index, 0])
        return Regime.COMPUTE if 2 * compute >= busy else Regime.MEMORY
