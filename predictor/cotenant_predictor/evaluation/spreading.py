"""Time of one training step that is spread over GPUs, from the graph of one of them and documented formulas. Pure.

With g GPUs, links of B bytes per second in one direction, and a share e of B that collectives reach,

    all-reduce of n bytes       2 (g - 1) / g x n / (e B)                              ring (Patarasuk, Yuan 2009)
    dp   whole samples          forward + backward + all-reduce of all gradients       Megatron overlaps none by default
    tp   a part of each layer   forward + backward of the parts + 4 all-reduces of a layer's activations
                                (Shoeybi et al. 2019: two forward, two backward)
    pp   layers in turn         forward + backward + 2 (g - 1) sends of a layer's activations; of m micro-batches
                                (m + g - 1) / (m g) of the whole remains (Huang et al. 2019)
"""

import math
from typing import Final

from cotenant_api.graph import Graph, Operator, OperatorClass, Phase
from cotenant_predictor.datasets.language_models import Spread

LINK_EFFICIENCY: Final = 0.8
"""Assumption: what large collectives reach of the links' rate."""
_ALL_REDUCES: Final = 4
_ACTIVATION_BYTES: Final = 4


def part(graph: Graph, spread: Spread) -> Graph:
    """Return the graph that one of the GPUs runs: for `tp` a part of every layer, else all of it."""
    if spread.strategy != "tp":
        return graph
    hidden = _hidden_elements(graph)
    parts = tuple(_part(operator, spread.gpus, hidden=hidden, tokens=_tokens(graph)) for operator in graph.operators)
    return graph.model_copy(update={"operators": parts})


def exchange_seconds(graph: Graph, spread: Spread, *, link_bytes_per_second: float) -> float:
    """Time that nothing hides of what the GPUs send each other, beside the time of `part`."""
    rate = link_bytes_per_second * LINK_EFFICIENCY
    activations = _hidden_elements(graph) * _ACTIVATION_BYTES
    around = 2 * (spread.gpus - 1) / spread.gpus
    if spread.strategy == "dp":
        return around * graph.parameter_bytes / rate
    if spread.strategy == "tp":
        return _layers(graph) * _ALL_REDUCES * around * activations / rate
    return 2 * (spread.gpus - 1) * activations / rate


def busy_share(spread: Spread) -> float:
    """Share of the graph's own time that a step takes where layers run in turn."""
    if spread.strategy != "pp":
        return 1.0
    return (spread.micro_batches + spread.gpus - 1) / (spread.micro_batches * spread.gpus)


def _norms(graph: Graph) -> list[Operator]:
    found = [one for one in graph.operators if one.operator_class is OperatorClass.NORM]
    return [one for one in found if one.phase is Phase.FORWARD]


def _hidden_elements(graph: Graph) -> int:
    """Elements of what a layer hands to the next: what most normalisations write."""
    return max(_norms(graph), key=lambda one: one.repeat).output_elements


def _layers(graph: Graph) -> int:
    """Two normalisations a layer, and one at the end."""
    return sum(one.repeat for one in _norms(graph)) // 2


def _tokens(graph: Graph) -> int:
    """Rows of the products of a layer with weights."""
    weights = [one for one in graph.operators if one.operator_class is OperatorClass.MATMUL and one.dims["b"] == 1]
    return max((one for one in weights if one.phase is Phase.FORWARD), key=lambda one: one.repeat).dims["m"]


def _part(operator: Operator, gpus: int, *, hidden: int, tokens: int) -> Operator:
    """One GPU's part of an operator; what works on the activations between layers is not divided."""
    if operator.operator_class is not OperatorClass.MATMUL:
        return operator if operator.output_elements <= hidden else _divided(operator, gpus, dict(operator.dims))
    dims = dict(operator.dims)
    axis = "b" if dims["b"] > 1 else max((name for name in "kmn" if dims[name] != tokens), key=lambda name: dims[name])
    dims[axis] = math.ceil(dims[axis] / gpus)
    return _divided(operator, gpus, dims)


def _divided(operator: Operator, gpus: int, dims: dict[str, int]) -> Operator:
    amounts = ("flops", "bytes_read", "bytes_written", "output_elements")
    return operator.model_copy(
        update={"dims": dims, **{name: math.ceil(getattr(operator, name) / gpus) for name in amounts}}
    )
