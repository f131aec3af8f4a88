"""All nodes as arrays: what is free where, for rules and scores that look at every GPU at once.

Rows are nodes in strict order, columns the GPUs of a node by index; cells beyond a node's last GPU are absent. One
changed node rewrites one row. Whoever keeps a fleet puts nodes into it; rules and placements only read.
"""

import bisect
import copy
import itertools
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.ma
from numpy.typing import NDArray

from cotenant_api import packingpolicy
from cotenant_api.names import HUNDREDTHS, GPUModel, Namespace, NodeName
from cotenant_extender import steps
from cotenant_extender.packing import (
    causes,
    circles,
    constraints,
    holding,
    judging,
    nodeset,
    policies,
    spaces,
    suspicion,
    view,
)

Array: TypeAlias = NDArray[Any]

ANYONE = -1
"""Tenancy of a GPU that everyone may share."""
MIXED = -2
"""Tenancy of a GPU whose tenants do not belong together: nobody may join them."""
EMPTY = 0

_CROWDED = 1000
_ROWS_PER_STEP = 20
_OF_NODES: dict[str, Any] = {
    "node_closed": np.uint8,
    "schedulable": np.bool_,
    "free_share": np.int64,
    "free_cpu_millis": np.int64,
    "free_memory_bytes": np.int64,
    "free_pods": np.int64,
    "cpu_millis": np.int64,
    "memory_bytes": np.int64,
    "pods": np.int64,
    "versions": np.int64,
}
OF_GPUS: dict[str, Any] = {
    "present": np.bool_,
    "closed": np.uint8,
    "model": np.int16,
    "free": np.int32,
    "free_mib": np.int64,
    "bookable_mib": np.int64,
    "tenants": np.int16,
    "tenants_left": np.int16,
    "suspects": np.int16,
    "suspect": np.int32,
    "circle": np.int32,
    "space": np.int32,
    "hold": np.int32,
    "promised": np.int32,
    "promised_mib": np.int64,
    "promises": np.int16,
}
FIELDS = (*_OF_NODES, *OF_GPUS)


