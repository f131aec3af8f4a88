"""Measurement files and graph files as one checked value: every line that cannot be used is an error with its place.

Averages nothing, fills in nothing, and never mixes what was simulated with what was measured.
"""

import collections
import dataclasses
import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant_api import errors
from cotenant_api.graph import Graph, Mode, OperatorClass
from cotenant_api.measurement import Distribution, Measurement, Mechanism, Outcome
from cotenant_api.names import GPUModel, GraphDigest
from cotenant_predictor import devices
from cotenant_predictor.datasets import files
from cotenant_predictor.devices import Device

Array: TypeAlias = npt.NDArray[Any]

TARGETS: Final[Mapping[str, Callable[[Measurement], float | None]]] = types.MappingProxyType(
    {
        "utilization": lambda record: record.values.utilization,
        "smActivity": lambda record: record.values.sm_activity,
        "dramActivity": lambda record: record.values.dram_activity,
        "memoryUtilization": lambda record: record.values.memory_utilization,
        "memoryPeakMiB": lambda record: record.values.memory_peak_mib,
        "stepMilliseconds": lambda record: _mean(record.values.step_milliseconds),
        "powerWatts": lambda record: record.values.power_watts,
        "normalizedSpeed": lambda record: record.values.normalized_speed,
    }
)
"""What can be asked of `Measurements.values`: percent of the GPU, MiB, mean milliseconds, watts, share of the speed
alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurements:
    """Lines of measurement files with the graphs that they name; one entry of each array is one line."""

    records: tuple[Measurement, ...]
    graphs: Mapping[GraphDigest, Graph]
    """Every graph that was read, by digest; every job and co-tenant of `records` has its own."""
    known: Mapping[GPUModel, Device] = dataclasses.field(default_factory=devices.load)
    """The GPU models that are known; every line's is."""

    def __len__(self) -> int:
        return len(self.records)

    @property
    def simulated(self) -> bool:
        """Whether these lines are simulated: all of them are, or none is."""
        return any(record.simulated for record in self.records)

    def graph_of(self, record: Measurement) -> Graph:
        """Return the graph of one line."""
        return self.graphs[record.graph]

    @functools.cached_property
    def groups(self) -> tuple[str, ...]:
        """What leave-group-out holds out, by line."""
        return tuple(record.group for record in self.records)

    @functools.cached_property
    def families(self) -> tuple[str, ...]:
        """What leave-family-out holds out, by line; derived from the graph where a line names none."""
        derived = functools.cache(lambda digest: family_of(self.graphs[digest]))
        return tuple(record.family or derived(record.graph) for record in self.records)

    @functools.cached_property
    def gpu_models(self) -> tuple[GPUModel, ...]:
        """What leave-gpu-out holds out, by line."""
        return tuple(record.gpu_model for record in self.records)

    @functools.cached_property
    def weights(self) -> Array:
        """One over the number of repeats of a line's configuration, shape (n_lines,): repeats count once together."""
        configurations = [_configuration(record) for record in self.records]
        counts = collections.Counter(configurations)
        return np.array([1.0 / counts[configuration] for configuration in configurations])

    @functools.cached_property
    def out_of_memory(self) -> Array:
        """Which lines ended out of memory, shape (n_lines,)."""
        return np.array([record.outcome is Outcome.OUT_OF_MEMORY for record in self.records], dtype=np.bool_)

    def values(self, target: str) -> Array:
        """One of `TARGETS`, shape (n_lines,); NaN where it was not measured or the run did not end well.

        Raises:
            KeyError: no such target.
        """
        read = TARGETS[target]
        found = [read(record) if record.outcome is Outcome.OK else None for record in self.records]
        return np.array([np.nan if value is None else value for value in found], dtype=np.float64)

    def memory_floor_mib(self) -> Array:
        """Return what a job that ended out of memory needed at least, shape (n_lines,); NaN for the other lines."""
        floors = np.full(len(self.records), np.nan)
        for index in np.flatnonzero(self.out_of_memory):
            record = self.records[index]
            available = self.known[record.gpu_model].memory_mib
            floors[index] = available if record.memory_limit_mib is None else min(available, record.memory_limit_mib)
        return floors

    def digest(self) -> str:
        """`sha256:` of the lines, which name their graphs by digest."""
        lines = "\n".join(record.to_json() for record in self.records)
        return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()

    def where(self, keep: Callable[[Measurement], bool]) -> Self:
        """Return the lines that `keep` accepts, in order, with all graphs."""
        return dataclasses.replace(self, records=tuple(record for record in self.records if keep(record)))

    def take(self, indices: Iterable[int]) -> Self:
        """Return the lines at these positions, in their order."""
        return dataclasses.replace(self, records=tuple(self.records[index] for index in indices))

    def alone(self) -> Self:
        """Lines of jobs that had the whole GPU: no co-tenant and no smaller thread percentage."""
        return self.where(lambda record: not record.co_tenants and record.thread_percentage in {None, 100})

    def limited(self) -> Self:
        """Lines of jobs without co-tenant on a part of the threads."""
        return self.where(lambda record: not record.co_tenants and record.thread_percentage not in {None, 100})

    def joint(self) -> Self:
        """Lines of jobs that ran beside others."""
        return self.where(lambda record: bool(record.co_tenants))

    def runs(self) -> Mapping[str, tuple[int, ...]]:
        """Positions of the lines of each run, by id, in order of first occurrence."""
        found: dict[str, list[int]] = {}
        for index, record in enumerate(self.records):
            found.setdefault(record.id, []).append(index)
        return {name: tuple(indices) for name, indices in found.items()}


