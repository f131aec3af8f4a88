r"""How much of what has arrived any placement could allocate at most: a cutting-stock program, solved by HiGHS.

After an arrival n, let x(t, k) pods of kind k (milli, GPUs, CPU, memory, models) run on nodes of type t (model, GPUs,
CPU, memory), N(t) of which there are. Whoever placed them, and in whatever order:

    demand    sum over t of x(t, k)                        <= d(k), the pods of kind k that have arrived
    host      sum over k of x(t, k) CPU(k)                 <= N(t) CPU(t); memory likewise
    tenants   sum over k of x(t, k) GPUs(k)                <= N(t) GPUs(t) x the limit
    fitting   x(t, k) = 0 where one pod of kind k does not fit on an empty node of type t
    cutting   pods of a part of a GPU, sorted by size, lie in each GPU one after another: a path through the pieces
              0, 1, .. 100 hundredths. A(t, s, i) counts paths that put a pod of s hundredths at piece i:
              sum over i of A(t, s, i)                     =  sum over kinds k of that size of x(t, k)
              those that leave a piece                     <= those that come to it
              those that leave 0, and whole GPUs           <= N(t) GPUs(t)

Each is linear. So the mean of these counts over the arrivals of a column keeps them with the mean of d, and the value
of the column, a mean of  sum of x(t, k) milli(k) GPUs(k),  is at most their maximum: the bound. The paths are as tight
as all patterns of Gilmore and Gomory (Valerio de Carvalho, 1999). That pods are whole, that several GPUs are of one
node, that pods without GPU take CPU, and that nobody knows the future, is left out: it could only lower the bound.

Shares nothing with packing, whose dual prices come of a similar program: who is judged does not write the law. Pure.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from scipy import optimize, sparse

from cotenant_api import errors
from cotenant_simulator.openb import accounts, arrivals, trace

TOLERANCE_PERCENT: Final = 1e-4
"""Of the solver."""

_PIECES: Final = trace.WHOLE_MILLI // trace.MILLI_PER_HUNDREDTH

Bounds = Mapping[int, float | None]
"""In percent of the cluster, by column; None where nothing arrives in it."""


class Kind(NamedTuple):
    """What pods ask for alike."""

    pieces: int
    gpus: int
    cpu_millis: int
    memory_mib: int
    models: frozenset[str]


class _Type(NamedTuple):
    """What nodes have alike."""

    gpus: int
    cpu_millis: int
    memory_mib: int
    model: str


def of(read: trace.Trace, *, seed: int, max_tenants: int) -> Bounds:
    """Return the bounds of the columns `accounts.SHOWN`, for a seed's arrivals."""
    order = arrivals.order(read, seed=seed)
    return {column: percent(read, order, column, max_tenants=max_tenants) for column in accounts.SHOWN}


def require(name: str, allocated: accounts.Curve, bounds: Bounds) -> None:
    """Nothing, if a run allocated no more than can be.

    Raises:
        PermanentError: it did; one of the two is wrong.
    """
    for column, bound in bounds.items():
        found = allocated[column]
        if found is not None and bound is not None and found > bound + TOLERANCE_PERCENT:
            raise errors.PermanentError(
                f"{name}: column {column} is {found:.4f}, but no placement can allocate more than {bound:.4f}: "
                "the replay or the bound is wrong"
            )


def percent(read: trace.Trace, order: arrivals.Order, column: int, *, max_tenants: int) -> float | None:
    """Return the bound of a column, in percent of the cluster; None where nothing arrives in it."""
    wanted = _mean_demand(read, order, column)
    return None if wanted is None else maximum(read, wanted, max_tenants=max_tenants)


def demand(pods: Iterable[trace.Pod]) -> Mapping[Kind, float]:
    """Pods of each kind; those without GPU are of none."""
    return Counter(_kind(pod) for pod in pods if pod.gpus)


def maximum(read: trace.Trace, wanted: Mapping[Kind, float], *, max_tenants: int) -> float:
    """Return the most of a demand that can be allocated, in percent of the cluster."""
    types = Counter(_Type(node.gpus, node.cpu_millis, node.memory_mib, node.model) for node in read.nodes)
    program = _Program(wanted)
    for each, count in types.items():
        program.add(each, count, max_tenants=max_tenants)
    return 100 * program.solved() * trace.MILLI_PER_HUNDREDTH / read.capacity_milli


def _mean_demand(read: trace.Trace, order: arrivals.Order, column: int) -> Mapping[Kind, float] | None:
    """Pods of each kind that have arrived, on average over the column's arrivals; None where there are none."""
    places = []
    arrived = 0
    for pod in order.pods:
        arrived += pod.demand_milli
        places.append(accounts.column(arrived, read.capacity_milli))
    first, end = bisect_left(places, column), bisect_right(places, column)
    if first == end:
        return None
    mean: dict[Kind, float] = dict(demand(order.pods[:first]))
    for number, pod in enumerate(order.pods[first:end]):
        if pod.gpus:
            # Who comes as the last is there for one of the column's arrivals.
            mean[_kind(pod)] = mean.get(_kind(pod), 0.0) + 1 - number / (end - first)
    return mean


