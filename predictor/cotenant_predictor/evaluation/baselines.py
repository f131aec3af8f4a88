"""What the model is compared with: a constant, the formula alone, and the published way with hand-made features.

`horus-rf` and `horus-gbm` follow the text of "Towards GPU utilization prediction for cloud deep learning" (HotCloud
2020): FLOPs, number of convolution layers, size of the input, counts of layer types, parameters; an LSTM cell is two
linear layers; normalised; a random forest or gradient boosting. The body of the paper's table of features is not
public text, so features that only that table might name are not here.
"""

import collections
from typing import Final

import numpy as np

from cotenant_api.graph import Graph, Operator, OperatorClass, Phase
from cotenant_predictor.jobs.roofline import Array

CONSTANT: Final = "constant"
PHYSICS: Final = "physics"
PHYSICS_KERNELS: Final = "physics-kernels"
"""The formula with learned kernels: what ships says of a job without having learned from any."""
HORUS_RF: Final = "horus-rf"
HORUS_GBM: Final = "horus-gbm"

LAYERS: Final = ("conv", "linear", "norm", "pool", "embedding", "attention", "activation", "other")
FEATURES: Final = ("flops", "input_bytes", "parameters", *(f"layers_{name}" for name in LAYERS))

_LINEAR_PER_RNN = 2
_LAYER_OF_CLASS = {
    OperatorClass.CONV: "conv",
    OperatorClass.MATMUL: "linear",
    OperatorClass.RNN: "linear",
    OperatorClass.NORM: "norm",
    OperatorClass.POOL: "pool",
    OperatorClass.EMBEDDING: "embedding",
    OperatorClass.ATTENTION: "attention",
}
_ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh", "elu", "hardswish", "hardtanh", "mish", "softmax")


def hand_features(graph: Graph) -> Array:
    """Return the published features of one graph, shape (n_features,), columns as `FEATURES`; not normalised.

    FLOPs and layers are those of the forward pass, as one counts them by walking over a model's layers.
    """
    layers: collections.Counter[str] = collections.Counter()
    flops = 0
    for operator in graph.operators:
        if operator.phase is Phase.FORWARD:
            flops += operator.repeat * operator.flops
            if operator.kernels:
                layers[_layer_of(operator)] += operator.repeat * _layers_in(operator)
    counts = [float(layers[name]) for name in LAYERS]
    return np.array([float(flops), float(graph.input_bytes_per_step), float(graph.parameters), *counts])


def constant(measured: Array, *, percent: bool) -> float:
    """Return the best single value: where log(1 + x) is centred for percentages, the median for other amounts."""
    return float(np.expm1(np.mean(np.log1p(measured)))) if percent else float(np.median(measured))


def _layer_of(operator: Operator) -> str:
    if operator.operator_class is OperatorClass.ELEMENTWISE:
        return "activation" if any(name in operator.name for name in _ACTIVATIONS) else "other"
    return _LAYER_OF_CLASS.get(operator.operator_class, "other")


def _layers_in(operator: Operator) -> int:
    return _LINEAR_PER_RNN if operator.operator_class is OperatorClass.RNN else 1
