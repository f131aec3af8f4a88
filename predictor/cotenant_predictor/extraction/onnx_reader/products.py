"""FLOPs and dimensions of ONNX's convolutions, products, attention and recurrent layers. Works on shapes alone.

One multiply-add is 2 FLOPs. The keys of `dims` are those of the PyTorch extractor: b c k h w d r s t groups of a
convolution (c, k: fewer and more channels' side, as data and weight have them), b m n k of a product,
b heads q k d of attention, b t i h of a recurrent layer.
"""

import dataclasses
import math
from collections.abc import Sequence

from cotenant_predictor.extraction.onnx_reader.values import Occurrence, Shape

Dims = dict[str, int]
_PRODUCTS = frozenset(
    {"FusedMatMul", "QGemm", "MatMulNBits", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "GemmFastGelu"}
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """One matrix operation of an occurrence; an occurrence may have several."""

    cls: str
    flops: int
    dims: Dims
    kernels: int = 1


def of(node: Occurrence, cls: str) -> list[Product]:
    """Return what a node of a matrix class multiplies; empty where its shapes fit no formula."""
    if cls == "rnn":
        return _recurrent(node)
    if cls == "attention":
        return _attention(node)
    if cls == "conv":
        return _convolution(node)
    if node.operator == "Einsum":
        return _einsum(node)
    return [product(*operands)] if (operands := _operands(node)) else []


def product(first: Shape, second: Shape) -> Product:
    """Return a product as numpy's matmul makes it.

    A matrix on the right side meets all rows of the left one at once.
    """
    k = first[-1]
    n = second[-1] if len(second) > 1 else 1
    rows = first[:-1]
    batch = math.prod(second[:-2])
    if len(second) <= 2 or batch == 1:
        b, m = 1, math.prod(rows)
    else:
        m = rows[-1] if rows else 1
        b = math.prod(broadcast(rows[:-1], second[:-2]))
    return Product(cls="matmul", flops=2 * b * m * n * k, dims={"b": b, "m": m, "n": n, "k": k})


def broadcast(first: Shape, second: Shape) -> Shape:
    """Return the shape that both have together; where they do not fit, the second one's size."""
    size = max(len(first), len(second))
    aligned = [(1,) * (size - len(shape)) + shape for shape in (first, second)]
    return tuple(b if a == 1 else a for a, b in zip(*aligned, strict=True))


def contraction(equation: str, shapes: Sequence[Shape]) -> list[Product]:
    """Return an einsum, its operands taken from left to right; empty where the equation does not fit the shapes."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = [_labels(term, shape) for term, shape in zip(left.split(","), shapes, strict=False)]
    if len(terms) != len(shapes) or any(len(t) != len(s) for t, s in zip(terms, shapes, strict=True)):
        return []
    sizes = {
        label: size for term, shape in zip(terms, shapes, strict=True) for label, size in zip(term, shape, strict=True)
    }
    everything = [label for term in terms for label in term]
    kept = [label for label in sizes if everything.count(label) == 1 or not label.isalpha()]
    result = [*_outer(terms), *output.replace("...", "")] if arrow else kept
    found, current = [], terms[0] if terms else []
    for index, term in enumerate(terms[1:], start=1):
        later = {label for other in terms[index + 1 :] for label in other} | set(result)
        shared = set(current) & set(term)
        contracted, batch = shared - later, shared & later
        b, k = (math.prod(sizes[label] for label in group) for group in (batch, contracted))
        m = math.prod(sizes[label] for label in set(current) - shared)
        n = math.prod(sizes[label] for label in set(term) - shared)
        if contracted:
            found.append(Product(cls="matmul", flops=2 * b * m * n * k, dims={"b": b, "m": m, "n": n, "k": k}))
        current = [label for label in dict.fromkeys([*current, *term]) if label in later]
    return found


def _labels(term: str, shape: Shape) -> list[str]:
    """One label per axis; those behind an ellipsis are numbers, counted from the last."""
    before, dots, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after) if dots else 0
    return [*before, *(str(hidden - 1 - axis) for axis in range(hidden)), *after]


def _outer(terms: list[list[str]]) -> list[str]:
    return [label for label in dict.fromkeys(x for term in terms for x in term) if label.isdigit()]


def _operands(node: Occurrence) -> tuple[Shape, Shape] | None:
    """Return the shapes of both sides of a product, transposed as the node says."""
    at = (0, 3) if node.operator in ("QLinearMatMul", "QGemm") else (0, 1)
    first, second = (node.shape(index) for index in at)
    if node.operator == "MatMulNBits":
        second = (node.whole("K", 0), node.whole("N", 0))
    if not first or not second:
        return None
    if node.operator in ("Gemm", "FusedMatMul", "QGemm", "GemmFloat8"):
        first = _turned(first, node.whole("transA", 0))
        second = _turned(second, node.whole("transB", 0))
    return first, second


def result(node: Occurrence) -> Shape | None:
    """Return the shape of a product as numpy's matmul makes it; None for any other operator."""
    if node.operator not in _PRODUCTS:
        return None
    operands = _operands(node)
    if operands is None or min(map(len, operands)) < 2:
        return None
    first, second = operands
    return (*broadcast(first[:-2], second[:-2]), first[-2], second[-1])


def _turned(shape: Shape, turn: int) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if turn and len(shape) > 1 else shape


def _convolution(node: Occurrence) -> list[Product]:
    data, weight = node.shape(0), node.shape(3 if node.operator == "QLinearConv" else 1)
    result = node.written[0].dims if node.written else ()
    if min(len(data), len(weight), len(result)) < 3:
        return []
    small, large = (result, data) if node.operator == "ConvTranspose" else (data, result)
    dims = {"b": data[0], "c": small[1], "k": large[1]}
    dims.update({"hwd"[axis]: size for axis, size in enumerate(large[2:5])})
    dims.update({"rst"[axis]: size for axis, size in enumerate(weight[2:5])})
    dims["groups"] = node.whole("group", 1)
    flops = 2 * math.prod(large) * math.prod(weight[1:])
    bias = {"QLinearConv": 8, "DeformConv": 3}.get(node.operator, 2)
    has_bias = node.input(bias) is not None and node.operator != "ConvInteger"
    return [Product(cls="conv", flops=flops, dims=dims, kernels=2 if has_bias else 1)]


def _einsum(node: Occurrence) -> list[Product]:
    return contraction(node.text("equation"), [value.dims for value in node.read])


def _recurrent(node: Occurrence) -> list[Product]:
    """One per direction, as cuDNN's fused kernels: each time step launches one, beside the products all steps share."""
    data, weight, recurrent = node.shape(0), node.shape(1), node.shape(2)
    if (len(data), len(weight), len(recurrent)) != (3, 3, 3) or weight[0] > 2:
        return []
    steps, batch = (data[1], data[0]) if node.whole("layout", 0) else (data[0], data[1])
    if node.operator == "DynamicQuantizeLSTM":  # its weights lie transposed
        weight, recurrent = _turned(weight, turn=1), _turned(recurrent, turn=1)
    elements = math.prod(weight[1:]) + math.prod(recurrent[1:])
    dims = {"b": batch, "t": steps, "i": weight[2], "h": recurrent[2]}
    one = Product(cls="rnn", flops=2 * steps * batch * elements, dims=dims, kernels=steps + 2)
    return [one] * weight[0]


def _attention(node: Occurrence) -> list[Product]:
    """Attention that never writes the scores; com.microsoft::Attention multiplies by its weights before."""
    if node.operator in ("Attention", "QAttention") and node.domain:
        data, weight = node.shape(0), node.shape(1)
        heads = node.whole("num_heads", 1)
        if (len(data), len(weight)) != (3, 2) or heads < 1:
            return []
        width = weight[1] // 3
        past = node.shape(4 if node.operator == "Attention" else 8)
        keys = data[1] + (past[-2] if len(past) == 5 else 0)
        return [product(data, weight), _fused((data[0], heads, data[1], keys, width // heads))]
    heads = node.whole("q_num_heads", node.whole("num_heads", 1))
    query, key, value = (node.shape(index) for index in range(3))
    past = node.shape(4 if not node.domain else 6 if node.operator == "MultiHeadAttention" else 3)
    before = past[-2] if len(past) == 4 else 0
    if len(query) == 4 and len(key) == 4:
        return [_fused((query[0], query[1], query[2], key[2] + before, query[3]))]
    if len(query) != 3 or heads < 1:
        return []
    rows = key[-2] if len(key) >= 3 else query[1]
    width = query[2] // heads
    if not key and not value and node.operator == "GroupQueryAttention":  # query, key and value packed side by side
        width = query[2] // (heads + 2 * node.whole("kv_num_heads", heads))
    return [_fused((query[0], heads, query[1], rows + before, width))]


def _fused(sizes: tuple[int, int, int, int, int]) -> Product:
    dims = dict(zip(("b", "heads", "q", "k", "d"), sizes, strict=True))
    return Product(cls="attention", flops=2 * 2 * math.prod(sizes), dims=dims)
