"""`cotenant size`: a command line and a configuration in, what to book out."""

import argparse
import json
from pathlib import Path

import pytest

from cotenant_api import cli, errors
from cotenant_predictor.commands import size
from predictor.serving_logs import LLAMA_8B

VLLM = ["vllm", "serve", "m", "--max-model-len", "8192"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    return tmp_path


def asked(*words: str, rest: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    size.configure(parser)
    found = parser.parse_args(words)
    found.rest = rest
    return found


def test_a_document_for_each_gpu_model_says_what_to_book(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ("--gpu-model", "NVIDIA-L40S", "--gpu-model", "Tesla-T4")
    assert cli.main(["size", str(config), *models, "--", *VLLM]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["gpuModel"], one["fits"]) for one in found] == [("NVIDIA-L40S", True), ("Tesla-T4", False)]
    assert found[0]["sharePercent"] is None
    assert 8192 * 131072 < found[0]["kvCacheBytes"] < 8400 * 131072


def test_a_table_names_the_options_of_the_one_gpu_model(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(config / "config.json"), "--gpu-model", "NVIDIA-H200", "--requests-per-second", "2", "-o", "table"]
    assert cli.main(["size", *words, "--", *VLLM]) == 0
    out = capsys.readouterr().out
    assert "llama, 8.03 billion parameters, bf16" in out
    assert "128.0 KiB a token" in out
    assert "--kv-cache-memory-bytes" in out


@pytest.mark.parametrize(
    ("words", "rest", "says"),
    [
        (("{config}",), [], "COMMAND: '': say behind -- how the server is started"),
        (("{config}", "-o", "yaml", "--image", "i"), VLLM, "--gpu-model: []: name the one that the Deployment is for"),
        (("{config}", "-o", "yaml", "--gpu-model", "NVIDIA-L40S"), VLLM, "--image: None: must be given with -o yaml"),
        (("{config}", "--image", "i"), VLLM, "--image: 'i': needs -o yaml"),
        (("{config}", "--name", "n"), VLLM, "--name: 'n': needs -o yaml"),
        (("{config}/none.json",), VLLM, "cannot be read: No such file"),
        (("{config}", "--sequences", "0"), VLLM, "--sequences: 0: must be from 1 to 100000"),
        (("{config}", "--requests-per-second", "0"), VLLM, "--requests-per-second: 0.0: must be above 0"),
        (("{config}", "--requests-per-second", "1", "--milliseconds-per-token", "1e300"), VLLM, "at most 1000000"),
        (("{config}", "--gpu-model", "L40"), VLLM, "--gpu-model: 'L40': is not known"),
        (
            ("{config}", "--requests-per-second", "1", "--prompt-tokens", "9000"),
            VLLM,
            "prompt and answer are longer than a sequence may be: 8192 tokens",
        ),
    ],
)
def test_what_cannot_be_used_is_told(config: Path, words: tuple[str, ...], rest: list[str], says: str) -> None:
    arguments = asked(*(word.format(config=config) for word in words), rest=rest)
    with pytest.raises(errors.InvalidInputError) as caught:
        size.run(arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_what_is_no_configuration_is_told(config: Path, text: str) -> None:
    (config / "config.json").write_text(text)
    with pytest.raises(errors.InvalidInputError, match="CONFIG"):
        size.run(asked(str(config), rest=VLLM))


def test_weights_that_are_described_beside_the_configuration_are_told(config: Path) -> None:
    (config / "hf_quant_config.json").write_text("{}")
    with pytest.raises(errors.InvalidInputError, match=r"hf_quant_config\.json.*says how weights are stored"):
        size.run(asked(str(config), rest=VLLM))
