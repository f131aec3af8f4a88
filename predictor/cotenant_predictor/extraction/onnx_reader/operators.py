"""What is known of ONNX operators: class, FLOPs, bytes, kernels, and which inputs are weights. Works on shapes alone.

The graph is taken as written: no Conv-BatchNormalization-Relu is fused.
An operator that fits no class is unknown: the caller counts and names it.
"""

from typing import Any

import onnx

from cotenant_predictor.extraction.onnx_reader import products
from cotenant_predictor.extraction.onnx_reader.values import FLOATS, QUANTIZED, Occurrence, Origin, Value

Row = dict[str, Any]


def named(text: str) -> frozenset[str]:
    """Return the operators in a list of their names."""
    return frozenset(text.split())


_CLASSES = {
    "conv": "Conv ConvTranspose ConvInteger QLinearConv DeformConv FusedConv NhwcConv",
    "matmul": "MatMul Gemm MatMulInteger QLinearMatMul Einsum FusedMatMul QGemm MatMulNBits MatMulIntegerToFloat "
    "DynamicQuantizeMatMul GemmFloat8 FusedGemm GemmFastGelu",
    "attention": "Attention MultiHeadAttention GroupQueryAttention QAttention DecoderMaskedMultiHeadAttention",
    "rnn": "LSTM GRU RNN DynamicQuantizeLSTM",
    "norm": "BatchNormalization InstanceNormalization LayerNormalization GroupNormalization RMSNormalization "
    "SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization SkipGroupNorm GroupNorm "
    "LpNormalization MeanVarianceNormalization LRN",
    "embedding": "EmbedLayerNormalization",
    "pool": "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool MaxRoiPool RoiAlign MaxUnpool "
    "Resize Upsample GridSample QLinearAveragePool QLinearGlobalAveragePool NhwcMaxPool",
    "reduction": "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare Softmax LogSoftmax Hardmax ArgMax ArgMin CumSum CumProd TopK Unique "
    "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss QLinearSoftmax BiasSoftmax DynamicQuantizeLinear",
    "elementwise": "Abs Acos Acosh Add And Asin Asinh Atan Atanh Bernoulli BitShift BitwiseAnd BitwiseNot BitwiseOr "
    "BitwiseXor Ceil Celu Clip Cos Cosh DequantizeLinear Div Dropout Elu Equal Erf Exp Floor Gelu Greater "
    "GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not "
    "Or PRelu Pow QuantizeLinear RandomNormal RandomNormalLike RandomUniform RandomUniformLike Reciprocal Relu "
    "RotaryEmbedding Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh "
    "ThresholdedRelu Trilu Where Xor AffineGrid BiasGelu FastGelu QuickGelu BiasAdd BiasSplitGelu QLinearAdd "
    "QLinearMul QLinearSigmoid QLinearLeakyRelu Multinomial BlackmanWindow HammingWindow HannWindow",
    "copy": "Cast CastLike CenterCropPad Concat ConstantOfShape DepthToSpace Expand EyeLike Pad Range ReverseSequence "
    "Slice SpaceToDepth Split SplitToSequence ConcatFromSequence Tile Transpose Col2Im QLinearConcat TensorScatter",
    "sparse": "Gather GatherElements GatherND Compress NonMaxSuppression NonZero OneHot Scatter ScatterElements "
    "ScatterND",
}
_CLASS_OF = {operator: cls for cls, names in _CLASSES.items() for operator in names.split()}
_VIEWS = named(
    "Loop Scan Reshape Flatten Squeeze Unsqueeze Identity Shape Size Constant BitCast OptionalGetElement Optional "
    "OptionalHasElement SequenceConstruct SequenceAt SequenceLength SequenceEmpty SequenceInsert SequenceErase"
)
_SEQUENCES = named("SequenceConstruct SequenceEmpty SequenceInsert SequenceErase SplitToSequence SequenceMap Optional")
DOMAINS = frozenset({"", "ai.onnx.ml", "com.microsoft", "com.ms.internal.nhwc"})
"""Whose operators are known by their names."""

MATRIX = frozenset({"conv", "matmul", "attention", "rnn"})
_KERNELS = {"GroupNormalization": 3, "TopK": 2, "NonZero": 3, "Unique": 4, "DynamicQuantizeLinear": 3}
_FLOPS_PER_ELEMENT = {"elementwise": 1, "norm": 6, "reduction": 2, "pool": 1}
_QUANTIZED_PRODUCTS = named(
    "ConvInteger QLinearConv MatMulInteger QLinearMatMul QGemm QAttention DynamicQuantizeLSTM MatMulIntegerToFloat "
    "DynamicQuantizeMatMul"
)

# Positions of inputs that are settings or statistics, not weights that are learned.
_SETTINGS = {
    "BatchNormalization": {3, 4},
    "Resize": {1, 2},
    "Upsample": {1},
    "Pad": {2},
    "Clip": {1, 2},
    "QuantizeLinear": {1, 2},
    "DequantizeLinear": {1, 2},
    "QLinearConv": {1, 2, 4, 5, 6, 7},
    "QLinearMatMul": {1, 2, 4, 5, 6, 7},
    "QLinearAdd": {1, 2, 4, 5, 6, 7},
    "MatMulInteger": {2, 3},
    "ConvInteger": {2, 3},
    "LSTM": {4, 5, 6},
    "GRU": {4, 5},
    "RNN": {4, 5},
    "Range": {0, 1, 2},
    "OneHot": {1, 2},
    "Dropout": {1, 2},
    "Pow": {1},
}
_WEIGHTS = {
    "BatchNormalization": {1, 2},
    "LayerNormalization": {1, 2},
    "InstanceNormalization": {1, 2},
    "Gather": {0},
    "PRelu": {1},
    "Conv": {1, 2},
    "ConvTranspose": {1, 2},
    "Gemm": {1, 2},
    "MatMul": {1},
    "LSTM": {1, 2, 3, 7},
    "GRU": {1, 2, 3},
    "RNN": {1, 2, 3},
}
"""Positions in which also a constant is a weight: files have them as nodes, too."""


