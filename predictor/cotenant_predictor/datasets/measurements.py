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

    def __len__(self) -> int:
        return len(self.records)

    @property
    def simulated(self) -> bool:
        """Whether these lines are simulated: all of them are, or none is."""
        return any(record.simulated for record in self.records)

    def graph_of(self, record: Measurement) -> Graph:
        """The graph of one line."""
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
        """What a job that ended out of memory needed at least, shape (n_lines,); NaN for the other lines."""
        known = devices.load()
        floors = np.full(len(self.records), np.nan)
        for index in np.flatnonzero(self.out_of_memory):
            record = self.records[index]
            available = known[record.gpu_model].memory_mib
            floors[index] = available if record.memory_limit_mib is None else min(available, record.memory_limit_mib)
        return floors

    def digest(self) -> str:
        """`sha256:` of the lines, which name their graphs by digest."""
        lines = "\n".join(record.to_json() for record in self.records)
        return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()

    def where(self, keep: Callable[[Measurement], bool]) -> Self:
        """The lines that `keep` accepts, in order, with all graphs."""
        return dataclasses.replace(self, records=tuple(record for record in self.records if keep(record)))

    def take(self, indices: Iterable[int]) -> Self:
        """The lines at these positions, in their order."""
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
    """The kind of a network, where nobody named it: the class of most of its FLOPs, and whether it trains.

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


def load(paths: Sequence[Path | str], *, simulated: bool = False) -> Measurements:
    """Read files, and the files of directories, that hold measurements and graph documents.

    Args:
        paths: `*.jsonl`, `*.json`, each also with `.gz`, or directories that hold such files at any depth. A
            file that is named twice is read once.
        simulated: read simulated lines, and no others; without it they are refused.

    Raises:
        InvalidInputError: a file cannot be read, a line is no document of a known kind or not valid, a graph is
            missing or twice with other content, a line is there twice, a GPU model is not known, simulated and
            measured lines meet, or there is no line at all.
    """
    return collect(files.documents_in(paths), source=", ".join(str(path) for path in paths), simulated=simulated)


def collect(found: Iterable[tuple[str, files.Content]], *, source: str, simulated: bool = False) -> Measurements:
    """As `load`, from decoded documents, each with its place. Pure.

    Lines come in one order whatever the order of files and lines, so that the same data give the same model.
    """
    graphs: dict[GraphDigest, Graph] = {}
    placed: list[tuple[str, Measurement]] = []
    for place, content in found:
        if files.is_graph(content.value):
            graph = Graph.read(content.text, source=place)
            graphs.setdefault(graph.digest, graph)
        elif files.is_measurement(content.value):
            placed.append((place, Measurement.from_object(content.value, source=place)))
        else:
            remedy = 'must be a graph document (it has "operators") or a measurement (it has "mechanism")'
            raise errors.InvalidInputError(place, sorted(content.value)[:8], remedy)
    if not placed:
        raise errors.InvalidInputError("DATA", source, "holds no measurement: give files with measurement lines")
    for place, record in placed:
        _check(place, record, graphs, simulated=simulated)
    _check_runs(placed)
    records = sorted((record for _, record in placed), key=_order)
    return Measurements(records=tuple(records), graphs=types.MappingProxyType(graphs))


def _mean(times: Distribution | None) -> float | None:
    return None if times is None else times.mean


def _check(place: str, record: Measurement, graphs: Mapping[GraphDigest, Graph], *, simulated: bool) -> None:
    known = devices.load()
    if record.gpu_model not in known:
        remedy = f"is not known: add its row to devices.yaml, or write one of {', '.join(known)}"
        raise errors.InvalidInputError(f"{place}.gpuModel", record.gpu_model, remedy)
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


def _check_runs(placed: Sequence[tuple[str, Measurement]]) -> None:
    """Refuse a line that is there twice, and joint runs whose lines do not name one another."""
    first: dict[tuple[object, ...], str] = {}
    runs: dict[tuple[object, ...], list[tuple[str, Measurement]]] = {}
    for place, record in placed:
        if record.co_tenants:
            run = (record.id, record.repeat, record.gpu_model, record.mechanism)
            runs.setdefault(run, []).append((place, record))
            continue
        key = (record.id, record.repeat, *_configuration(record))
        if first.setdefault(key, place) != place:
            remedy = f"the same run and repeat is at {first[key]}: keep one line"
            raise errors.InvalidInputError(f"{place}.id", record.id, remedy)
    for lines in runs.values():
        _check_run(lines)


def _check_run(lines: Sequence[tuple[str, Measurement]]) -> None:
    """A joint run may lack lines (a tenant that was not measured); what is there must fit together."""
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
    """What two repeats have in common."""
    tenants = tuple(sorted((str(tenant.graph), tenant.thread_percentage or 100) for tenant in record.co_tenants))
    limits = (record.thread_percentage, record.client_priority, record.memory_limit_mib)
    return (record.graph, record.gpu_model, record.mechanism, *limits, tenants)
