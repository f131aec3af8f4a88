"""Families of language models: what the fields of their `config.json` say of their layers.

Counts are those of transformers' own code (`tests/torch/test_serving_counts.py` holds each family against it), without
what a server pads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_api import suggestions
from cotenant_predictor.serving import architecture, quantization
from cotenant_predictor.serving.architecture import LanguageModel, Layer
from cotenant_predictor.serving.fields import Fields


def read(config: Mapping[str, Any], *, source: str) -> LanguageModel:
    """Read a model.

    Raises:
        InvalidInputError: it is of a family that is not known, or a field is missing or no size.
    """
    fields = Fields(config, source)
    family = fields.word("model_type")
    if not family:
        raise fields.invalid("model_type", None, "must be there: it says what model this is")
    reader = _READERS.get(family)
    if reader is None:
        raise fields.invalid("model_type", family, f"is not known; {suggestions.advice(family, _READERS)}")
    return reader(family, fields)


def families() -> tuple[str, ...]:
    """Return what `model_type` may be."""
    return tuple(sorted(_READERS))


def _made(  # noqa: PLR0913 -- what every family says of itself
    family: str,
    fields: Fields,
    *,
    layers: list[Layer],
    widest: int,
    query_heads: int,
    other: int,
    positions: int = 0,
    tied: bool = False,
) -> LanguageModel:
    """Return a model with embeddings of as many tokens as its vocabulary, and of so many positions."""
    vocabulary, width = fields.count("vocab_size"), _width(fields)
    head = 0 if fields.flag("tie_word_embeddings", default=tied) else vocabulary * width
    return LanguageModel(
        family=family,
        layers=tuple(layers),
        embedding=(vocabulary + positions) * width,
        head=head,
        other=other,
        vocabulary=vocabulary,
        width=width,
        widest=widest,
        query_heads=query_heads,
        context=fields.count("max_position_embeddings", "n_positions", default=2048),
        dtype=_dtype(fields),
        quantization=quantization.declared(fields),
    )


def _width(fields: Fields) -> int:
    return fields.count("hidden_size", "n_embd")


def _dtype(fields: Fields) -> str:
    name = (fields.word("dtype") or fields.word("torch_dtype", default="float32")).removeprefix("torch.")
    if name not in architecture.TYPES:
        raise fields.invalid("torch_dtype", name, f"must be one of {', '.join(architecture.TYPES)}")
    return architecture.TYPES[name]


@dataclass(frozen=True)
class _Heads:
    """Attention with queries of `queries` heads, and keys and values of `kv`."""

    queries: int
    kv: int
    size: int

    def linear(self, width: int) -> int:
        return 2 * width * self.size * (self.queries + self.kv)

    def biases(self, width: int, *, output: bool) -> int:
        return self.size * (self.queries + 2 * self.kv) + (width if output else 0)

    @property
    def kv_values(self) -> int:
        return 2 * self.kv * self.size


def _heads(fields: Fields, *, grouped: bool = True) -> _Heads:
    queries = fields.count("num_attention_heads", "n_head")
    kv = fields.count("num_key_value_heads", default=queries) if grouped else queries
    size = fields.count("head_dim", default=max(_width(fields) // queries, 1))
    if queries % kv:
        raise fields.invalid("num_key_value_heads", kv, f"must divide num_attention_heads, which is {queries}")
    return _Heads(queries, kv, size)


def _windows(fields: Fields, number: int, *, every: int | None = None) -> list[int | None]:
    """Return how far each layer looks back.

    By `layer_types`, else each `every`-th layer at all, the others by the window.
    """
    window = fields.count("sliding_window", default=0, least=0) or None
    kinds = fields.items("layer_types")
    if kinds is not None:
        if len(kinds) != number:
            raise fields.invalid("layer_types", len(kinds), f"must name the kind of each of the {number} layers")
        return [window if kind == "sliding_attention" else None for kind in kinds]
    if every is None:
        return [window] * number
    return [None if (place + 1) % every == 0 else window for place in range(number)]


def _llama(family: str, fields: Fields) -> LanguageModel:
    """Gated feed-forward, RMS norms, grouped-query attention: Llama, Mistral, Qwen, Phi-3, Gemma and their like."""
    heads, width, number = _heads(fields), _width(fields), fields.count("num_hidden_layers")
    inner = fields.count("intermediate_size")
    biased, biased_output = {
        "qwen2": (True, False),
        "phi3": (False, False),
    }.get(family, (fields.flag("attention_bias", default=False),) * 2)
    norms = {"gemma2": 4, "gemma3_text": 4}.get(family, 2) * width
    norms += 2 * heads.size if family in {"qwen3", "gemma3_text"} else 0
    other = norms + (heads.biases(width, output=biased_output) if biased else 0)
    if fields.flag("mlp_bias", default=False):
        other += 2 * inner + width
    one = {"attention": heads.linear(width), "dense": 3 * width * inner, "other": other}
    layers = [
        Layer(**one, kv_values=heads.kv_values, kv_heads=heads.kv, window=window)
        for window in _windows_of(family, fields, number)
    ]
    return _made(
        family,
        fields,
        layers=layers,
        widest=3 * inner,
        query_heads=heads.queries,
        other=width,
        tied=family.startswith("gemma"),
    )


def _windows_of(family: str, fields: Fields, number: int) -> list[int | None]:
    if family == "gemma2":
        return _windows(fields, number, every=2)
    if family == "gemma3_text":
        return _windows(fields, number, every=fields.count("sliding_window_pattern", default=6))
    if family in {"mistral", "mixtral"} or fields.items("layer_types") is not None:
        return _windows(fields, number)
    if family == "phi3":
        return _windows(fields, number)
    # The others have the field and do not use it unless they say so, and then from some layer on.
    first = fields.count("max_window_layers", default=28, least=0)
    first = first if fields.flag("use_sliding_window", default=False) else number
    return [None if place < first else window for place, window in enumerate(_windows(fields, number))]


def _experts(family: str, fields: Fields) -> LanguageModel:
    """Return the same attention, and of the feed-forward networks a few for each token: Mixtral, Qwen's mixtures."""
    heads, width, number = _heads(fields), _width(fields), fields.count("num_hidden_layers")
    experts = fields.count("num_local_experts", "num_experts")
    each = fields.count("moe_intermediate_size", "intermediate_size")
    shared = fields.count("shared_expert_intermediate_size", default=0, least=0) if family == "qwen2_moe" else 0
    used = fields.count("num_experts_per_tok")
    if used > experts:
        raise fields.invalid("num_experts_per_tok", used, f"must be at most the number of experts, {experts}")
    biased = family == "qwen2_moe" and fields.flag("qkv_bias", default=True)
    other = 2 * width + (heads.biases(width, output=False) if biased else 0)
    other += 2 * heads.size if family == "qwen3_moe" else 0
    plain = set(fields.items("mlp_only_layers") or ())
    step = fields.count("decoder_sparse_step", default=1)
    windows = _windows_of(family, fields, number)
    inner = fields.count("intermediate_size")
    layers = []
    for place, window in enumerate(windows):
        common: dict[str, Any] = {"attention": heads.linear(width), "kv_values": heads.kv_values}
        common |= {"kv_heads": heads.kv, "window": window}
        if place in plain or (place + 1) % step:
            layers.append(Layer(**common, dense=3 * width * inner, other=other))
            continue
        router = width * experts + (width if shared else 0)
        layers.append(
            Layer(
                **common,
                dense=3 * width * shared,
                experts=3 * width * each * experts,
                used=3 * width * each * used,
                other=other + router,
            )
        )
    return _made(
        family,
        fields,
        layers=layers,
        widest=3 * (each * used + shared),
        query_heads=heads.queries,
        other=width,
    )