def class_of(node: Occurrence) -> str | None:
    """Return the class; None where nothing is known. Looking rows up in a table of weights is an embedding."""
    if node.domain not in DOMAINS:
        return None
    if node.operator in _VIEWS:
        return "copy"
    cls = _CLASS_OF.get(node.operator)
    if node.operator == "Einsum" and not products.of(node, "matmul"):
        return "elementwise"
    if node.operator == "Gather" and _is_table(node):
        return "embedding"
    return cls


def is_sequence(node: Occurrence, kind: onnx.TypeProto | None) -> bool:
    """Return whether what the node writes is no tensor but holds some: it has no shape."""
    if kind is None or not kind.WhichOneof("value"):
        return not node.domain and node.operator in _SEQUENCES
    return str(kind.WhichOneof("value")) != "tensor_type"


def launches_nothing(node: Occurrence, *, training: bool) -> bool:
    """Return whether a runtime only renames: reshaping, and dropping nothing out."""
    if node.domain not in DOMAINS:
        return False
    return node.operator in _VIEWS or (node.operator == "Dropout" and not training)


def is_weight(node: Occurrence, index: int) -> bool:
    """Return whether an input that the file holds is learned, by its type and position."""
    value = node.input(index)
    if value is None or not value.dims or index in _SETTINGS.get(node.operator, ()):
        return False
    if value.dtype in FLOATS:
        constant = value.origin is Origin.CONSTANT and index in _WEIGHTS.get(node.operator, ())
        return constant or value.origin is Origin.INITIALIZER
    quantized = value.dtype in QUANTIZED or (value.dtype == "int32" and node.operator == "QLinearConv" and index == 8)
    taken = node.operator in _QUANTIZED_PRODUCTS or node.operator in ("DequantizeLinear", "MatMulNBits")
    return value.origin is Origin.INITIALIZER and quantized and taken


def rows(node: Occurrence, *, training: bool) -> list[Row]:
    """Return the node's operators in the forward pass, as a graph document has them; most are one."""
    row: Row = {"name": node.name[:256], "phase": "Forward", "repeat": node.repeat, "dtype": dtype_of(node)}
    if launches_nothing(node, training=training):
        return [{**row, "class": "copy", "kernels": 0}]
    cls = class_of(node)
    read, written = bytes_read(node, training=training), sum(value.bytes for value in node.written)
    outputs = sum(value.elements for value in node.written)
    row.update(bytesRead=read, bytesWritten=written, outputElements=outputs, kernels=_KERNELS.get(node.operator, 1))
    found = products.of(node, cls) if cls in MATRIX and cls is not None else []
    if found:
        return [_product_row(row, product, len(found)) for product in found]
    row["class"] = "other" if cls is None or cls in MATRIX else cls
    return [{**row, "flops": _simple_flops(node, str(row["class"]))}]


def dtype_of(node: Occurrence) -> str:
    """Return the type that the node computes in."""
    if node.domain in DOMAINS and (node.operator in _QUANTIZED_PRODUCTS or _is_quantized(node)):
        return "int8"
    values = node.written or node.read
    return values[0].dtype if values else "fp32"


def _is_quantized(node: Occurrence) -> bool:
    """Return whether a product, written for floats, has been given quantized tensors."""
    return _CLASS_OF.get(node.operator) in ("conv", "matmul") and all(v.dtype in QUANTIZED for v in node.read[:2])


def bytes_read(node: Occurrence, *, training: bool) -> int:
    """Return what it reads of its inputs.

    A lookup picks, and statistics over a batch or group need a pass of their own.
    """
    values = node.read
    read = sum(value.bytes for value in values)
    if node.operator in ("Gather", "GatherElements", "GatherND", "Slice", "EmbedLayerNormalization"):
        return min(read, sum(value.bytes for value in [*node.written, *values[1:]]))
    if node.operator in ("Shape", "Size", "ConstantOfShape", "Range", "EyeLike", "RandomNormalLike"):
        return 0
    if node.operator in ("GroupNormalization", "InstanceNormalization") or (
        node.operator == "BatchNormalization" and training
    ):
        return 2 * read
    return read


def _is_table(node: Occurrence) -> bool:
    table = node.input(0)
    return table is not None and table.static and table.floats and len(table.dims) == 2 and not node.whole("axis", 0)


def _product_row(row: Row, product: products.Product, count: int) -> Row:
    shared = {key: -(-row[key] // count) for key in ("bytesRead", "bytesWritten", "outputElements")}
    values = {"class": product.cls, "kernels": product.kernels, "flops": product.flops, "dims": product.dims}
    return {**row, **shared, **values}


def _simple_flops(node: Occurrence, cls: str) -> int:
    written = max((value.elements for value in node.written), default=0)
    read = max((value.elements for value in node.read), default=0)
    elements = written if cls == "elementwise" else max(read, written)
    return elements * _FLOPS_PER_ELEMENT.get(cls, 0)


def flops(node: Occurrence) -> int:
    """Of all its repetitions, forward."""
    return 0 if node.folded else node.repeat * sum(row.get("flops", 0) for row in rows(node, training=False))


def weights(node: Occurrence) -> list[Value]:
    """Return the inputs that are learned."""
    return [value for index, value in enumerate(node.inputs) if value is not None and is_weight(node, index)]
