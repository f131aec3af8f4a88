"""Hugging Face configurations: text, images, sound, and both; what is wrong with one is said before it is built."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

from cotenant_api import cli, errors
from cotenant_api.graph import Graph, Phase
from cotenant_predictor.extraction import huggingface

Extract = Callable[..., Graph]
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


def extracted(extract: Extract, config: Any, architecture: str, *, mode: str = "Training", **options: Any) -> Graph:
    config.architectures = [architecture]
    settings = huggingface.Options(batch_size=2, training=mode == "Training", **options)
    job = huggingface.job(config, settings)
    return extract(job, mode=mode, batchSize=2, examples=huggingface.EXAMPLES)


@pytest.mark.parametrize(
    ("kind", "architecture", "parameters"),
    [
        # As the models' cards and papers give them; the head of a classifier here has two labels.
        ("BertConfig", "BertModel", 109_482_240),
        ("BertConfig", "BertForSequenceClassification", 109_482_240 + 2 * 769),
        ("GPT2Config", "GPT2LMHeadModel", 124_439_808),
        ("DistilBertConfig", "DistilBertModel", 66_362_880),
        ("LlamaConfig", "LlamaForCausalLM", 6_738_415_616),
        ("MistralConfig", "MistralForCausalLM", 7_241_732_096),
        ("T5Config", "T5ForConditionalGeneration", 60_506_624),
        ("ViTConfig", "ViTForImageClassification", 85_798_656 + 2 * 769),
    ],
)
def test_parameters_are_those_published(kind: str, architecture: str, parameters: int, extract: Extract) -> None:
    graph = extracted(extract, getattr(transformers, kind)(), architecture, mode="Inference")
    assert graph.parameters == parameters
    assert graph.coverage.unknown == {}


@pytest.mark.parametrize(
    ("config", "architecture", "names"),
    [
        (lambda: transformers.BertConfig(**SMALL), "BertForMaskedLM", {"input_ids", "labels"}),
        (
            lambda: transformers.BertConfig(**SMALL),
            "BertForQuestionAnswering",
            {"input_ids", "start_positions", "end_positions"},
        ),
        (
            lambda: transformers.DebertaV2Config(**SMALL),
            "DebertaV2ForSequenceClassification",
            {"input_ids", "labels"},
        ),
        (
            lambda: transformers.BartConfig(d_model=64, encoder_layers=1, decoder_layers=1),
            "BartForConditionalGeneration",
            {"input_ids", "decoder_input_ids", "labels"},
        ),
        (lambda: transformers.ViTConfig(**SMALL), "ViTForImageClassification", {"pixel_values", "labels"}),
        (
            lambda: transformers.SwinConfig(depths=[1, 1], num_heads=[2, 4], embed_dim=32),
            "SwinForImageClassification",
            {"pixel_values", "labels"},
        ),
        (transformers.SegformerConfig, "SegformerForSemanticSegmentation", {"pixel_values", "labels"}),
        (lambda: transformers.Wav2Vec2Config(**SMALL), "Wav2Vec2ForCTC", {"input_values"}),
        (
            lambda: transformers.WhisperConfig(d_model=384, encoder_layers=1, decoder_layers=1),
            "WhisperForConditionalGeneration",
            {"input_features", "decoder_input_ids", "labels"},
        ),
        (lambda: transformers.ASTConfig(**SMALL), "ASTForAudioClassification", {"input_values", "labels"}),
        (transformers.CLIPConfig, "CLIPModel", {"input_ids", "pixel_values"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text_vision_and_speech_train(config: Any, architecture: str, names: set[str], extract: Extract) -> None:
    made = config()
    graph = extracted(extract, made, architecture)
    assert {op.phase for op in graph.operators} == set(Phase)
    assert graph.coverage.unknown == {}
    made.architectures = [architecture]
    shapes = huggingface._shapes(getattr(transformers, architecture), made, huggingface.Options(batch_size=2))
    assert set(shapes) == names


def test_length_and_shapes_can_be_declared(extract: Extract) -> None:
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=16)
    declared = {"pixel_values": (2, 3, 32, 32)}
    graph = extracted(extract, config, "ViTModel", mode="Inference", shapes=declared)
    assert graph.input_bytes_per_step == 4 * 2 * 3 * 32 * 32
    text = extracted(extract, transformers.BertConfig(**SMALL), "BertModel", mode="Inference", tokens=48)
    assert text.input_bytes_per_step == 8 * 2 * 48


def test_mixture_of_experts_counts_its_grouped_products(extract: Extract) -> None:
    config = transformers.MixtralConfig(**SMALL, num_key_value_heads=2, vocab_size=100, num_local_experts=4)
    graph = extracted(extract, config, "MixtralForCausalLM", mode="Inference", tokens=16)
    grouped = [op for op in graph.operators if op.name == "aten::_grouped_mm"]
    tokens = 2 * 16 * config.num_experts_per_tok
    assert {op.operator_class.value for op in grouped} == {"matmul"}
    assert sum(op.flops * op.repeat for op in grouped) == 2 * tokens * 3 * 64 * 128 * config.num_hidden_layers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    content = {**SMALL, "model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path / "tiny"


@pytest.mark.parametrize("file", ["", "config.json"])
def test_command_takes_a_folder_or_its_file(file: str, folder: Path) -> None:
    output = folder / "graph.json.gz"
    arguments = ["--batch-size", "4", "--sequence-length", "16", "--compile", "--output", str(output)]
    assert cli.main(["extract", str(folder / file), *arguments]) == 0
    graph = Graph.read(output.read_bytes(), source="graph.json.gz")
    assert (graph.name, graph.compiled, graph.batch_size) == ("tiny", True, 4)
    assert graph.input_bytes_per_step == 8 * 4 * 16 + 8 * 4


def test_another_architecture_can_be_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--batch-size", "1", "--mode", "Inference", "--architecture", "BertForTokenClassification"]
    assert cli.main(["extract", str(folder), *arguments]) == 0
    graph = Graph.from_json(capsys.readouterr().out, source="standard output")
    assert graph.coverage.unknown == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sequence-length", "600"], "--sequence-length: 600: must be at most 512"),
        (["--architecture", "BertForNothing"], "has no model of this name"),
        (["--input-shape", "nothing=4,2"], "must be NAME=4,.. of one of attention_mask, input_ids"),
        (["--input-shape", "input_ids=3,2"], "must be NAME=4,.."),
        (["--input-shape", "input_ids"], "must be NAME=8,3,224,224"),
        (["--input-shape", "input_ids=4,-1"], "every size 1 or more"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["extract", str(folder), "--batch-size", "4", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"model_type": "be', "must be a whole config.json"),
        ("[]", "must be there"),
        ('{"architectures": ["BertModel"]}', "must be there: it says what model this is"),
        ('{"model_type": "nobody-knows"}', "cannot use it"),
        ('{"model_type": "bert", "hidden_size": "wide"}', "cannot use it"),
    ],
)
def test_damaged_configuration_is_refused_with_its_place(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(errors.InvalidInputError, match=message):
        huggingface.read(tmp_path)


def test_missing_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="No such file"):
        huggingface.read(tmp_path)
