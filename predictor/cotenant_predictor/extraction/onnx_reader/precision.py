"""The types that a graph computes in, where the user asks for others than the file has.

Inference below fp32: the file's fp32 tensors are taken in the lower type throughout, weights included, as converters
write them. Training below fp32: mixed, as torch.autocast does it: products and convolutions in the lower type, sums and
exponentials in fp32, everything else in the type of what it reads; each weight is cast once a step.
"""

import dataclasses
from collections.abc import Sequence

from cotenant_predictor.extraction.onnx_reader import operators
from cotenant_predictor.extraction.onnx_reader.values import Occurrence, Value

LOWER = frozenset({"fp16", "bf16"})
_RAISED = operators.named(
    "LayerNormalization GroupNormalization RMSNormalization Softmax LogSoftmax Exp Log Reciprocal Softplus Pow CumSum "
    "ReduceSum ReduceProd ReduceL2 ReduceLogSumExp NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"
)


def converted(nodes: Sequence[Occurrence], lower: str) -> list[Occurrence]:
    """Every fp32 tensor in the lower type."""
    made: dict[int, Value] = {}

    def change(value: Value | None) -> Value | None:
        if value is None or value.dtype != "fp32":
            return value
        return made.setdefault(value.key, dataclasses.replace(value, dtype=lower))

    return [
        dataclasses.replace(node, inputs=tuple(map(change, node.inputs)), outputs=tuple(map(change, node.outputs)))
        for node in nodes
    ]


def mixed(nodes: Sequence[Occurrence], lower: str) -> list[Occurrence]:
    """Return the graph as autocast runs it, its casts among the nodes."""
    return _Autocast(lower).run(nodes)


class _Autocast:
    """Types by tensor, and the casts made so far."""

    def __init__(self, lower: str) -> None:
        self._lower = lower
        self._current: dict[int, Value] = {}
        self._casts: dict[tuple[int, str], Value] = {}
        self._nodes: list[Occurrence] = []

    def run(self, nodes: Sequence[Occurrence]) -> list[Occurrence]:
        for node in nodes:
            self._nodes.append(node if node.folded else self._changed(node))
        return self._nodes

    def _changed(self, node: Occurrence) -> Occurrence:
        cls = operators.class_of(node)
        inputs = tuple(None if value is None else self._current.get(value.key, value) for value in node.inputs)
        wanted = None
        if cls in operators.MATRIX:
            wanted = self._lower
        elif node.operator in _RAISED:
            wanted = "fp32"
        if wanted is not None:
            inputs = tuple(self._cast(value, wanted, node) for value in inputs)
        types = {value.dtype for value in inputs if value is not None and value.dtype in ("fp32", self._lower)}
        is_lower = types == {self._lower} or (cls == "norm" and self._lower in types and node.operator not in _RAISED)
        outputs = tuple(self._typed(value, self._lower if is_lower else "fp32") for value in node.outputs)
        return dataclasses.replace(node, inputs=inputs, outputs=outputs)

    def _typed(self, value: Value | None, dtype: str) -> Value | None:
        if value is None or value.dtype != "fp32" or dtype == "fp32":
            return value
        self._current[value.key] = dataclasses.replace(value, dtype=dtype)
        return self._current[value.key]

    def _cast(self, value: Value | None, dtype: str, node: Occurrence) -> Value | None:
        """Return the input in the type that the operator runs in; cast once."""
        if value is None or value.dtype == dtype or value.dtype not in ("fp32", self._lower):
            return value
        made = self._casts.get((value.key, dtype))
        if made is None:
            made = self._casts[value.key, dtype] = dataclasses.replace(value.cast(dtype), static=False)
            cast = dataclasses.replace(
                node, domain="", operator="Cast", inputs=(value,), outputs=(made,), attributes={}
            )
            self._nodes.append(cast)
        return made
