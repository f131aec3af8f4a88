"""Situations of GPUs: GPUs of one model whose tenants are alike are in the same one, and worth the same to a newcomer.

A situation is the GPU's model and memory, and of its tenants the prediction, thread percentage, client priority and
workload type, in any order. Thousands of GPUs are in few situations. Each is a number here, kept per GPU until its
node's row changes. What a score finds for a newcomer is remembered by situation, within bounds.
"""

import weakref
from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np

from cotenant_api import prediction
from cotenant_api.names import GPUModel, NodeName
from cotenant_extender.packing import fleet, jobs, view
from cotenant_extender.steps import Steps

Array = jobs.Array

_MOST_NODES: Final = 20_000
_SPARE: Final = 10_000
_NODES_PER_STEP: Final = 20
_MOST_REMEMBERED: Final = 100_000


class Situation(NamedTuple):
    """What a newcomer finds on a GPU."""

    model: GPUModel
    memory_mib: int
    tenants: tuple[jobs.Job, ...]


class Situations:
    """Numbers of situations, and what was found in them.

    Attributes:
        known: situations by number.
    """

    def __init__(self) -> None:
        self._forget()
        self._basis: tuple[object, ...] = ()
        self._most_gpus = 0

    @property
    def loads(self) -> Array:
        """What the tenants of each need together of SM time and memory bandwidth, 1: all; shape (n_situations, 2)."""
        return self._loads[: len(self.known)]

    def codes(self, source: fleet.Fleet) -> Array:
        """Return the situation of every GPU, shape (N, G); -1 where there is none."""
        self._most_gpus = max(self._most_gpus, source.present.size)
        if len(self.known) > 2 * self._most_gpus + _SPARE:
            self._forget()
        if source.whole is not None:
            whole, rows = source.whole
            if rows.max(initial=-1) < len(whole) and np.array_equal(whole.versions[rows], source.versions):
                return self._codes(whole)[rows]
        return self._codes(source)

    def prepare(self, source: fleet.Fleet) -> Steps[None]:
        """Find the situations of all GPUs in steps; `codes` then finds them known."""
        for count, node in enumerate(list(source.nodes), start=1):
            self._row(node)
            if count % _NODES_PER_STEP == 0:
                yield

    def found(self, newcomer: Hashable, *basis: object) -> dict[int, float]:
        """Return what was found for a newcomer, by situation: to be read and added to.

        Args:
            newcomer: all of it that the finding depends on, beside the situation.
            basis: what else it depends on; where that is not what it was, all is forgotten.
        """
        if len(basis) != len(self._basis) or any(a is not b for a, b in zip(basis, self._basis, strict=True)):
            self._basis = basis
            self._found.clear()
        if sum(map(len, self._found.values())) > _MOST_REMEMBERED:
            self._found.clear()
        return self._found.setdefault(newcomer, {})

    def _forget(self) -> None:
        self.known: list[Situation] = []
        self._numbers: dict[Hashable, int] = {}
        self._loads = np.zeros((_SPARE, 2))
        self._predictions: dict[prediction.GPUPrediction | None, prediction.GPUPrediction | None] = {}
        self._tenants: list[jobs.Job] = []
        self._places: dict[Hashable, int] = {}
        self._nodes: dict[NodeName, tuple[view.Node, list[int]]] = {}
        self._columns: weakref.WeakKeyDictionary[fleet.Fleet, _Column] = weakref.WeakKeyDictionary()
        self._found: dict[Hashable, dict[int, float]] = {}

    def _codes(self, source: fleet.Fleet) -> Array:
        standing = self._columns.get(source)
        if standing is None or standing.codes.shape != source.present.shape:
            versions, codes = np.zeros_like(source.versions), np.full(source.present.shape, -1, dtype=np.int32)
            standing = self._columns[source] = _Column(versions, codes)
        for row in np.flatnonzero(standing.versions != source.versions):
            found = self._row(source.nodes[row])
            standing.codes[row, : len(found)] = found
            standing.codes[row, len(found) :] = -1
        standing.versions[:] = source.versions
        return standing.codes

    def _row(self, node: view.Node) -> list[int]:
        standing = self._nodes.get(node.name)
        if standing is not None and standing[0] is node:
            return standing[1]
        if len(self._nodes) > _MOST_NODES:
            self._nodes.clear()
        before = {} if standing is None else dict(zip(map(id, standing[0].gpus), standing[1], strict=True))
        found = [before[id(gpu)] if id(gpu) in before else self._number(gpu) for gpu in node.gpus]
        self._nodes[node.name] = node, found
        return found

    def _number(self, gpu: view.GPU) -> int:
        places = sorted(self._place(jobs.of_tenant(tenant, gpu.memory_mib)) for tenant in gpu.tenants)
        key = (gpu.model, gpu.memory_mib, *places)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.known)
            tenants = tuple(self._tenants[place] for place in places)
            self.known.append(Situation(gpu.model, gpu.memory_mib, tenants))
            if number == len(self._loads):
                self._loads = np.concatenate([self._loads, np.zeros((number + _SPARE, 2))])
            self._loads[number] = sum(map(jobs.needed, tenants), start=np.zeros(2))
        return number

    def _place(self, job: jobs.Job) -> int:
        """Of a tenant among those that differ."""
        # Equal predictions become one object: comparing these is quick.
        predicted = self._predictions.setdefault(job.predicted, job.predicted)
        key = id(predicted), job.threads, job.priority, job.workload_type, job.gpu_memory_mib
        place = self._places.setdefault(key, len(self._places))
        if place == len(self._tenants):
            self._tenants.append(job._replace(predicted=predicted))
        return place


class _Column(NamedTuple):
    """Situations of a fleet's GPUs, shape (N, G), and the versions of its rows that they are of, shape (N,)."""

    versions: Array
    codes: Array