def family_of(graph: Graph) -> str:
    """Return the kind of a network, where nobody named it: the class of most of its FLOPs, and whether it trains.

    Matrix products serve every kind: they count as attention or rnn where the graph has such operators. A graph
    without FLOPs is named by the class that moves most bytes.
    """
    flops: collections.Counter[OperatorClass] = collections.Counter()
    moved: collections.Counter[OperatorClass] = collections.Counter()
    for operator in graph.operators:
        flops[operator.operator_class] += operator.repeat * operator.flops
        moved[operator.operator_class] += operator.repeat * (operator.bytes_read + operator.bytes_written)
    amounts = flops if flops.total() else moved
    kind = max(OperatorClass, key=lambda name: amounts[name])
    if kind is OperatorClass.MATMUL:
        kind = next((name for name in (OperatorClass.ATTENTION, OperatorClass.RNN) if amounts[name]), kind)
    return f"{kind}-{'training' if graph.mode is Mode.TRAINING else 'inference'}"


def load(
    paths: Sequence[Path | str],
    *,
    known: Mapping[GPUModel, Device] | None = None,
    simulated: bool = False,
    on_bad: files.OnBad = files.refuse,
) -> Measurements:
    """Read files, and the files of directories, that hold measurements and graph documents.

    Args:
        paths: `*.jsonl`, `*.json`, each also with `.gz`, or directories that hold such files at any depth. A
            file that is named twice is read once.
        known: the GPU models that lines may name; None: those of this release.
        simulated: read simulated lines, and no others; without it they are refused.
        on_bad: told of what cannot be used, a line, a run or a graph: a line is no document of a known kind or not
            valid, its graph is missing, it is there twice, its GPU model is not known, or it is simulated where
            measured lines are wanted. By default it raises that error.

    Raises:
        InvalidInputError: a file cannot be read, or no line is left.
    """
    found = files.documents_in(paths, on_bad=on_bad)
    source = ", ".join(str(path) for path in paths)
    return collect(found, source=source, known=known, simulated=simulated, on_bad=on_bad)


def collect(
    found: Iterable[tuple[str, files.Content]],
    *,
    source: str,
    known: Mapping[GPUModel, Device] | None = None,
    simulated: bool = False,
    on_bad: files.OnBad = files.refuse,
) -> Measurements:
    """As `load`, from decoded documents, each with its place. Pure.

    Lines come in one order whatever the order of files and lines, so that the same data give the same model.
    """
    known = devices.load() if known is None else known
    graphs: dict[GraphDigest, Graph] = {}
    placed: list[tuple[str, Measurement]] = []
    for place, content in found:
        try:
            document = _document(place, content)
        except errors.InvalidInputError as error:
            on_bad(error)
            continue
        if isinstance(document, Graph):
            graphs.setdefault(document.digest, document)
        else:
            placed.append((place, document))
    usable = []
    for place, record in placed:
        try:
            _check_gpu(place, record, known)
            _check(place, record, graphs, simulated=simulated)
            if record.namespace is not None:
                _check_of_namespace(place, record, memory_mib=known[record.gpu_model].memory_mib)
        except errors.InvalidInputError as error:
            on_bad(error)
        else:
            usable.append((place, record))
    records = sorted(_whole_runs(usable, on_bad), key=_order)
    if not records:
        raise errors.InvalidInputError("DATA", source, "holds no measurement: give files with measurement lines")
    return Measurements(records=tuple(records), graphs=types.MappingProxyType(graphs), known=known)


def _document(place: str, content: files.Content) -> Graph | Measurement:
    if files.is_graph(content.value):
        return Graph.read(content.text, source=place)
    if files.is_measurement(content.value):
        return Measurement.from_object(content.value, source=place)
    remedy = 'must be a graph document (it has "operators") or a measurement (it has "mechanism")'
    raise errors.InvalidInputError(place, sorted(content.value)[:8], remedy)


