"""How the weights of linear layers are stored in fewer bits, as a `config.json` declares it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant_api import suggestions
from cotenant_predictor.serving.fields import Fields


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """How linear layers are stored.

    Attributes:
        bits: of a weight, with its share of scales and zero points.
        experts_only: whether the linear layers of experts alone are stored so.
    """

    bits: float
    experts_only: bool = False


_LEFT_OUT: Final = ("ignore", "modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules", "exclude_modules")
"""Fields that name layers which are stored as they were."""
_NEVER_SHRUNK: Final = re.compile(r"lm_head|embed|norm|(^|[._])gate($|[^_])|router|shared_expert_gate")
"""Of layers that this project takes for not shrunk anyway."""
_KEPT_BESIDE_EXPERTS: Final = re.compile(r"self_attn|attention|attn|" + _NEVER_SHRUNK.pattern)


def declared(fields: Fields) -> Quantization | None:
    """Return what `quantization_config` declares.

    Raises:
        InvalidInputError: by a method that is not known, or not of all linear layers alike.
    """
    found = fields.within("quantization_config")
    if found is None:
        return None
    method = found.word("quant_method")
    if method in {"awq", "gptq"}:
        bits, group = found.count("bits", "w_bit"), found.count("group_size", "q_group_size", default=128, least=-1)
        made = Quantization(bits=grouped(bits, group))
    elif method == "bitsandbytes" and found.flag("load_in_8bit", default=False):
        made = Quantization(bits=8.0)
    elif method in NAMED:
        made = NAMED[method]
    elif method == "compressed-tensors":
        made = _compressed(found)
    else:
        raise found.invalid("quant_method", method, f"is not known; {suggestions.advice(method, METHODS)}")
    _all_alike(found, made)
    return made


def _all_alike(found: Fields, made: Quantization) -> None:
    kept = _KEPT_BESIDE_EXPERTS if made.experts_only else _NEVER_SHRUNK
    for name in _LEFT_OUT:
        for layer in found.items(name) or ():
            if not isinstance(layer, str) or not kept.search(layer):
                raise found.invalid(
                    name, layer, "layers that are stored otherwise than the others are not computed here"
                )
    if found.within("dynamic") is not None:
        raise found.invalid("dynamic", "{..}", "layers that are stored otherwise than the others are not computed here")


def grouped(bits: int, group: int) -> float:
    """Bits of a weight where each `group` of them has a scale of 16 bits and a zero point of its own; -1: a column."""
    return bits + (16 + bits) / group if group > 0 else float(bits)


NAMED: Final[Mapping[str, Quantization]] = {
    "fp8": Quantization(bits=8.0),
    # A scale of 32 bits for 64 weights, and the table of its 16 values.
    "bitsandbytes": Quantization(bits=4.5),
    # A scale of 8 bits for 32 weights; kernels pad both sides of gpt-oss' 2880 x 2880 to 3072.
    "mxfp4": Quantization(bits=4.25 * (3072 / 2880) ** 2, experts_only=True),
}
METHODS: Final = ("awq", "gptq", "compressed-tensors", *NAMED)


def _compressed(found: Fields) -> Quantization:
    groups = found.within("config_groups")
    kinds = {_bits(group, name) for name, group in groups.objects()} if groups is not None else set()
    if len(kinds) != 1:
        raise found.invalid("config_groups", len(kinds), "must have groups with weights of one kind")
    return Quantization(bits=kinds.pop())


def _bits(group: Fields, name: str) -> float:
    weights = group.within("weights")
    if weights is None:
        raise group.invalid("weights", None, f"must be there: {name} says how weights are stored")
    bits = weights.count("num_bits")
    return grouped(bits, weights.count("group_size", default=-1, least=-1)) if bits < 8 else float(bits)