class Fleet:
    """N nodes with at most G GPUs each.

    Attributes:
        policy: the policy in force.
        nodes: every node's value, by row.
        rows: row by name.
        models: GPU models by code.
        cut: the fleet of which this has some rows, and which; None: of none. What namespaces hold is counted on all.
        spaces: namespaces by code.
        admits: nodes on which the pod in question was let in before anything was held; None: all.
        accused: jobs that may have caused a fault, by code.
        released: the clock when a namespace last gave up a GPU, or what was held for it.
        whole: the fleet that this is a part of, and which rows of it these were; None for a whole one.
        kept: what is kept of nodes, with the codes of the holds; replaced, never changed, as copies share it.
        absent: shape (N,), nodes that do not belong to this part; None: all belong.
        node_closed: shape (N,), code of the cause that closes a whole node; 0: open.
        schedulable: shape (N,), Ready and not cordoned.
        free_share, free_cpu_millis, free_memory_bytes, free_pods: shape (N,), see `view.Host`.
        cpu_millis, memory_bytes, pods: shape (N,), what nodes have allocatable.
        versions: shape (N,), grows whenever a row is written.
        clock: the highest version that was ever given to a row.
        present: shape (N, G), whether there is such a GPU.
        closed: shape (N, G), code of the cause that closes a GPU; 0: open.
        model: shape (N, G), code of the model.
        free: shape (N, G), hundredths; negative where a policy counts tenants for more than was booked.
        free_mib, bookable_mib: shape (N, G), memory in MiB.
        tenants: shape (N, G), how many there are; `tenants_left`: how many more there may be.
        suspects: shape (N, G), how many tenants may have caused a fault; `suspect`: see `suspicion`.
        circle: shape (N, G), code of those who may join the tenants; `EMPTY`, `ANYONE`, `MIXED`.
        space: shape (N, G, T), code of the namespace of each tenant; 0 where there is none, or it is not bounded.
        hold: shape (N, G), code of the hold; 0: none.
        promised, promised_mib, promises: shape (N, G), what earmarks alone book, and how many there are.
    """

    node_closed: Array
    schedulable: Array
    free_share: Array
    free_cpu_millis: Array
    free_memory_bytes: Array
    free_pods: Array
    cpu_millis: Array
    memory_bytes: Array
    pods: Array
    versions: Array
    present: Array
    closed: Array
    model: Array
    free: Array
    free_mib: Array
    bookable_mib: Array
    tenants: Array
    tenants_left: Array
    suspects: Array
    suspect: Array
    circle: Array
    space: Array
    hold: Array
    promised: Array
    promised_mib: Array
    promises: Array

    def __init__(self, policy: policies.InForce) -> None:
        self.policy = policy
        self.nodes: list[view.Node] = []
        self.rows: dict[NodeName, int] = {}
        self.models: dict[GPUModel, int] = {}
        self.whole: tuple[Fleet, Array] | None = None
        self.absent: Array | None = None
        self.holds: dict[view.Hold, int] = {}
        self.kept: dict[NodeName, tuple[tuple[int, view.Kept], ...]] = {}
        self._circles: dict[Hashable, int] = {}
        self.spaces: dict[Namespace, int] = {}
        self.cut: tuple[Fleet, Array] | None = None
        self.admits: frozenset[NodeName] | None = frozenset()
        self.released = 0
        self.accused: dict[str, int] = {}
        self._judge = judging.Judge(self.nodes)
        self.clock = 0
        self._allocate(0, 1)

    @classmethod
    def of(cls, nodes: Sequence[view.Node], policy: policies.InForce) -> Self:
        """Nodes in the order in which they are given."""
        return steps.finish(cls.made(nodes, policy))

    @classmethod
    def made(cls, nodes: Sequence[view.Node], policy: policies.InForce) -> steps.Steps[Self]:
        """Make what `of` returns, in steps."""
        made = cls(policy)
        made.nodes = list(nodes)
        made._judge = judging.Judge(made.nodes)
        made.rows = {node.name: row for row, node in enumerate(nodes)}
        made._allocate(len(nodes), max((len(node.gpus) for node in nodes), default=1) or 1)
        for row, node in enumerate(nodes):
            made._write(row, node)
            if row % _ROWS_PER_STEP == _ROWS_PER_STEP - 1:
                yield
        return made

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def crowded(self) -> bool:
        """Whether it remembers so much of the past, tenancies or holds, that it should be made anew."""
        remembered = len(self._circles) + len(self.spaces) + len(self.holds) + len(self.accused)
        return remembered > _CROWDED + 2 * self.present.size

    def put(self, node: view.Node) -> None:
        """Put a node in as it is now; one that is new goes to its place by name.

        A fleet whose order is not by name takes no new nodes.
        """
        row = self.rows.get(node.name)
        if row is None:
            row = bisect.bisect_left(self.nodes, node.name, key=lambda known: known.name)
            self._insert(row, node)
            self._write(row, node)
        else:
            self._note_host(self.nodes[row].host, node.host)
            self._replace(row, node)

    def remove(self, name: NodeName) -> None:
        """Take out a node that is no more."""
        row = self.rows.get(name)
        if row is None:
            return
        del self.nodes[row]
        holding.keep(self, name, ())
        if self.space[row].any():
            self.clock += 1
            self.released = self.clock
        for field in FIELDS:
            setattr(self, field, np.delete(getattr(self, field), row, axis=0))
        self._reindex()

    @contextmanager
    def replacing(self, node: view.Node) -> Iterator[Self]:
        """Yield this fleet, as if one of its nodes were without a pod in question.

        Nothing may be put into it meanwhile.
        """
        row, released = self.rows[node.name], self.released
        standing = self.nodes[row]
        self._replace(row, node)
        self.admits = frozenset({node.name})
        try:
            yield self
        finally:
            self.admits = frozenset()
            self._replace(row, standing)
            self.released = released

    def part(self, names: Sequence[NodeName]) -> "Fleet":
        """Return these of its nodes, in strict order; the whole fleet where all are named.

        Where it is most of them, the rows stay, and the others' GPUs are absent: a row costs more to copy than to skip.
        """
        found = set(map(self.rows.get, names))
        found.discard(None)
        if len(found) == len(self.nodes):
            return self
        rows = np.array(sorted(row for row in found if row is not None), dtype=np.intp)
        return self._without_others(rows) if 4 * len(rows) > len(self.nodes) else self.at(rows)

    def at(self, rows: Array) -> "Fleet":
        """Return a copy of these rows, given in ascending order."""
        made = copy.copy(self)
        made.nodes = [self.nodes[row] for row in rows.tolist()]
        made.rows = {node.name: row for row, node in enumerate(made.nodes)}
        made._judge = judging.Judge(made.nodes)
        made.absent = None
        only = slice(int(rows[0]), int(rows[0]) + 1) if len(rows) == 1 else None
        for field in FIELDS:
            column = getattr(self, field)
            setattr(made, field, column[rows] if only is None else column[only].copy())
        made.whole = made.cut = self, rows
        return made

    def _without_others(self, rows: Array) -> "Fleet":
        made = copy.copy(self)
        made.absent = np.ones(len(self.nodes), dtype=np.bool_)
        made.absent[rows] = False
        made.present = self.present & ~made.absent[:, None]
        made.whole = self, np.arange(len(self.nodes))
        return made

    def emptied(self, cells: Array | None = None) -> "Fleet":
        """Return a copy in which GPUs hold nothing and are held for nobody; only some `cells`, shape (N, G), if named.

        What their tenants requested of the host stays; `nodes` say what they said.
        """
        made = copy.copy(self)
        made.whole = None
        for field in FIELDS:
            setattr(made, field, getattr(self, field).copy())
        where: Any = ... if cells is None else cells
        booked = np.zeros_like(made.free)
        booked[where] = HUNDREDTHS - made.free[where]
        made.free_share += np.where(made.present, booked, 0).sum(axis=1)
        made.free[where] = HUNDREDTHS
        made.free_mib[where] = made.bookable_mib[where]
        made.tenants_left[where] += made.tenants[where]
        made.tenants[where] = made.suspects[where] = made.suspect[where] = 0
        made.space[where] = spaces.NOBODY
        made.hold[where] = 0
        made.circle[where] = np.where(made.circle[where] == ANYONE, ANYONE, EMPTY)
        return made

    def take(self, row: int, slot: int, request: view.Request, *, share: int, memory_mib: int) -> None:
        """Count a pod on a GPU of a copy; its `nodes` do not tell of it."""
        self.stamp(row)
        self.free[row, slot] -= share
        self.free_mib[row, slot] -= memory_mib
        self.tenants[row, slot] += 1
        self.tenants_left[row, slot] -= 1
        model = self.nodes[row].gpus[slot].model
        spaces.enter(self, (row, slot), request.demand.namespace)
        suspicion.enter(self, (row, slot), request.demand.suspect)
        mine = self._code(circles.of(self.policy, model, request.demand.namespace, request.labels))
        standing = self.circle[row, slot]
        self.circle[row, slot] = mine if standing in (EMPTY, mine) else standing if standing == ANYONE else MIXED

    def stamp(self, row: int) -> None:
        """Give a row that is written a version newer than all."""
        self.clock += 1
        self.versions[row] = self.clock

    def allowed(self, wanted: constraints.Constraints) -> Array:
        """Which nodes a pod's constraints allow, shape (N,): those of its spec, its volumes, and kube-scheduler."""
        found = self.selected(wanted)
        if wanted.volumes:
            found = found & self.reached(wanted)
        return found if wanted.refused is None else found & ~self.refused(wanted.refused)

    def selected(self, wanted: constraints.Constraints) -> Array:
        """Which nodes the selectors, affinity and tolerations of a pod allow, shape (N,)."""
        return self._judge.allowed(wanted)

    def reached(self, wanted: constraints.Constraints) -> Array:
        """Which nodes can use all volumes of a pod, shape (N,)."""
        return self._judge.reached(wanted.volumes)

    def refused(self, by: nodeset.NodeSet) -> Array:
        """Which nodes kube-scheduler refused, shape (N,)."""
        return by.mask() if by.rows is self.rows else by.among([node.name for node in self.nodes])

    def circles(self, request: view.Request) -> tuple[int, ...]:
        """Codes of the tenancies that a pod belongs to, one for each kind of tenancy."""
        label, namespace = self.policy.spec.tenancy_label, request.demand.namespace
        keys = (circles.by_namespace(namespace), circles.by_label(namespace, request.labels, label))
        return tuple(code for key in keys if (code := self._circles.get(key)) is not None)

    def _allocate(self, rows: int, columns: int) -> None:
        for field, kind in _OF_NODES.items():
            setattr(self, field, np.zeros(rows, dtype=kind))
        for field, kind in OF_GPUS.items():
            setattr(self, field, np.zeros((rows, columns), dtype=kind))
        self.space = self.space[:, :, None]

    def _insert(self, row: int, node: view.Node) -> None:
        self.nodes.insert(row, node)
        for field in FIELDS:
            setattr(self, field, np.insert(getattr(self, field), row, 0, axis=0))
        self._reindex()

    def _reindex(self) -> None:
        self.rows = {node.name: row for row, node in enumerate(self.nodes)}
        self._judge.clear()

    def _note_host(self, before: view.Host, now: view.Host) -> None:
        if before.labels is now.labels and before.taints is now.taints:
            return
        if before.labels != now.labels or before.taints != now.taints:
            self._judge.clear()

    def _replace(self, row: int, node: view.Node) -> None:
        """Another value of a node. A GPU that is the same object is not written again."""
        before, self.nodes[row] = self.nodes[row], node
        self._write(row, node, before.gpus)

    def _write(self, row: int, node: view.Node, before: Sequence[view.GPU] = ()) -> None:
        """Write a row, in which these GPUs stand so far."""
        gpus, host = node.gpus, node.host
        if len(gpus) > self.present.shape[1]:
            self._widen(len(gpus))
        self.stamp(row)
        self.node_closed[row] = causes.code(node.closed)
        self.schedulable[row] = host.schedulable
        self.free_share[row] = host.free_share
        self.free_cpu_millis[row] = host.free_cpu_millis
        self.free_memory_bytes[row] = host.free_memory_bytes
        self.free_pods[row] = host.free_pods
        self.cpu_millis[row], self.memory_bytes[row], self.pods[row] = host.cpu_millis, host.memory_bytes, host.pods
        if len(gpus) < len(before):
            if self.space[row, len(gpus) :].any():
                self.released = self.clock
            for field in OF_GPUS:
                getattr(self, field)[row, len(gpus) :] = 0
        for slot, (gpu, standing) in enumerate(itertools.zip_longest(gpus, before[: len(gpus)])):
            if gpu is not standing:
                self._write_gpu((row, slot), gpu)
        holding.keep(self, node.name, node.kept)

    def _write_gpu(self, cell: tuple[int, int], gpu: view.GPU) -> None:
        bookable, tenants = self.policy.bookable_mib(gpu), gpu.tenants
        self.present[cell] = True
        self.closed[cell] = causes.code(gpu.closed)
        self.model[cell] = self._model(gpu.model)
        self.free[cell] = HUNDREDTHS - gpu.share
        self.bookable_mib[cell] = bookable
        self.free_mib[cell] = bookable - gpu.booked_mib
        self.tenants[cell] = len(tenants)
        self.tenants_left[cell] = self.policy.packing(gpu.model).max_tenants_per_gpu - len(tenants)
        suspicion.write(self, cell, tenants)
        self.circle[cell] = self._circle_of(gpu)
        if spaces.write(self, cell, tenants):
            self.released = self.clock
        if holding.write(self, cell, gpu.hold):
            self.released = self.clock
        promised = [tenant for tenant in tenants if tenant.promised]
        self.promises[cell] = len(promised)
        self.promised[cell] = sum(tenant.share for tenant in promised)
        self.promised_mib[cell] = sum(tenant.memory_mib for tenant in promised)

    def _widen(self, columns: int) -> None:
        for field in OF_GPUS:
            found = getattr(self, field)
            wider = [(0, 0), (0, columns - found.shape[1]), *[(0, 0)] * (found.ndim - 2)]
            setattr(self, field, np.pad(found, wider))

    def _model(self, model: GPUModel) -> int:
        return self.models.setdefault(model, len(self.models))

    def _code(self, circle: Hashable | None) -> int:
        return ANYONE if circle is None else self._circles.setdefault(circle, len(self._circles) + 1)

    def _circle_of(self, gpu: view.GPU) -> int:
        if self.policy.packing(gpu.model).tenancy is packingpolicy.Tenancy.ANY:
            return ANYONE
        if not gpu.tenants:
            return EMPTY
        found = {circles.of(self.policy, gpu.model, tenant.namespace, tenant.labels) for tenant in gpu.tenants}
        return self._code(found.pop()) if len(found) == 1 else MIXED