def _gpt_oss(family: str, fields: Fields) -> LanguageModel:
    """Experts with biases, attention with sinks; every second layer looks back at a window."""
    heads, width, number = _heads(fields), _width(fields), fields.count("num_hidden_layers")
    experts, each = fields.count("num_local_experts"), fields.count("intermediate_size")
    used = fields.count("num_experts_per_tok", "experts_per_token")
    biases = heads.biases(width, output=True) + heads.queries + experts * (2 * each + width)
    layers = [
        Layer(
            attention=heads.linear(width),
            experts=3 * width * each * experts,
            used=3 * width * each * used,
            other=2 * width + biases + (width + 1) * experts,
            kv_values=heads.kv_values,
            kv_heads=heads.kv,
            window=window,
        )
        for window in _windows(fields, number, every=2)
    ]
    return _made(
        family,
        fields,
        layers=layers,
        widest=3 * each * used,
        query_heads=heads.queries,
        other=width,
    )


def _deepseek(family: str, fields: Fields) -> LanguageModel:
    """Multi-head latent attention: of each token one vector is kept, whatever the number of heads."""
    width, number = _width(fields), fields.count("num_hidden_layers")
    queries = fields.count("num_attention_heads")
    rank, rope = fields.count("kv_lora_rank"), fields.count("qk_rope_head_dim")
    nope, value = fields.count("qk_nope_head_dim"), fields.count("v_head_dim")
    narrowed = fields.count("q_lora_rank", default=0, least=0)
    ask = queries * (nope + rope)
    attention = narrowed * (width + ask) if narrowed else width * ask
    attention += width * (rank + rope) + rank * queries * (nope + value) + queries * value * width
    experts, used = fields.count("n_routed_experts"), fields.count("num_experts_per_tok")
    each = fields.count("moe_intermediate_size")
    shared = each * fields.count("n_shared_experts", default=0, least=0)
    first, step = fields.count("first_k_dense_replace", default=0, least=0), fields.count("moe_layer_freq", default=1)
    inner = fields.count("intermediate_size")
    other = 2 * width + rank + narrowed
    common: dict[str, Any] = {"attention": attention, "kv_values": rank + rope, "kv_heads": 0}
    layers = []
    for place in range(number):
        if place < first or place % step:
            layers.append(Layer(**common, dense=3 * width * inner, other=other))
            continue
        router = width * experts + (experts if family == "deepseek_v3" else 0)
        layers.append(
            Layer(
                **common,
                dense=3 * width * shared,
                experts=3 * width * each * experts,
                used=3 * width * each * used,
                other=other + router,
            )
        )
    return _made(
        family,
        fields,
        layers=layers,
        widest=max(3 * inner, 3 * (each * used + shared)),
        query_heads=queries,
        other=width,
    )


