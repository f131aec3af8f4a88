"""Products between DequantizeLinear and QuantizeLinear, which is how files write int8 products, as int8 products.

Every runtime that takes such a file computes so: the product reads and writes quantized tensors, and what was around it
does not run. Other operators between the two stay as they are written.
"""

import collections
import dataclasses
from collections.abc import Sequence

from cotenant_predictor.extraction.onnx_reader import operators
from cotenant_predictor.extraction.onnx_reader.values import QUANTIZED, Occurrence, Value

_PRODUCTS = operators.named("Conv ConvTranspose MatMul Gemm")


def absorbed(nodes: Sequence[Occurrence]) -> list[Occurrence]:
    """Return the nodes, with the quantization around products taken into them."""
    made = {value.key: node for node in nodes for value in node.written}
    readers: collections.Counter[int] = collections.Counter(value.key for node in nodes for value in node.read)
    quantizers = {node.read[0].key: node for node in nodes if node.operator == "QuantizeLinear" and node.read}
    changed: dict[int, Occurrence] = {}
    left: collections.Counter[int] = collections.Counter(readers)
    for index, node in enumerate(nodes):
        sources = [_source(value, made) for value in node.inputs[:2]]
        first, second = (*sources, None, None)[:2]
        if node.domain or node.operator not in _PRODUCTS or first is None or second is None:
            continue
        left.subtract(value.key for value in node.read)
        rest = tuple(_source(value, made) or value for value in node.inputs[2:])
        after = quantizers.get(node.written[0].key) if readers[node.written[0].key] == 1 else None
        outputs = node.outputs if after is None else after.outputs
        changed[index] = dataclasses.replace(node, inputs=(first, second, *rest), outputs=outputs)
        if after is not None:
            left[node.written[0].key] -= 1
    return [
        changed[index]
        if index in changed
        else dataclasses.replace(node, folded=node.folded or _is_idle(node, left, readers))
        for index, node in enumerate(nodes)
    ]


def _source(value: Value | None, made: dict[int, Occurrence]) -> Value | None:
    """Return the quantized tensor behind a dequantized one."""
    node = None if value is None else made.get(value.key)
    if node is None or node.domain or node.operator != "DequantizeLinear":
        return None
    source = node.input(0)
    return source if source is not None and source.dtype in (*QUANTIZED, "int32") else None


def _is_idle(node: Occurrence, left: collections.Counter[int], readers: collections.Counter[int]) -> bool:
    """Return whether products took in everything that the node was there for."""
    if node.domain or not node.read or not node.written:
        return False
    if node.operator == "QuantizeLinear":
        return readers[node.read[0].key] > 0 and left[node.read[0].key] <= 0
    return node.operator == "DequantizeLinear" and readers[node.written[0].key] > 0 and left[node.written[0].key] <= 0