def _kind(pod: trace.Pod) -> Kind:
    return Kind(pod.milli // trace.MILLI_PER_HUNDREDTH, pod.gpus, pod.cpu_millis, pod.memory_mib, pod.models)


class _Rows:
    """Linear rows, sparse."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self.limits: list[float] = []

    def add(self, terms: Iterable[tuple[int, float]], limit: float) -> None:
        for column, value in terms:
            self._rows.append(len(self.limits))
            self._columns.append(column)
            self._values.append(value)
        self.limits.append(limit)

    def matrix(self, width: int) -> sparse.csr_matrix:
        shape = (len(self.limits), width)
        return sparse.csr_matrix((self._values, (self._rows, self._columns)), shape=shape)


class _Program:
    """The program of the module's docstring; lengths in hundredths of a GPU."""

    def __init__(self, demand: Mapping[Kind, float]) -> None:
        self._kinds = tuple(demand)
        self._demand = tuple(demand.values())
        self._gains: list[float] = []
        self._at_most, self._exactly = _Rows(), _Rows()
        self._served: dict[Kind, list[int]] = {kind: [] for kind in self._kinds}

    def add(self, nodes: _Type, count: int, *, max_tenants: int) -> None:
        """As many nodes of a type."""
        pods = {kind: self._variable(kind.pieces * kind.gpus) for kind in self._kinds if _fits(kind, nodes)}
        for kind, variable in pods.items():
            self._served[kind].append(variable)
        if nodes.cpu_millis:
            used = ((variable, kind.cpu_millis / nodes.cpu_millis) for kind, variable in pods.items())
            self._at_most.add(used, count)
        if nodes.memory_mib:
            used = ((variable, kind.memory_mib / nodes.memory_mib) for kind, variable in pods.items())
            self._at_most.add(used, count)
        tenants = ((variable, float(kind.gpus)) for kind, variable in pods.items())
        self._at_most.add(tenants, count * nodes.gpus * max_tenants)
        self._cut(pods, count * nodes.gpus)

    def solved(self) -> float:
        """Return the most that is served.

        Raises:
            PermanentError: there is no answer.
        """
        for kind, demand in zip(self._kinds, self._demand, strict=True):
            self._at_most.add(((variable, 1.0) for variable in self._served[kind]), demand)
        width = len(self._gains)
        if not width:
            return 0.0
        found = optimize.linprog(
            [-gain for gain in self._gains],
            A_ub=self._at_most.matrix(width),
            b_ub=self._at_most.limits,
            A_eq=self._exactly.matrix(width),
            b_eq=self._exactly.limits,
            method="highs-ipm",  # several times as fast here as the simplex method, to the same vertex
        )
        if not found.success:
            raise errors.PermanentError(f"the bound's program has no answer: HiGHS: {found.message}")
        return -float(found.fun)

    def _variable(self, gain: float) -> int:
        self._gains.append(gain)
        return len(self._gains) - 1

    def _cut(self, pods: Mapping[Kind, int], gpus: int) -> None:
        """Parts of GPUs as paths, and whole GPUs."""
        sizes = sorted({kind.pieces for kind in pods if _is_part(kind)}, reverse=True)
        arcs = {arc: self._variable(0.0) for arc in _arcs(sizes)}
        for size in sizes:
            wanted = ((variable, -1.0) for kind, variable in pods.items() if _is_part(kind) and kind.pieces == size)
            self._exactly.add([*wanted, *((arcs[arc], 1.0) for arc in arcs if arc[0] == size)], 0)
        for piece in sorted({start for _, start in arcs if start}):
            leaving = ((variable, 1.0) for (_, start), variable in arcs.items() if start == piece)
            coming = ((variable, -1.0) for (size, start), variable in arcs.items() if start + size == piece)
            self._at_most.add([*leaving, *coming], 0)
        whole = ((variable, float(kind.gpus)) for kind, variable in pods.items() if not _is_part(kind))
        first = ((variable, 1.0) for (_, start), variable in arcs.items() if not start)
        self._at_most.add([*whole, *first], gpus)


def _fits(kind: Kind, nodes: _Type) -> bool:
    """On an empty node."""
    there = kind.gpus <= nodes.gpus and kind.cpu_millis <= nodes.cpu_millis and kind.memory_mib <= nodes.memory_mib
    return there and (not kind.models or nodes.model in kind.models)


def _is_part(kind: Kind) -> bool:
    return kind.pieces < _PIECES


def _arcs(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Sizes, falling, and the pieces at which a path may put them: those that larger ones and equal ones reach."""
    reached = {0}
    for size in sizes:
        for piece in range(_PIECES - size + 1):
            if piece in reached:
                reached.add(piece + size)
                yield size, piece
