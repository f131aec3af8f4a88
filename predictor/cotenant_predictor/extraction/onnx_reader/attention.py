"""Attention that a file has in its parts, as one operator: the scores are never written.

What counts as attention: a product of queries and keys, a softmax along the last axis, a product with values, and
between them only scaling, masking, dropout and casts that nothing else reads. That is how exporters write it, and what
frameworks run as one kernel; runtimes that do not recognise it write the scores several times more.
"""

import collections
import dataclasses
import math
from collections.abc import Sequence

from cotenant_predictor.extraction.onnx_reader import operators
from cotenant_predictor.extraction.onnx_reader.values import Occurrence, Value

_BEFORE = operators.named("Add Sub Mul Div Where Cast Identity Clip Tanh")
_AFTER = operators.named("Where IsNaN Dropout Cast Identity Mul")
_LONGEST = 16
"""Nodes on either side of the softmax; exporters write at most four."""


def joined(nodes: Sequence[Occurrence]) -> list[Occurrence]:
    """Return the nodes, each attention made one in the place of its last product."""
    return _Search(nodes).run()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Parts:
    """One attention: positions of its nodes, the first and the last of them products."""

    positions: frozenset[int]
    first: int
    last: int


class _Search:
    """Who writes and who reads each tensor. What a runtime does beforehand reads nothing in a step."""

    def __init__(self, nodes: Sequence[Occurrence]) -> None:
        self._nodes = nodes
        self._writer: dict[int, int] = {}
        self._readers: dict[int, list[int]] = collections.defaultdict(list)
        for index, node in enumerate(nodes):
            if not node.folded:
                self._writer.update({value.key: index for value in node.written})
                for value in node.read:
                    self._readers[value.key].append(index)

    def run(self) -> list[Occurrence]:
        gone: set[int] = set()
        made: dict[int, Occurrence] = {}
        for index, node in enumerate(self._nodes):
            parts = self._parts(index) if node.operator == "Softmax" and not node.folded and not node.domain else None
            if parts is None or parts.positions & gone:
                continue
            gone |= parts.positions
            made[parts.last] = self._attention(parts)
        kept = enumerate(self._nodes)
        return [made.get(index, node) for index, node in kept if index in made or index not in gone]

    def _parts(self, softmax: int) -> _Parts | None:
        node = self._nodes[softmax]
        scores = node.input(0)
        if scores is None or not node.written or node.whole("axis", -1) not in (-1, len(scores.dims) - 1):
            return None
        before = self._upward(scores)
        after = self._downward(softmax)
        if before is None or after is None or before[-1] == after[-1]:
            return None
        positions = frozenset({*before, softmax, *after})
        same = {self._nodes[index].repeat for index in positions}
        return _Parts(positions=positions, first=before[-1], last=after[-1]) if len(same) == 1 else None

    def _upward(self, scores: Value) -> list[int] | None:
        """From the softmax's input up to the product that makes the scores."""
        path: list[int] = []
        current: Value | None = scores
        while current is not None and len(path) < _LONGEST and len(self._readers[current.key]) == 1:
            index = self._writer.get(current.key)
            if index is None or self._nodes[index].domain:
                return None
            node = self._nodes[index]
            path.append(index)
            if node.operator == "MatMul":
                return path if _is_batched(node) else None
            alike = [value for value in node.read if value.key in self._writer and value.dims == scores.dims]
            current = alike[0] if node.operator in _BEFORE and alike else None
        return None

    def _downward(self, softmax: int) -> list[int] | None:
        """From the softmax down to the product with the values, which is the last."""
        inside: list[int] = []
        queue, last = [softmax], None
        while queue and len(inside) <= _LONGEST:
            for value in self._nodes[queue.pop()].written:
                for reader in self._readers[value.key]:
                    node = self._nodes[reader]
                    if node.operator == "MatMul" and _is_batched(node) and node.read[0].key == value.key:
                        if last not in (None, reader):
                            return None
                        last = reader
                    elif node.operator not in _AFTER or node.domain:
                        return None
                    elif reader not in inside:
                        inside.append(reader)
                        queue.append(reader)
        return None if last is None or queue else [*inside, last]

    def _attention(self, parts: _Parts) -> Occurrence:
        first, last = self._nodes[parts.first], self._nodes[parts.last]
        query, key, value = first.read[0], first.read[1], last.read[1]
        inside = {value.key for index in parts.positions for value in self._nodes[index].written}
        given = [value for index in sorted(parts.positions) for value in self._nodes[index].read]
        seen = {query.key, key.key, value.key}
        masks = {mask.key: mask for mask in given if mask.key not in inside | seen and not mask.static}
        turned = dataclasses.replace(key, shape=(*key.dims[:-2], key.dims[-1], key.dims[-2]))
        mask, *others = [*masks.values(), None]
        inputs = (*(_by_heads(each) for each in (query, turned, value)), mask, None, None, *others)
        return dataclasses.replace(last, operator="Attention", opset=23, attributes={}, inputs=inputs)


def _is_batched(node: Occurrence) -> bool:
    """Return whether a product is one of many of both sides, not of rows and one matrix."""
    return not node.domain and len(node.read) == 2 and min(len(value.dims) for value in node.read) > 2


def _by_heads(value: Value) -> Value:
    """Return the same tensor as (batch, heads, rows, width)."""
    leading = value.dims[:-2]
    return dataclasses.replace(value, shape=(leading[0], math.prod(leading[1:]), *value.dims[-2:]))
