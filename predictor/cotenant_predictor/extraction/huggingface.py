"""From a Hugging Face configuration to what the extractor takes: the model without weights, and inputs of its shapes.

Needs transformers, and nothing from the network: a configuration is a folder with `config.json`, or that file. The
first of its `architectures` is the model with its head; what it is given follows from the configuration and the model's
`forward`.
"""

import copy
import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from cotenant_api import errors

DEFAULT_TOKENS = 128
SAMPLES_PER_SECOND, DEFAULT_SECONDS = 16_000, 10
EXAMPLES = {
    "find_packed_sequence_indices": True,
    "_ignore_bidirectional_mask_sdpa": True,
    "_ignore_causal_mask_sdpa": True,
    "warn_if_padding_and_no_attention_mask": False,
}
"""What transformers asks of a batch before it makes masks: one sequence a row, nothing padded."""

_PER_SAMPLE = ("SequenceClassification", "ImageClassification", "VideoClassification", "AudioClassification")
_PER_TOKEN = ("CausalLM", "MaskedLM", "LMHeadModel", "TokenClassification")
_PER_TARGET = ("ConditionalGeneration", "Seq2SeqLM")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the configuration leaves open.

    `tokens`: length of text, and `target_tokens` of what a decoder reads; `architecture`: another class of transformers
    than the configuration's first; `shapes`: whole shapes of inputs, by name.
    """

    batch_size: int
    training: bool = True
    tokens: int | None = None
    target_tokens: int | None = None
    architecture: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)


def read(path: Path) -> Any:
    """Return the configuration.

    Raises:
        InvalidInputError: there is none, it is damaged, or transformers does not know its type.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        kind = values.pop("model_type")
    except OSError as error:
        raise errors.InvalidInputError("MODEL", str(file), f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise errors.InvalidInputError("MODEL", str(file), f"must be a whole config.json: {error}") from error
    except (KeyError, AttributeError, TypeError) as error:
        raise errors.InvalidInputError(str(file), "model_type", "must be there: it says what model this is") from error
    try:
        return transformers.AutoConfig.for_model(kind, **values)
    except Exception as error:  # whatever a configuration's own checks raise, each release has its classes
        remedy = f"transformers {transformers.__version__} cannot use it: {str(error).splitlines()[0][:200]}"
        raise errors.InvalidInputError(f"{file}: model_type", kind, remedy) from error


def job(config: Any, options: Options) -> Callable[[], Any]:
    """Return what the extractor calls on the meta device: it returns the model and its inputs by name.

    Raises:
        InvalidInputError: transformers has no such architecture, or a declared size does not fit it.
    """
    kind, settled = _kind(config, options.architecture), _settled(config)
    shapes = _shapes(kind, settled, options)

    def build() -> tuple[nn.Module, dict[str, Tensor]]:
        return _made(kind, settled), {name: _tensor(name, shape) for name, shape in shapes.items()}

    return build


def _kind(config: Any, architecture: str | None) -> Any:
    name = architecture or (config.architectures or [None])[0]
    if name is None:
        known = transformers.AutoModel._model_mapping
        kind = known.get(type(config), None)
    else:
        kind = getattr(transformers, name, None)
    if not isinstance(kind, type) or not issubclass(kind, transformers.PreTrainedModel):
        remedy = f"transformers {transformers.__version__} has no model of this name; name one by --architecture"
        raise errors.InvalidInputError("architectures", name, remedy)
    return kind


def _settled(config: Any) -> Any:
    """Return the configuration without what decides by data.

    Random masks on sounds, a loss chosen by what labels hold.
    """
    settled = copy.deepcopy(config)
    if hasattr(settled, "apply_spec_augment"):
        settled.apply_spec_augment = False
    if getattr(settled, "problem_type", "") is None and settled.num_labels > 1:
        settled.problem_type = "single_label_classification"
    return settled


def _made(kind: Any, config: Any) -> nn.Module:
    try:
        model: nn.Module = kind._from_config(config)
    except (RuntimeError, NotImplementedError):  # it computes with tensors while it is built
        with torch.device("cpu"):
            model = kind._from_config(config)
    return model


def _shapes(kind: Any, config: Any, options: Options) -> dict[str, tuple[int, ...]]:
    takes = inspect.signature(kind.forward).parameters
    shapes = _usual_shapes(kind, config, options)
    for name, shape in options.shapes.items():
        if name not in takes or shape[:1] != (options.batch_size,):
            remedy = (
                f"must be NAME={options.batch_size},.. of one of {', '.join(sorted({*takes} - {'self', 'kwargs'}))}"
            )
            raise errors.InvalidInputError("--input-shape", f"{name}={shape}", remedy)
    shapes.update(options.shapes)
    if options.training:
        shapes.update({**_labels(kind.__name__, shapes, takes), **options.shapes})
    return shapes


def _usual_shapes(kind: Any, config: Any, options: Options) -> dict[str, tuple[int, ...]]:
    takes = inspect.signature(kind.forward).parameters
    batch, name = options.batch_size, getattr(kind, "main_input_name", "input_ids")
    vision, text = getattr(config, "vision_config", None), getattr(config, "text_config", None)
    tokens = _tokens(text or config, options.tokens)
    found: dict[str, tuple[int, ...]] = {}
    if name == "pixel_values" or (vision is not None and "pixel_values" in takes):
        found["pixel_values"] = (batch, *_image(vision or config))
    if name == "input_ids" or (text is not None and "input_ids" in takes):
        found["input_ids"] = (batch, tokens)
    if name == "input_values":
        found["input_values"] = (batch, *_sound(config))
    if name == "input_features":
        found["input_features"] = (batch, *_spectrum(config))
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        targets = options.target_tokens or (tokens if name == "input_ids" else _tokens(config, None))
        found["decoder_input_ids"] = (batch, targets)
    return found


def _labels(
    architecture: str, inputs: Mapping[str, tuple[int, ...]], takes: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Labels by what the head's name says; none for losses that decide by what labels hold: CTC, detection, masks."""
    first = next(iter(inputs.values()))
    if "start_positions" in takes and architecture.endswith("QuestionAnswering"):
        return {"start_positions": first[:1], "end_positions": first[:1]}
    if "labels" not in takes:
        return {}
    if architecture.endswith(_PER_SAMPLE):
        return {"labels": first[:1]}
    if architecture.endswith(_PER_TARGET) and "decoder_input_ids" in inputs:
        return {"labels": inputs["decoder_input_ids"]}
    if architecture.endswith(_PER_TOKEN) and "input_ids" in inputs:
        return {"labels": inputs["input_ids"]}
    return {"labels": (first[0], *first[-2:])} if architecture.endswith("SemanticSegmentation") else {}


def _tokens(config: Any, declared: int | None) -> int:
    bounds = (
        getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_target_positions")
    )
    longest = next((bound for bound in bounds if isinstance(bound, int) and bound > 0), None)
    if declared is not None and longest is not None and declared > longest:
        raise errors.InvalidInputError(
            "--sequence-length", declared, f"must be at most {longest}: the model's positions"
        )
    return declared or min(DEFAULT_TOKENS, longest or DEFAULT_TOKENS)


def _image(config: Any) -> tuple[int, ...]:
    size = getattr(config, "image_size", None) or 224
    if isinstance(size, dict):
        size = (size["height"], size["width"])
    sides = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
    frames = getattr(config, "num_frames", None)
    channels = getattr(config, "num_channels", None) or 3
    return (*((frames,) if frames else ()), channels, *sides)


def _sound(config: Any) -> tuple[int, ...]:
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return (config.max_length, config.num_mel_bins)
    return (SAMPLES_PER_SECOND * DEFAULT_SECONDS,)


def _spectrum(config: Any) -> tuple[int, ...]:
    if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):
        return (config.num_mel_bins, 2 * config.max_source_positions)
    names = ("input_feat_per_channel", "feature_projection_input_dim")
    width = next((getattr(config, name) for name in names if hasattr(config, name)), 80)
    return (100 * DEFAULT_SECONDS, int(width))


def _tensor(name: str, shape: tuple[int, ...]) -> Tensor:
    whole = name.endswith(("ids", "labels", "positions", "mask"))
    return torch.zeros(shape, dtype=torch.long) if whole else torch.zeros(shape)