def _mean(times: Distribution | None) -> float | None:
    return None if times is None else times.mean


def _check_gpu(place: str, record: Measurement, known: Mapping[GPUModel, Device]) -> None:
    if record.gpu_model not in known:
        remedy = f"is not known: give its row by --devices FILE, or write one of {', '.join(known)}"
        raise errors.InvalidInputError(f"{place}.gpuModel", record.gpu_model, remedy)


def _check(place: str, record: Measurement, graphs: Mapping[GraphDigest, Graph], *, simulated: bool) -> None:
    named = {"graph": record.graph}
    named |= {f"coTenants[{index}].graph": tenant.graph for index, tenant in enumerate(record.co_tenants)}
    for field, digest in named.items():
        if digest not in graphs:
            remedy = "no graph document with this digest was given: add the file or the folder that holds it to DATA"
            raise errors.InvalidInputError(f"{place}.{field}", digest, remedy)
    if record.simulated and not simulated:
        remedy = (
            "simulated and measured lines are never mixed: leave it out, or give --simulated for simulated lines alone"
        )
        raise errors.InvalidInputError(f"{place}.simulated", record.simulated, remedy)
    if simulated and not record.simulated:
        remedy = "--simulated reads simulated lines alone: leave out this line, or the option"
        raise errors.InvalidInputError(f"{place}.simulated", record.simulated, remedy)
    if record.mechanism is Mechanism.ALONE and record.co_tenants:
        raise errors.InvalidInputError(f"{place}.mechanism", record.mechanism, "a job alone has no coTenants")


def _check_of_namespace(place: str, record: Measurement, *, memory_mib: int) -> None:
    """Refuse what no agent reports of a pod: a joint run, and more than the GPU has."""
    if record.co_tenants:
        remedy = "a line of a namespace is of one pod: give a line with coTenants without a namespace"
        raise errors.InvalidInputError(f"{place}.coTenants", len(record.co_tenants), remedy)
    values = record.values
    bounds = (("utilization", values.utilization, 100), ("memoryPeakMiB", values.memory_peak_mib, memory_mib))
    for name, value, most in bounds:
        if value is not None and value > most:
            remedy = f"is above {most}, which is all of {record.gpu_model}: leave this line out"
            raise errors.InvalidInputError(f"{place}.values.{name}", value, remedy)


def _whole_runs(placed: Sequence[tuple[str, Measurement]], on_bad: files.OnBad) -> list[Measurement]:
    """Leave out a line that is there twice, and joint runs whose lines do not name one another."""
    kept: list[Measurement] = []
    first: dict[tuple[object, ...], str] = {}
    runs: dict[tuple[object, ...], list[tuple[str, Measurement]]] = {}
    for place, record in placed:
        if record.co_tenants:
            run = (record.id, record.repeat, record.gpu_model, record.mechanism)
            runs.setdefault(run, []).append((place, record))
            continue
        key = (record.namespace, record.id, record.repeat, *_configuration(record))
        if first.setdefault(key, place) == place:
            kept.append(record)
        else:
            remedy = f"the same run and repeat is at {first[key]}: keep one line"
            on_bad(errors.InvalidInputError(f"{place}.id", record.id, remedy))
    for lines in runs.values():
        try:
            _check_run(lines)
        except errors.InvalidInputError as error:
            on_bad(error)
        else:
            kept += [record for _, record in lines]
    return kept


def _check_run(lines: Sequence[tuple[str, Measurement]]) -> None:
    """Check that the lines of a joint run fit together; it may lack some (a tenant that was not measured)."""
    tenants = 1 + len(lines[0][1].co_tenants)
    present = collections.Counter(record.graph for _, record in lines)
    for place, record in lines:
        if len(lines) > tenants:
            remedy = f"{len(lines)} lines for {tenants} tenants of one repeat: keep one per tenant"
            raise errors.InvalidInputError(f"{place}.id", record.id, remedy)
        named = collections.Counter([record.graph, *(tenant.graph for tenant in record.co_tenants)])
        if present - named:
            remedy = (
                f"does not name the tenants of the other lines of run {record.id!r}: give each run an id of its own"
            )
            raise errors.InvalidInputError(f"{place}.coTenants", sorted(map(str, named)), remedy)


def _order(record: Measurement) -> tuple[str, ...]:
    return (record.id, record.graph, f"{record.repeat:06}", *map(str, _configuration(record)))


def _configuration(record: Measurement) -> tuple[object, ...]:
    """Return what two repeats have in common."""
    tenants = tuple(sorted((str(tenant.graph), tenant.thread_percentage or 100) for tenant in record.co_tenants))
    limits = (record.thread_percentage, record.client_priority, record.memory_limit_mib)
    return (record.graph, record.gpu_model, record.mechanism, *limits, tenants)