def _gpt2(family: str, fields: Fields) -> LanguageModel:
    """Learned positions, layer norms, biases everywhere: GPT-2."""
    heads, width = _heads(fields, grouped=False), _width(fields)
    inner = fields.count("n_inner", default=4 * width)
    return _plain(
        family, fields, inner, number=fields.count("n_layer"), heads=heads, positions=fields.count("n_positions")
    )


def _gpt_neox(family: str, fields: Fields) -> LanguageModel:
    """Rotary positions, layer norms, biases: GPT-NeoX and Pythia."""
    number, inner = fields.count("num_hidden_layers"), fields.count("intermediate_size")
    return _plain(family, fields, inner, number=number, heads=_heads(fields, grouped=False), positions=0, tied=False)


def _opt(family: str, fields: Fields) -> LanguageModel:
    """Learned positions, two more of them than it has, layer norms, biases: OPT."""
    width, narrow = _width(fields), fields.count("word_embed_proj_dim", default=_width(fields))
    if narrow != width or not fields.flag("do_layer_norm_before", default=True):
        raise fields.invalid("word_embed_proj_dim", narrow, "must be hidden_size, with do_layer_norm_before: true")
    positions = fields.count("max_position_embeddings") + 2
    inner = fields.count("ffn_dim")
    number = fields.count("num_hidden_layers")
    return _plain(family, fields, inner, number=number, heads=_heads(fields, grouped=False), positions=positions)


def _plain(  # noqa: PLR0913 -- what these families differ in
    family: str, fields: Fields, inner: int, *, number: int, heads: _Heads, positions: int, tied: bool = True
) -> LanguageModel:
    width = _width(fields)
    layer = _plain_layer(heads, width, inner, caches=True)
    return _made(
        family,
        fields,
        layers=[layer] * number,
        widest=2 * inner,
        query_heads=heads.queries,
        other=2 * width,
        positions=positions,
        tied=tied,
    )


def _plain_layer(heads: _Heads, width: int, inner: int, *, caches: bool) -> Layer:
    """Return a layer with biases everywhere and two layer norms; `caches`: whether it keeps what it has read."""
    return Layer(
        attention=heads.linear(width),
        dense=2 * width * inner,
        other=heads.biases(width, output=True) + inner + width + 4 * width,
        kv_values=heads.kv_values if caches else 0,
        kv_heads=heads.kv if caches else 0,
    )


def _bert(family: str, fields: Fields) -> LanguageModel:
    """Return an encoder with a pooler, without a cache: BERT and RoBERTa, embeddings and rerankers made of them."""
    heads, width = _heads(fields, grouped=False), _width(fields)
    inner, number = fields.count("intermediate_size"), fields.count("num_hidden_layers")
    vocabulary = fields.count("vocab_size")
    tables = vocabulary + fields.count("max_position_embeddings") + fields.count("type_vocab_size", default=2)
    layer = _plain_layer(heads, width, inner, caches=False)
    return LanguageModel(
        family=family,
        layers=(layer,) * number,
        embedding=tables * width,
        head=0,
        other=2 * width + width * width + width,
        vocabulary=0,
        width=width,
        widest=2 * inner,
        query_heads=heads.queries,
        context=fields.count("max_position_embeddings"),
        dtype=_dtype(fields),
        quantization=quantization.declared(fields),
    )


_GATED: Final = ("gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "phi3", "qwen2", "qwen3")
_READERS: Final[Mapping[str, Callable[[str, Fields], LanguageModel]]] = {
    **dict.fromkeys(_GATED, _llama),
    **dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe"), _experts),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), _deepseek),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta"), _bert),
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "opt": _opt,
}
