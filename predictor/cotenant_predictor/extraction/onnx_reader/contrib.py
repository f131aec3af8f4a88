"""Shapes of outputs that onnx's own inference leaves open: operators of ONNX Runtime, and a few old ones.

Only what follows from shapes alone; an operator that is not here must have its outputs' shapes in the file or declared.
"""

from cotenant_predictor.extraction.onnx_reader import operators, products
from cotenant_predictor.extraction.onnx_reader.values import Occurrence, Shape

STANDARD = {"FusedConv": "Conv", "FusedGemm": "Gemm", "Gelu": "Gelu", "Trilu": "Trilu"}
"""Operators of ONNX Runtime that have the shapes of one of ONNX's own."""

_LIKE_FIRST = operators.named(
    "Dropout BiasGelu FastGelu QuickGelu BiasAdd BiasDropout SkipLayerNormalization SimplifiedLayerNormalization "
    "SkipSimplifiedLayerNormalization GroupNorm SkipGroupNorm RotaryEmbedding QLinearSigmoid QLinearLeakyRelu "
    "QLinearSoftmax BiasSoftmax QuantizeLinear DequantizeLinear GroupQueryAttention"
)


def shapes(node: Occurrence) -> list[Shape]:
    """Shapes of the first outputs; empty where nothing is known."""
    if node.domain not in operators.DOMAINS or not node.read:
        return []
    first, second = node.shape(0), node.shape(1)
    found: list[Shape] = []
    if node.operator in _LIKE_FIRST:
        found = [first, first] if node.operator == "Dropout" else [first]
    elif node.operator in ("QLinearAdd", "QLinearMul"):
        found = [products.broadcast(first, node.shape(3))]
    elif node.operator == "MultiHeadAttention" and len(first) == 3:
        found = [(*first[:2], (node.shape(2) or first)[-1])]
    elif node.operator in ("Attention", "QAttention") and len(first) == 3 and len(second) == 2:
        found = [(*first[:2], second[1] // 3)]
    elif node.operator == "EmbedLayerNormalization" and len(first) == 2 and len(node.shape(2)) == 2:
        found = [(*first, node.shape(2)[1]), first[:1]]
    elif (product := products.result(node)) is not None:
        found = [product]
    return found
