"""Which of many nodes a pod's constraints allow, by columns of labels: an expression is judged for all nodes at once.

An expression that `constraints` knows is asked of each value that some node has, not of each node.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cotenant_extender.packing import constraints, view

Array: TypeAlias = NDArray[Any]

_MEMO_LIMIT: Final = 256
_NAME: Final = "metadata.name"


class _Column(NamedTuple):
    """One label of all nodes.

    Attributes:
        codes: of its values, shape (N,); the last of `values`, which is None, where a node lacks it.
        values: each that some node has, then None.
        known: the code of each value.
    """

    codes: Array
    values: Sequence[str | None]
    known: Mapping[str, int]


class Judge:
    """Verdicts on the nodes of one fleet, remembered until `clear`.

    Args:
        nodes: in the order of the fleet's rows; they may be others after `clear`.
    """

    def __init__(self, nodes: Sequence[view.Node]) -> None:
        self._nodes = nodes
        self._verdicts: dict[Hashable, Array] = {}
        self._columns: dict[str, _Column] = {}
        self._keys: frozenset[str] | None = None
        self._tainted: list[tuple[tuple[constraints.Taint, ...], Array]] | None = None

    def clear(self) -> None:
        """Forget all, as labels or taints of nodes have changed, or there are others."""
        self._verdicts.clear()
        self._columns.clear()
        self._keys = self._tainted = None

    def allowed(self, wanted: constraints.Constraints) -> Array:
        """Return which nodes a pod's spec allows, shape (N,)."""
        return self._remembered(wanted.of_spec, lambda: self._selected(wanted) & self._tolerated(wanted.tolerations))

    def reached(self, volumes: tuple[tuple[constraints.Term, ...], ...]) -> Array:
        """Return which nodes can use one alternative of each of these volumes, shape (N,)."""
        return self._remembered(volumes, lambda: self._all([self._any_term(terms) for terms in volumes]))

    def _remembered(self, key: Hashable, judged: Callable[[], Array]) -> Array:
        found = self._verdicts.get(key)
        if found is None:
            found = judged()
            if len(self._verdicts) >= _MEMO_LIMIT:
                self._verdicts.clear()
            self._verdicts[key] = found
        return found

    def _selected(self, wanted: constraints.Constraints) -> Array:
        found = self._all([self._has(self._column(key), (value,)) for key, value in wanted.selector])
        return found if wanted.terms is None else found & self._any_term(wanted.terms)

    def _any_term(self, terms: tuple[constraints.Term, ...]) -> Array:
        found = np.zeros(len(self._nodes), dtype=np.bool_)
        for term in terms:
            if term.expressions or term.fields:
                found |= self._all([*map(self._matching, term.expressions), *map(self._field, term.fields)])
        return found

    def _field(self, expression: constraints.Expression) -> Array:
        """Return which nodes meet a requirement on a field; the only one that there is is the name."""
        if expression.key != _NAME:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        return self._matches(expression, _column([node.name for node in self._nodes]))

    def _matching(self, expression: constraints.Expression) -> Array:
        return self._matches(expression, self._column(expression.key))

    def _matches(self, expression: constraints.Expression, column: _Column) -> Array:
        match expression.operator:
            case "In":
                return self._has(column, expression.values)
            case "NotIn":
                return ~self._has(column, expression.values)
        labels = ({} if value is None else {expression.key: value} for value in column.values)
        verdicts = np.fromiter(map(expression.matches, labels), dtype=np.bool_, count=len(column.values))
        return verdicts[column.codes]

    def _has(self, column: _Column, values: Sequence[str]) -> Array:
        """Return which nodes have one of these values."""
        verdicts = np.zeros(len(column.values), dtype=np.bool_)
        verdicts[[column.known[value] for value in values if value in column.known]] = True
        return verdicts[column.codes]

    def _tolerated(self, tolerations: tuple[constraints.Toleration, ...]) -> Array:
        if self._tainted is None:
            self._tainted = _tainted(self._nodes)
        found = np.ones(len(self._nodes), dtype=np.bool_)
        for taints, rows in self._tainted:
            if not all(any(one.tolerates(taint) for one in tolerations) for taint in taints):
                found[rows] = False
        return found

    def _column(self, key: str) -> _Column:
        found = self._columns.get(key)
        if found is None:
            if self._keys is None:
                self._keys = frozenset().union(*(node.host.labels for node in self._nodes))
            if key not in self._keys:
                return _Column(np.zeros(len(self._nodes), dtype=np.intp), (None,), {})
            found = self._columns[key] = _column([node.host.labels.get(key) for node in self._nodes])
        return found

    def _all(self, found: Sequence[Array]) -> Array:
        """Return where all of these hold; everywhere where there are none."""
        everywhere = np.ones(len(self._nodes), dtype=np.bool_)
        for one in found:
            everywhere &= one
        return everywhere


def _column(values: Sequence[str | None]) -> _Column:
    known = {value: code for code, value in enumerate(dict.fromkeys(value for value in values if value is not None))}
    codes = np.fromiter((len(known) if one is None else known[one] for one in values), dtype=np.intp, count=len(values))
    return _Column(codes, [*known, None], known)


def _tainted(nodes: Sequence[view.Node]) -> list[tuple[tuple[constraints.Taint, ...], Array]]:
    """Return the taints that keep pods away, each set once, with the rows of the nodes that have it."""
    rows: dict[tuple[constraints.Taint, ...], list[int]] = {}
    for row, node in enumerate(nodes):
        if node.host.taints:
            blocking = tuple(taint for taint in node.host.taints if taint.effect in constraints.BLOCKING_EFFECTS)
            rows.setdefault(blocking, []).append(row)
    return [(taints, np.array(found, dtype=np.intp)) for taints, found in rows.items() if taints]
